"""Decisions on the text of files: where it differs, which lines, what it is like; pure."""
