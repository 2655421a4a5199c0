"""``moorage start``: a command that goes on in the background of a session that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.process_view import as_document
from moorage.cli.render import is_colourful, print_json, print_note
from moorage.cli.run import line_of
from moorage.cli.session_options import SessionChoice, open_chosen, session_options
from moorage.errors import ConfigError

if TYPE_CHECKING:
    from moorage.protocol.processes import CompletionMode, Lifecycle, ProcessRecord

EPILOG = """\b
Examples:
  moorage start --name site -- python3 -m http.server
  moorage start --session site -c 'make watch 2>&1 | tee watch.log'
  moorage start --session site --pipes --managed -- ./worker
  id=$(moorage start --session site -- ./long); moorage attach "$id"
"""

EXAMPLE = "moorage start --name site -- python3 -m http.server"


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@session_options
@click.option("-c", "--shell", "shell_text", metavar="TEXT", help="Start shell text.")
@click.option(
    "-C", "--cwd", default="", metavar="DIR", help="Folder inside the workspace to start in."
)
@click.option("--pipes", is_flag=True, help="Give it pipes instead of a terminal.")
@click.option(
    "--managed",
    is_flag=True,
    help="Let it go on when its worker is lost or its session cleaned up.",
)
@click.option("--detached", is_flag=True, help="Announce its end to nobody.")
@click.option("--json", "as_json", is_flag=True, help="Print its record as JSON.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
def command(choice: SessionChoice, *, words: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Start COMMAND in the background and print the id of its process.

    It runs in a terminal of its own, confined like every command of its session, and goes on when
    this program ends. ps, logs, attach, stop and kill work on it from any terminal of yours.
    """
    line = line_of(words, options.pop("shell_text"), example=EXAMPLE)
    if not (choice.session_id or choice.name):
        raise click.UsageError(
            "A background process needs a session that stays: --name NAME begins one, "
            "--session ID goes on in one."
        )
    return anyio.run(_start, choice, line, options, as_json)


async def _start(choice: SessionChoice, line: str, options: dict[str, Any], as_json: bool) -> int:
    lifecycle: Lifecycle = "managed" if options["managed"] else "session"
    completion_mode: CompletionMode = "detached" if options["detached"] else "resume"
    async with open_chosen(choice) as session:
        if not session.processes.outlive_host:
            raise ConfigError(
                f"workers of the environment {session.environment} end with the program that "
                "opened them, and so would this process; nothing was started.",
                hint="Start it in a local session.",
            )
        record = await session.processes.start(
            line,
            cwd=options["cwd"],
            tty=not options["pipes"],
            lifecycle=lifecycle,
            completion_mode=completion_mode,
        )
        # At once: should the session fail to close, the process runs all the same.
        _tell(record, as_document(record, session.id, choice.name or "") if as_json else None)
        return exit_codes.OK


def _tell(record: ProcessRecord, document: dict[str, Any] | None) -> None:
    if document is not None:
        print_json(document)
        return
    click.echo(record.id)
    if is_colourful():
        print_note(f"it runs as process {record.pid}; moorage attach {record.id} shows it.")
