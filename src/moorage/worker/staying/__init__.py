"""A worker that outlives the way to it: how it serves, and how a host reaches it."""
