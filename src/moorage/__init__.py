"""The execution layer for AI agents."""
