"""Finding files and text in a directory tree: ripgrep when it is there, our own engine when not."""
