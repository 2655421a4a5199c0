"""How a worker inside an environment is reached: the end of every way there."""

from __future__ import annotations

from moorage.backends.backend import Placement

DEFAULT_IDLE_SECONDS = 600


def connect_words(placement: Placement, *also: str) -> tuple[str, ...]:
    """Return what stands after the worker's own name: which worker, and what it may.

    ``also`` are further options, such as ``--end``.
    """
    idle = placement.profile.lifetime_seconds or DEFAULT_IDLE_SECONDS
    return (
        "connect",
        f"--name={placement.identity}-{placement.session}",
        f"--idle-seconds={idle}",
        f"--mode={placement.mode.value}",
        *also,
    )
