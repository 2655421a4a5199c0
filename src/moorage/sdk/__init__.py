"""What authors of execution backends build on: serve a backend, or delegate to a peer."""
