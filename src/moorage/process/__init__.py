"""Children and their lifetime: what to start, the running child, and the supervisor that owns it."""
