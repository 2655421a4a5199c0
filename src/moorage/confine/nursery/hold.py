"""The worker's hold on its nursery: forks it, orders launchers, and closes it.

``start_nursery`` is the worker's first act, before anyio or any thread exists.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

from moorage.confine import hardening, landlock
from moorage.confine.nursery.channel import Channel
from moorage.confine.nursery.loop import IGNORED_SIGNALS, SWEEP_SECONDS, become_nursery
from moorage.confine.nursery.messages import Kind, Message, encode_texts, plan_to_texts
from moorage.errors import ProvisionError
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from moorage.confine.plan import Plan
    from moorage.confine.provider import ConfinementProvider

CLOSE_SECONDS = 2 * SWEEP_SECONDS
"""How long the worker waits for the nursery's own end."""

FIRST_CALL = 1
"""The number of a launcher's first call."""


class Launch(NamedTuple):
    """The worker's hold on one launcher."""

    number: int
    plan: Plan
    nonce: str
    channel: Channel
    tombstone: int
    """Says ``ALL_GONE`` when the launcher and everything it started are; the nursery sees to it.

    It ends without a word when the nursery was lost, too.
    """


class EarlyChild(NamedTuple):
    """A program that was started before the worker could wait for it; a supervisor adopts it."""

    launch: Launch
    stdout: int
    stderr: int


class Nursery:
    """The worker's hold on the nursery process."""

    def __init__(self, pid: int, channel: Channel) -> None:
        """Hold a nursery that was just forked."""
        self.pid = pid
        self._channel = channel
        self._launches = 0
        self._is_closed = False

    def launch(self, plan: Plan, *, found_abi: int | None = None) -> Launch:
        """Have a launcher forked for the plan; its channel says first whether it could confine.

        Raises:
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            ProvisionError: the nursery is gone.
        """
        abi = landlock.abi() if found_abi is None else found_abi
        if plan.mode.is_restricted:
            landlock.require(abi)
        self._launches += 1
        nonce = os.urandom(8).hex()
        channel, theirs = Channel.pair()
        tombstone, held = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(tombstone, False)
        message = Message(
            Kind.LAUNCH,
            self._launches,
            (abi,),
            (encode_texts([nonce]), *plan_to_texts(plan)),
        )
        try:
            self._send(message, (theirs.fileno(), held))
        except BaseException:
            channel.close()
            os.close(tombstone)
            raise
        finally:
            theirs.close()
            os.close(held)
        return Launch(self._launches, plan, nonce, channel, tombstone)

    def begin(
        self,
        plan: Plan,
        argv: Sequence[str],
        variables: Mapping[str, str],
        *,
        cwd: str = "",
        provider: ConfinementProvider | None = None,
    ) -> EarlyChild:
        """Start a program at once, in a launcher of its own, while the worker still grows.

        A ``provider`` confines it in the kernel's place.

        Raises:
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            ProvisionError: the nursery is gone.
        """
        if provider is not None and plan.mode.is_restricted:
            argv = provider.wrap(plan, argv)
            plan = plan._replace(mode=PermissionMode.UNCONFINED)
        launch = self.launch(plan)
        stdout, stdout_end = os.pipe2(os.O_CLOEXEC)
        stderr, stderr_end = os.pipe2(os.O_CLOEXEC)
        entries = encode_texts(f"{name}={value}" for name, value in variables.items())
        texts = (encode_texts(argv), entries, encode_texts([cwd]))
        launch.channel.try_send(
            Message(Kind.SPAWN, FIRST_CALL, (0, 0), texts), (stdout_end, stderr_end)
        )
        os.close(stdout_end)
        os.close(stderr_end)
        return EarlyChild(launch, stdout, stderr)

    def kill(self, launch: Launch) -> None:
        """End a launcher that does not answer, with everything it started.

        Raises:
            ProvisionError: the nursery is gone.
        """
        self._send(Message(Kind.KILL, launch.number))

    def spare(self, launch: Launch) -> None:
        """Let a launcher that keeps something end by itself, should this worker be lost.

        Raises:
            ProvisionError: the nursery is gone.
        """
        self._send(Message(Kind.SPARE, launch.number))

    def remove_at_end(self, folder: str) -> None:
        """Have a folder removed when the worker is gone, should it be there still.

        Raises:
            ProvisionError: the nursery is gone.
        """
        self._send(Message(Kind.REMOVE, texts=(encode_texts([folder]),)))

    def _send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        try:
            is_sent = self._channel.try_send(message, descriptors)
        except OSError as error:
            raise ProvisionError(
                "The process that starts commands has ended; nothing ran.",
                hint="Restart the worker.",
            ) from error
        if not is_sent:
            raise ProvisionError(
                "The process that starts commands does not answer; nothing ran.",
                hint="Restart the worker.",
            )

    def close(self) -> None:
        """End the nursery and everything under it; returns when it is gone."""
        if self._is_closed:
            return
        self._is_closed = True
        self._channel.close()
        handle = os.pidfd_open(self.pid)
        if not select.select([handle], [], [], CLOSE_SECONDS)[0]:
            os.kill(self.pid, signal.SIGKILL)
        os.close(handle)
        os.waitpid(self.pid, 0)


def start_nursery(remove: Callable[[str], None] = os.rmdir) -> Nursery:
    """Fork the nursery; call it before anyio is imported and before any thread exists.

    ``remove`` is how the nursery removes a folder at its end.

    Raises:
        ProvisionError: this system has no way to hold a tree of processes.
    """
    if sys.platform != "linux":
        raise ProvisionError(
            "Commands can be started on Linux only.",
            hint="Use an environment on a Linux machine, such as a container or SSH.",
        )
    hardening.become_subreaper()
    channel, theirs = Channel.pair()
    # What exists now stays shared between the processes, instead of being copied by the collector.
    gc.freeze()
    # Until the nursery ignores them, what is sent to the worker's group must not end it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
    pid = os.fork()
    if pid == 0:
        become_nursery(theirs.detach(), remove)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    gc.unfreeze()
    theirs.close()
    return Nursery(pid, channel)
