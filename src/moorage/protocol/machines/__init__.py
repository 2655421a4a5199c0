"""The two state machines of the protocol and what they are made of; no I/O."""
