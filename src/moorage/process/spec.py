"""What to start: a program, where, with which variables, under which confinement."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moorage.confine.plan import Plan


class ProgramSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One program to start.

    ``argv[0]`` without a slash is looked up in the child's own PATH. ``cwd_fd`` wins over ``cwd``;
    both may be given, ``cwd`` then only names it in messages. ``variables`` are additions to the
    base variables of the plan. ``stdin_fd`` of ``None`` is the null device. The descriptors stay
    the caller's to close.
    """

    argv: tuple[str, ...]
    plan: Plan
    cwd: str = ""
    cwd_fd: int | None = None
    variables: Mapping[str, str] = {}
    stdin_fd: int | None = None
    terminal: str = ""
    """The path of a terminal that becomes the program's own; nobody but a supervisor sets it."""

    label: str = ""


class ExitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended: with an exit code, or by a signal."""

    exit_code: int | None = None
    signal: int | None = None


class SupervisorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The durations and sizes of starting and ending children."""

    end_grace_seconds: float = 2.0
    """From SIGTERM to SIGKILL when ``open`` is left or the supervisor closed before the end."""

    kill_seconds: float = 2.0
    """How long a tree may take to disappear after SIGKILL before it is reported as remaining."""

    answer_seconds: float = 10.0
    """How long a launcher may take to answer before it is lost; a start takes about 15 ms."""

    spawns_in_flight: int = 32
    """Starts a launcher may owe an answer to: its socket fills at about 60."""

    drain_bytes: int = 64 * 1024
    """How much is read at a time from a child that outlived its shell, and dropped."""
