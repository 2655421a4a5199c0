"""Children and their lifetime: what to start, the running child, its supervisor."""
