"""Doors to environments: each provisions or adopts one and hands out a transport to its worker."""
