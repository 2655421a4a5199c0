"""What an image file is, by pure code of ours; a program that decodes one, confined."""
