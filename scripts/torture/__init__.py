"""Tortures background processes at random, and proves from what is left that it did no harm."""
