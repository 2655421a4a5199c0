"""The execution protocol, version 4: pure messages, codec and the two state machines."""
