"""The composition root: where configuration, state and the rooms below are put together."""
