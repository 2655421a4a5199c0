"""Public aids for tests: protocol conversations, conformance, fakes."""
