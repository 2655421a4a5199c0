"""Permitted folders held open, and what may be opened below them without leaving."""
