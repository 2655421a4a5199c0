"""What optional extensions add to a session, and what they may use."""
