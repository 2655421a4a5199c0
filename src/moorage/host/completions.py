"""Tell an agent how its background processes ended: every end once, also across restarts.

What is owed stands in the worker's records. Here is what the host alone knows: which ends a turn is
dealing with (in memory), which wait for the user because a turn failed, and which an answer was
stored for (both on disk).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from moorage.confine.private_folders import replace_private
from moorage.errors import ConfigError, ConnectionLost, InvalidArguments, OutcomeUnknown
from moorage.process.output import clean
from moorage.protocol.processes import UNKNOWN_EXIT_CODE, OutputSnapshot, ProcessRecord

if TYPE_CHECKING:
    from moorage.host.environments import Environment
    from moorage.host.processes import Processes

CONSUMER = "agent"
TAIL_BYTES = 2048
"""How much of the end of the output a completion shows."""

LONGEST_COMMAND = 200

_ID = "moorage-process-completion"


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one background process, to be told to its agent in one message.

    ``text`` is that message: what ended and how, the last 2 KiB of its output without terminal
    control, and where the rest is. Secrets are masked.
    """

    process: ProcessRecord
    text: str

    @property
    def id(self) -> str:
        """Return the id of the message, always the same for one process."""
        return f"{_ID}:{self.process.id}"

    @property
    def answer_id(self) -> str:
        """Return the mark to be stored with the answer; ``acknowledge`` takes it after a crash."""
        return f"{_ID}-answer:{self.process.id}"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is on disk: ids of processes."""

    paused: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()


class Completions:
    """The ends that a session is owed; made by :meth:`moorage.Session.completions`.

    ``async for`` yields each as it comes, one at a time, until the session is closed. A turn that
    took some either stored its answer and calls ``acknowledge``, or failed and calls ``pause``.
    """

    def __init__(self, environment: Environment, processes: Processes, file: Path) -> None:
        """Keep where the records are and where to keep what only the host knows."""
        self._environment = environment
        self._processes = processes
        self._file = file
        self._known: _Kept | None = None
        self._taken: set[str] = set()
        self._taking = anyio.Lock()
        self._heard = anyio.Event()
        self._is_due = True

    def look(self) -> None:
        """Have everybody who waits look again: something may have ended."""
        self._is_due = True
        self._heard.set()
        self._heard = anyio.Event()

    async def __aiter__(self) -> AsyncIterator[Completion]:
        """Yield every end that is owed, now and later, until the session is closed."""
        while not self._environment.is_closed:
            heard = self._heard
            if taken := await self.take(at_most=1):
                yield taken[0]
            else:
                await heard.wait()

    async def remaining(self) -> AsyncIterator[Completion]:
        """Yield every end that is owed until nothing runs whose end would be.

        Neither detached processes nor paused completions are waited for.
        """
        while not self._environment.is_closed:
            heard = self._heard
            taken, is_more_to_come = await self._look(at_most=1)
            if taken:
                yield taken[0]
            elif is_more_to_come:
                await heard.wait()
            else:
                return

    async def take(self, *, at_most: int | None = None) -> list[Completion]:
        """Return what is owed now, the oldest first, to be told in the turn that is prepared.

        Nothing is returned twice while a turn deals with it, nor while it is paused.

        Raises:
            ConfigError: what is kept of completions cannot be read or written.
        """
        return (await self._look(at_most))[0]

    async def take_news(self) -> list[Completion]:
        """Do what ``take`` does, and ask nobody while nothing was heard since."""
        return await self.take() if self._is_due else []

    async def acknowledge(self, *told: Completion | str, consumer: str = CONSUMER) -> None:
        """Note for good that an answer to these was stored; they are never told again.

        Takes completions, the ``answer_id`` found with a stored answer, or ids of processes.
        Without a worker it is kept here, and told to the next one.
        """
        ids = frozenset(_process_id(each) for each in told)
        self._keep(answered=self._kept.answered | ids, paused=self._kept.paused - ids)
        for process_id in sorted(ids):
            # What the worker could not be told now it is told at the next look.
            with suppress(ConnectionLost, OutcomeUnknown):
                await self._settle(process_id, consumer)

    def pause(self, *told: Completion | str) -> None:
        """Hold these back, also across restarts, since the turn that told them has failed."""
        ids = frozenset(_process_id(each) for each in told)
        self._taken -= ids
        self._keep(paused=self._kept.paused | ids)
        self.look()

    def resume(self) -> None:
        """Let go of what is held back, as the user has spoken again."""
        self._keep(paused=frozenset())
        self.look()

    @property
    def paused(self) -> frozenset[str]:
        """Return the ids of the processes whose ends wait for the user."""
        return self._kept.paused

    # What is owed.

    async def _look(self, at_most: int | None) -> tuple[list[Completion], bool]:
        """Take what is owed, and tell whether something runs whose end will be."""
        async with self._taking:
            self._is_due = False
            try:
                return await self._look_once(at_most)
            except OutcomeUnknown:
                # The worker was lost; looking changes nothing, so it may be done again.
                return await self._look_once(at_most)

    async def _look_once(self, at_most: int | None) -> tuple[list[Completion], bool]:
        if not self._environment.is_provisioned:
            return [], False
        records = await self._processes.list()
        owed = await self._owed([each for each in records if each.is_completion_pending])
        fresh = [each for each in owed if each.id not in self._taken][:at_most]
        taken = [await self._told(record) for record in fresh]
        self._taken.update(record.id for record in fresh)
        return taken, any(_will_be_owed(each) for each in records)

    async def _owed(self, pending: list[ProcessRecord]) -> list[ProcessRecord]:
        """Return what the records owe, less what was answered or is held back."""
        answered = self._kept.answered
        for record in pending:
            if record.id in answered:
                await self._settle(record.id, CONSUMER)
        # What was answered meanwhile stays, until the records say so, too.
        owed = {record.id for record in pending} - self._kept.answered
        self._keep(answered=self._kept.answered - answered, paused=self._kept.paused & owed)
        return [each for each in pending if each.id in owed - self._kept.paused]

    async def _settle(self, process_id: str, consumer: str) -> None:
        with suppress(InvalidArguments):  # The records were lost, or it was stopped: nothing owed.
            await self._processes.acknowledge(process_id, consumer=consumer)

    async def _told(self, record: ProcessRecord) -> Completion:
        end = await self._processes.read(record.id, max_bytes=TAIL_BYTES)
        return Completion(process=record, text=message_of(record, end))

    # What is kept.

    @property
    def _kept(self) -> _Kept:
        if self._known is None:
            self._known = _read(self._file)
        return self._known

    def _keep(self, **changed: frozenset[str]) -> None:
        kept = msgspec.structs.replace(self._kept, **changed)
        if kept != self._kept:
            replace_private(self._file, msgspec.json.encode(kept))
            self._known = kept


def message_of(record: ProcessRecord, end: OutputSnapshot) -> str:
    """Return what a model is told of a process that has ended, and of what it does not see."""
    lines = [
        f"[Background process {record.id} {how_it_goes(record)}.]",
        f"Command: {short_command(record)}",
    ]
    if record.last_error:
        lines.append(record.last_error)
    output = clean(end.output).text.strip("\n")
    if not output:
        return "\n".join([*lines, "It printed nothing."])
    if end.start_offset > 0:
        lines.append(
            f"Output, its last {end.end_offset - end.start_offset:,} of {end.total_bytes:,} bytes "
            f"(bash action=read, process_id={record.id}, offset_bytes=0 reads from the start):"
        )
    else:
        lines.append("Output:")
    return "\n".join([*lines, output])


def how_it_goes(record: ProcessRecord) -> str:
    """Return what is to be said of a process after its name."""
    if not record.is_terminal:
        return f"is {record.status}"
    if record.terminal_cause == "requested_stop":
        return "was stopped on request"
    if record.exit_code == UNKNOWN_EXIT_CODE:
        return "has ended; its exit code is not known"
    return f"has ended with exit code {record.exit_code}"


def short_command(record: ProcessRecord) -> str:
    """Return the command as one line that is not too long."""
    command = " ".join(record.command.split())
    return f"{command[:LONGEST_COMMAND]}..." if len(command) > LONGEST_COMMAND else command


def _will_be_owed(record: ProcessRecord) -> bool:
    return not record.is_terminal and record.completion_mode != "detached"


def _process_id(told: Completion | str) -> str:
    return told.process.id if isinstance(told, Completion) else told.rpartition(":")[2]


def _read(file: Path) -> _Kept:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return _Kept()
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"what is kept of completions in {file} cannot be read: {error}.",
            hint="Remove the file; what ended and was not acknowledged is told again.",
        ) from error
