"""The command line: one module per noun, each loaded only when it is called."""
