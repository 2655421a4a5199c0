"""Who starts children: a nursery, forked before the worker grows, and its launchers."""

from __future__ import annotations

from moorage.confine.nursery.hold import FIRST_CALL, EarlyChild, Launch, Nursery, start_nursery
from moorage.confine.nursery.loop import ALL_GONE

__all__ = ["ALL_GONE", "FIRST_CALL", "EarlyChild", "Launch", "Nursery", "start_nursery"]
