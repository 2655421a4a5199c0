"""Bytes to and from one worker."""
