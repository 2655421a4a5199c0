"""The two live ends of the protocol."""
