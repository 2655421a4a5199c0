"""The host's side of a session: which environment, one connection, a durable record."""
