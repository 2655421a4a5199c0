"""The warden of one launcher: it outlives it, and ends at one blow what that left behind.

A signal may go down from one Landlock domain into another, never up. The warden enters a domain of
its own that only keeps signals inside, and its launcher enters a second one beneath: so the warden
reaches the launcher and all that descends from it and nobody else, and no command reaches the
warden. Where the kernel has no such scope there is no warden, and the nursery does what it can.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from moorage.confine import hardening, landlock
from moorage.confine.nursery import tree
from moorage.confine.plan import SCOPE_SIGNAL, handled_scopes

if TYPE_CHECKING:
    from moorage.confine.plan import Plan

END_SIGNAL = signal.SIGUSR1
"""Has a warden end its launcher and everything beneath; a launcher without one dies of it."""


def is_possible(plan: Plan, found_abi: int) -> bool:
    """Return whether the kernel can keep the signals of this plan inside."""
    return plan.mode.is_restricted and bool(handled_scopes(found_abi) & SCOPE_SIGNAL)


def become_warden(parent: int, found_abi: int) -> bool:
    """Turn this process into a warden; ``False`` when the kernel does not prove the scope."""
    try:
        hardening.become_subreaper()
        hardening.forbid_new_privileges()
        landlock.restrict_signals(found_abi)
    except OSError:
        return False  # Whatever it is: the launcher meets it too, and tells the worker.
    return tree.is_parent_out_of_reach(parent)


def watch(launcher: int) -> None:
    """Return when the launcher and everything that it started have ended."""
    signal.signal(END_SIGNAL, lambda *_: tree.kill_all())
    hardening.set_name("moorage-warden")
    while True:
        try:
            pid, status = os.waitpid(-1, os.WUNTRACED)
        except ChildProcessError:
            return
        if pid != launcher:
            continue
        if os.WIFSTOPPED(status):
            # A command may stop its launcher (kill -STOP -1); the worker must not hang on it.
            os.kill(launcher, signal.SIGCONT)
        else:
            tree.kill_all()
