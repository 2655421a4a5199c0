"""``moorage logs``: what a background process printed, from any offset, once or as it comes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.parameters import WholeNumber
from moorage.cli.process_choice import open_process, process_argument
from moorage.cli.process_view import as_document, how_it_ended
from moorage.cli.render import is_colourful, print_json, print_note
from moorage.host.processes import FOLLOW_WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moorage.host.session import Session
    from moorage.protocol.processes import OutputSnapshot, ProcessRecord

EPILOG = """\b
Examples:
  moorage logs proc-1a2b3c4d
  moorage logs -f --tail 4096 site/proc-1a2b3c4d
  moorage logs --since-offset 81920 proc-1a2b3c4d
  moorage logs --json --tail 1000 proc-1a2b3c4d
"""

PIECE_BYTES = 256 * 1024
LARGEST_DOCUMENT_BYTES = 1024 * 1024


class Start(NamedTuple):
    """Where to begin: at an offset, at so many bytes before the end, or at the first byte."""

    offset: int | None
    tail: int | None

    async def offset_in(self, session: Session, record: ProcessRecord) -> int:
        """Return the offset to read from."""
        if self.offset is not None or self.tail is None:
            return self.offset or 0
        newest = await session.processes.read(record.id, max_bytes=max(self.tail, 1))
        return newest.start_offset if self.tail else newest.total_bytes


def start_options(command: click.decorators.FC) -> click.decorators.FC:
    """Add the options that say where to begin."""
    since = click.option(
        "--since-offset", "offset", metavar="N", type=WholeNumber(0),
        help="Begin at byte N of all that it ever printed.",
    )  # fmt: skip
    tail = click.option(
        "--tail", metavar="BYTES", type=WholeNumber(0), help="Begin so many bytes before the end."
    )
    return since(tail(command))


def chosen_start(offset: int | None, tail: int | None) -> Start:
    """Return where to begin; only one of the two may be said."""
    if offset is not None and tail is not None:
        raise click.UsageError("Give either --since-offset N or --tail BYTES, not both.")
    return Start(offset, tail)


@click.command(epilog=EPILOG)
@click.option("-f", "--follow", is_flag=True, help="Go on as output comes, until it has ended.")
@start_options
@click.option("--json", "as_json", is_flag=True, help="Print one window of it as JSON.")
@process_argument
def command(
    process: str, offset: int | None, tail: int | None, *, follow: bool, as_json: bool
) -> int:
    """Show what PROCESS printed: its whole kept output, as it is, with secrets masked.

    PROCESS is an id as moorage ps lists it, or SESSION/ID. Of an ended process the last 8 MiB are
    kept; offsets go on counting from its first byte.
    """
    if follow and as_json:
        raise click.UsageError("--json prints one window; scripts go on at its end_offset.")
    return anyio.run(_show, process, chosen_start(offset, tail), follow, as_json)


async def _show(process: str, start: Start, follow: bool, as_json: bool) -> int:
    async with open_process(process) as (session, found):
        record, offset = found, await start.offset_in(session, found)
        if as_json:
            snapshot = await session.processes.read(
                record.id, offset=offset, max_bytes=LARGEST_DOCUMENT_BYTES
            )
            print_json(_document(snapshot, session.id))
            return exit_codes.OK
        async for snapshot in pieces(session, record, offset, follow=follow):
            if snapshot.start_offset > offset:
                missing = snapshot.start_offset - offset
                print_note(f"{missing:,} bytes from {offset:,} on are no longer kept.")
            sys.stdout.buffer.write(snapshot.output.encode())
            sys.stdout.flush()
            offset = snapshot.end_offset
            record = snapshot.process
    if follow and is_colourful(sys.stderr):
        print_note(how_it_ended(record))
    return exit_codes.OK


async def pieces(
    session: Session, record: ProcessRecord, offset: int, *, follow: bool
) -> AsyncIterator[OutputSnapshot]:
    """Yield the output from an offset to what is there now, or to the end of the process."""
    wait_seconds = FOLLOW_WAIT_SECONDS if follow else 0.0
    while True:
        snapshot = await session.processes.read(
            record.id, offset=offset, max_bytes=PIECE_BYTES, wait_seconds=wait_seconds
        )
        yield snapshot
        is_ended = snapshot.process.is_terminal or not follow
        is_stuck = not follow and snapshot.end_offset == offset
        if is_ended and (snapshot.end_offset >= snapshot.total_bytes or is_stuck):
            return
        offset = snapshot.end_offset


def _document(snapshot: OutputSnapshot, session_id: str) -> dict[str, object]:
    return {
        "process": as_document(snapshot.process, session_id),
        "output": snapshot.output,
        "start_offset": snapshot.start_offset,
        "end_offset": snapshot.end_offset,
        "total_bytes": snapshot.total_bytes,
        "truncated": snapshot.truncated,
    }
