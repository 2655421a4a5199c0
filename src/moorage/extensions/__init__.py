"""Optional extensions: tools of the host's own, which a user switches on by name."""
