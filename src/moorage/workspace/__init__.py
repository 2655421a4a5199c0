"""Abilities on a directory tree, typed, unaware of models and wire."""
