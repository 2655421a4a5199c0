"""Pure decisions that host and worker each take for themselves, from one text."""
