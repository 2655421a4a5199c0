"""``moorage run``: one command in a confined workspace, with its own output and exit code."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.command_output import (
    as_document,
    print_notes,
    write_output,
)
from moorage.cli.failures import as_document as failure_document
from moorage.cli.failures import described
from moorage.cli.parameters import WholeNumber
from moorage.cli.process_view import as_document as process_document
from moorage.cli.process_view import how_it_ended
from moorage.cli.render import print_json, print_note
from moorage.cli.session_options import SessionChoice, open_chosen, session_options
from moorage.errors import EnvironmentDied, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moorage.host.results import CommandResult
    from moorage.host.session import Session
    from moorage.protocol.processes import ProcessRecord

CONSUMER = "moorage run"
"""Who took note of an end, in the record of its process."""

EPILOG = """\b
Examples:
  moorage run -- python3 -m unittest
  moorage run -c 'ls *.py | wc -l'
  moorage run --mode read_only -- git log --oneline -5
  printf 'a\\nb\\n' | moorage run -i -- sort -r
  moorage run --timeout 60 --json -- make test
  moorage run --session site --wait-background -- make test

\b
Exit code: the command's own. Moorage's: 124 timed out, 125 Moorage itself failed,
126 refused or not confinable, 127 not found; 128+n when signal n ended the command.
"""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to run and how."""

    words: tuple[str, ...]
    shell_text: str | None
    cwd: str
    timeout_seconds: int
    takes_input: bool
    waits: bool

    def command(self) -> str:
        """Return the line that the shell of the workspace reads."""
        return line_of(self.words, self.shell_text, example="moorage run -- ls -l")


def line_of(words: tuple[str, ...], shell_text: str | None, *, example: str) -> str:
    """Return the line for the shell: the text as it is, or the words, each of them kept one."""
    if shell_text is not None and words:
        raise click.UsageError("Give either -c TEXT or COMMAND, not both.")
    if shell_text is not None:
        return shell_text
    if not words:
        raise click.UsageError(f"Name a command, such as: {example}")
    return shlex.join(words)


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@session_options
@click.option("-c", "--shell", "shell_text", metavar="TEXT", help="Run shell text, with its pipes.")
@click.option(
    "-C", "--cwd", default="", metavar="DIR", help="Folder inside the workspace to run in."
)
@click.option(
    "-t", "--timeout", "timeout_seconds", metavar="SECONDS", default=300, show_default=True,
    type=WholeNumber(1, 3600), help="End the command, and all it started, after this time.",
)  # fmt: skip
@click.option("-i", "--stdin", "takes_input", is_flag=True, help="Pass standard input on.")
@click.option(
    "--wait-background", "waits", is_flag=True,
    help="Then wait for the session's background processes, and tell how each ended.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
def command(choice: SessionChoice, *, as_json: bool, **options: Any) -> int:
    """Run one COMMAND and pass on its output and exit code.

    Each word stays one word, however many spaces it has. The command may write in the workspace
    and in a temporary folder of its own, nowhere else; everything it started ends with it.
    Its output is printed when it ends, byte for byte except for masked secrets. For what is to go
    on afterwards there is moorage start.
    """
    request = Request(**options)
    request.command()
    data = sys.stdin.buffer.read() if request.takes_input else None
    return anyio.run(_run, choice, request, data, as_json)


async def _run(choice: SessionChoice, request: Request, data: bytes | None, as_json: bool) -> int:
    if not as_json:
        async with open_chosen(choice) as session:
            return await _show(session, request, data)
    document: dict[str, Any] = {}
    code = exit_codes.OK
    try:
        async with open_chosen(choice) as session:
            document, code = await _tell(session, request, data)
    except Exception as error:
        if not document:
            raise
        # The session failed to close: what is known of the command stays the one document.
        failures = described(error)
        code = max(failure.exit_code for failure in failures)
        document["error"] = document["error"] or failure_document(failures)
    print_json(document)
    return code


async def _ask(session: Session, request: Request, data: bytes | None) -> CommandResult:
    return await session.run(
        request.command(), cwd=request.cwd, timeout_seconds=request.timeout_seconds, input=data
    )


async def _ends(session: Session) -> AsyncIterator[ProcessRecord]:
    """Yield how each background process ended that is owed, until no more is to come."""
    completions = session.completions()
    async for completion in completions.remaining():
        yield completion.process
        await completions.acknowledge(completion, consumer=CONSUMER)


async def _show(session: Session, request: Request, data: bytes | None) -> int:
    """Pass on what the command wrote; the same when its place went away meanwhile."""
    broken: OutcomeUnknown | EnvironmentDied | None = None
    try:
        result = await _ask(session, request, data)
    except (OutcomeUnknown, EnvironmentDied) as error:
        if error.result is None:
            raise
        broken, result = error, error.result
    written = await write_output(session, result)
    print_notes(result, request.words, written)
    if request.waits and broken is None:
        sys.stdout.flush()
        async for record in _ends(session):
            print_note(how_it_ended(record))
    if broken is not None:
        raise broken
    return exit_codes.exit_code_of_outcome(result.outcome, result.exit_code)


async def _tell(
    session: Session, request: Request, data: bytes | None
) -> tuple[dict[str, Any], int]:
    """Return the document of the result and the exit code."""
    try:
        result = await _ask(session, request, data)
    except (OutcomeUnknown, EnvironmentDied) as error:
        if error.result is None:
            raise
        document = as_document(error.result, session.id)
        document["error"] = failure_document(described(error))
        return document, exit_codes.exit_code_of(error)
    code = exit_codes.exit_code_of_outcome(result.outcome, result.exit_code)
    document = as_document(result, session.id)
    if request.waits:
        document["background"] = [
            process_document(each, session.id) async for each in _ends(session)
        ]
    return document, code
