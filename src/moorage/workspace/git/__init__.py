"""Git as a tool may use it: which calls are allowed, and what a status means."""
