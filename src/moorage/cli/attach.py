"""``moorage attach``: the user's terminal becomes that of a background process for a while."""

from __future__ import annotations

import codecs
import signal
from typing import TYPE_CHECKING

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.logs import Start, chosen_start, start_options
from moorage.cli.own_terminal import OwnTerminal, Traces, without_questions
from moorage.cli.parameters import ControlKey, Key
from moorage.cli.process_choice import open_process, process_argument
from moorage.cli.process_view import exit_code_for_caller, how_it_ended, short_command
from moorage.cli.render import note, print_note
from moorage.errors import InvalidArguments
from moorage.host.processes import FOLLOW_WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from moorage.host.session import Session
    from moorage.protocol.processes import OutputSnapshot, ProcessRecord

EPILOG = """\b
Examples:
  moorage attach proc-1a2b3c4d
  moorage attach --detach-key ctrl-q site/proc-1a2b3c4d
  moorage attach --since-offset 81920 proc-1a2b3c4d

\b
Exit code: that of the process when it ends meanwhile; 0 after the detach key.
Moorage's own as with moorage run.
"""

SHOWN_AT_FIRST = 4096
"""Bytes of earlier output that are shown, so that the user sees where things stand."""

SIGNALS = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGCONT, signal.SIGWINCH),
)
"""The first ones leave the process to itself, the last ones set terminal and size anew."""

PIECE_BYTES = 64 * 1024
MOST_KEYS_WAITING = 1024
LAST_KEYS_SECONDS = 1.0
"""How long keys typed before the detach key may take to reach the process."""


@click.command(epilog=EPILOG)
@click.option(
    "--detach-key", "key", metavar="KEY", type=ControlKey(), default="ctrl-]", show_default=True,
    help="The key that leaves the process to itself.",
)  # fmt: skip
@start_options
@process_argument
def command(process: str, key: Key, offset: int | None, tail: int | None) -> int:
    """Sit down at the terminal of PROCESS: see what it shows, type what it reads.

    Every key goes to the process, ctrl-C too, but the detach key, which leaves it running. The size
    of your terminal becomes its size. A process with pipes is typed to line by line.
    """
    start = chosen_start(offset, tail)
    if start == (None, None):
        start = Start(None, SHOWN_AT_FIRST)
    return anyio.run(_attach, process, key, start).leave()


async def _attach(process: str, key: Key, start: Start) -> Seat:
    with OwnTerminal.open() as terminal:
        async with open_process(process) as (session, record):
            offset = await start.offset_in(session, record)
            seat = Seat(session, record, terminal, key)
            await seat.sit(offset)
            return seat


class Seat:
    """One stay at the terminal of a process."""

    def __init__(
        self, session: Session, record: ProcessRecord, terminal: OwnTerminal, key: Key
    ) -> None:
        """Take no seat yet."""
        self._processes = session.processes
        self._record = record
        self._terminal = terminal
        self._key = key
        self._traces = Traces()
        self._offset = 0
        self._is_detached = False
        self._signal = 0

    async def sit(self, offset: int) -> None:
        """Stay until the process ends or the user leaves."""
        self._offset = offset
        with (
            anyio.open_signal_receiver(*SIGNALS) as signals,
            self._terminal.lent(self._key.byte, is_raw=self._record.tty),
        ):
            try:
                await self._relay(signals)
            finally:
                self._terminal.write_last(self._traces.undo())

    def leave(self) -> int:
        """Say how things stand; return the exit code."""
        self._say_goodbye()
        if self._signal:
            return exit_codes.SIGNALLED + self._signal
        return exit_codes.OK if self._is_detached else exit_code_for_caller(self._record)

    async def _relay(self, signals: AsyncIterator[signal.Signals]) -> None:
        # Not before: a key that is pressed on reading this is for the process.
        await self._terminal.write(note(self._greeting()) + "\r\n")
        await self._fit()
        typed, keys = anyio.create_memory_object_stream[str](MOST_KEYS_WAITING)
        with typed, keys:
            async with anyio.create_task_group() as tasks:
                leave = tasks.cancel_scope
                tasks.start_soon(self._watch, signals, leave)
                tasks.start_soon(self._take_keys, typed, leave)
                tasks.start_soon(self._send_keys, keys, leave)
                await self._show()
                leave.cancel()

    def _greeting(self) -> str:
        record = self._record
        return f"attached to {record.id} ({short_command(record)}); {self._key.name} detaches."

    def _say_goodbye(self) -> None:
        record = self._record
        if record.is_terminal:
            print_note(how_it_ended(record))
            return
        print_note(
            f"{record.id} goes on; moorage attach --since-offset {self._offset} {record.id} "
            "shows what comes next."
        )

    # What it shows.

    async def _show(self) -> None:
        """Show its output, each byte once, until it has ended."""
        old_until = (await self._processes.read(self._record.id, max_bytes=1)).total_bytes
        while True:
            is_old = self._offset < old_until
            most = min(PIECE_BYTES, old_until - self._offset) if is_old else PIECE_BYTES
            snapshot = await self._processes.read(
                self._record.id,
                offset=self._offset,
                max_bytes=most,
                wait_seconds=FOLLOW_WAIT_SECONDS,
            )
            text = without_questions(snapshot.output) if is_old else snapshot.output
            await self._terminal.write(self._gap(snapshot) + text)
            self._traces.note(text)
            self._offset = snapshot.end_offset
            self._record = snapshot.process
            if self._record.is_terminal and self._offset >= snapshot.total_bytes:
                return

    def _gap(self, snapshot: OutputSnapshot) -> str:
        missing = snapshot.start_offset - self._offset
        return f"\r\n[{missing:,} bytes are no longer kept]\r\n" if missing > 0 else ""

    # What is typed.

    async def _take_keys(
        self, typed: MemoryObjectSendStream[str], leave: anyio.CancelScope
    ) -> None:
        """Take what is typed until the detach key; a process that does not read cannot hold us."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await self._terminal.read():
            data, key, _ = data.partition(self._key.byte)
            try:
                typed.send_nowait(decoder.decode(data))
            except anyio.WouldBlock:
                await self._terminal.write("\a")
            if key:
                break
        self._is_detached = True
        typed.close()
        await anyio.sleep(LAST_KEYS_SECONDS)
        leave.cancel()

    async def _send_keys(
        self, keys: MemoryObjectReceiveStream[str], leave: anyio.CancelScope
    ) -> None:
        """Pass on what was typed, in order."""
        takes_input = True
        async for text in keys:
            if text and takes_input:
                takes_input = await self._send(text)
        leave.cancel()

    async def _send(self, text: str) -> bool:
        """Write to the process; return whether it takes input."""
        try:
            await self._processes.write(self._record.id, text)
        except InvalidArguments as error:
            record = await self._processes.get(self._record.id)
            if not record.is_terminal:
                await self._terminal.write(f"\r\n[{error.message}]\r\n")
            return False
        return True

    # What happens to the terminal.

    async def _watch(
        self, signals: AsyncIterator[signal.Signals], leave: anyio.CancelScope
    ) -> None:
        async for number in signals:
            if number == signal.SIGWINCH:
                await self._fit()
            elif number == signal.SIGCONT:
                self._terminal.lend(self._key.byte, is_raw=self._record.tty)
                await self._fit()
            else:
                self._signal = number
                leave.cancel()
                return

    async def _fit(self) -> None:
        """Give the process's terminal the size of ours, where it has one."""
        size = self._terminal.size()
        if size is None or not self._record.tty:
            return
        try:
            await self._processes.resize(self._record.id, columns=size[0], rows=size[1])
        except InvalidArguments:
            return  # It has ended, or an earlier worker holds its terminal.
