"""Providers: what a worker serves inside an environment."""
