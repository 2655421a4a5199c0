"""Every duration and size of managed processes."""

from __future__ import annotations

import msgspec


class ManagedLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long things may take, and how much is kept."""

    stop_grace_seconds: float = 2.0
    """From SIGTERM to SIGKILL when a process is stopped."""

    kill_seconds: float = 2.0
    """How long a tree may take to disappear after SIGKILL before it is reported as remaining."""

    drain_seconds: float = 0.25
    """How long output of what outlived a process is still taken."""

    longest_wait_seconds: float = 300.0
    dwell_seconds: float = 5.0
    """What a paced reader of continuous output gives as the least time of a waiting read."""

    read_bytes: int = 32 * 1024
    longest_read_bytes: int = 1024 * 1024

    context_bytes: int = 16 * 1024
    """How far around a window secrets are looked for that reach into it: a key is no longer."""

    kept_log_bytes: int = 8 * 1024 * 1024
    """What is kept of the log of a process that has ended."""

    live_log_bytes: int = 256 * 1024 * 1024
    """A log that grows beyond this is cut to its kept tail while its process runs."""

    reserved_log_bytes: int = 32 * 1024 * 1024
    """The same for a foreground command, whose log is kept only if it is handed over."""

    reserved_memory_bytes: int = 256 * 1024
    """A foreground command that prints less needs no file before it is handed over."""

    kept_days: float = 30.0
    """How long the record and log of an ended process are kept."""

    sync_seconds: float = 0.05
    """Within which records that were written are brought to the disk, many at once."""

    gather_seconds: float = 0.0005
    """How long plenty of output is left to gather before it is moved on."""

    flood_seconds: float = 0.02
    """How long plenty of output is moved before whoever waits for it is told."""

    longest_input_bytes: int = 1024 * 1024

    turn_seconds: float = 0.002
    """How long output may be taken in before other tasks have their turn."""

    take_bytes: int = 1024 * 1024
    """How much is taken at a time; a pipe that is found full is made this large."""

    full_pipe_bytes: int = 64 * 1024
    """What a pipe holds by default."""

    look_seconds: float = 0.05
    """Between two looks at a process of an earlier worker, while somebody waits for it."""

    rows: int = 24
    columns: int = 80
