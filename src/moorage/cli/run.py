"""``moorage run``: one command in a confined workspace, with its own output and exit code."""

from __future__ import annotations

import base64
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.render import count, duration, print_json, print_note
from moorage.cli.session_options import SessionChoice, open_chosen, session_options
from moorage.errors import EnvironmentDied, ExecutionError, OutcomeUnknown

if TYPE_CHECKING:
    from moorage.host.results import CommandResult
    from moorage.host.session import Session

EPILOG = """\b
Examples:
  moorage run -- python3 -m unittest
  moorage run -c 'ls *.py | wc -l'
  moorage run --mode read_only -- git log --oneline -5
  printf 'a\\nb\\n' | moorage run -i -- sort -r
  moorage run --timeout 60 --json -- make test

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

    def command(self) -> str:
        """Return the line that the shell of the workspace reads."""
        if self.shell_text is not None and self.words:
            raise click.UsageError("Give either -c TEXT or COMMAND, not both.")
        if self.shell_text is not None:
            return self.shell_text
        if not self.words:
            raise click.UsageError("Name a command, such as: moorage run -- ls -l")
        return shlex.join(self.words)


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@session_options
@click.option("-c", "--shell", "shell_text", metavar="TEXT", help="Run shell text, with its pipes.")
@click.option(
    "-C", "--cwd", default="", metavar="DIR", help="Folder inside the workspace to run in."
)
@click.option(
    "-t", "--timeout", "timeout_seconds", metavar="SECONDS", default=300, show_default=True,
    type=click.IntRange(1, 3600), help="End the command, and all it started, after this time.",
)  # fmt: skip
@click.option("-i", "--stdin", "takes_input", is_flag=True, help="Pass standard input on.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
def command(choice: SessionChoice, *, as_json: bool, **options: Any) -> int:
    """Run one COMMAND and pass on its output and exit code.

    Each word stays one word, however many spaces it has. The command may write in the workspace
    and in a temporary folder of its own, nowhere else; everything it started ends with it.
    """
    request = Request(**options)
    request.command()
    data = sys.stdin.buffer.read() if request.takes_input else None
    return anyio.run(_run, choice, request, data, as_json)


async def _run(choice: SessionChoice, request: Request, data: bytes | None, as_json: bool) -> int:
    async with open_chosen(choice) as session:
        try:
            result = await session.run(
                request.command(),
                cwd=request.cwd,
                timeout_seconds=request.timeout_seconds,
                input=data,
            )
        except (OutcomeUnknown, EnvironmentDied) as error:
            if error.result is None:
                raise
            return _show_broken_off(error, error.result, as_json=as_json)
        if as_json:
            print_json(as_document(result))
        else:
            _show(result, request, session)
        return exit_codes.exit_code_of_outcome(result.outcome, result.exit_code)


def as_document(result: CommandResult) -> dict[str, Any]:
    """Return a result as its JSON document; the keys are the same for every outcome."""
    return {
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "duration_ms": result.duration_ms,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "stdout_base64": _base64_unless_text(result.stdout_data),
        "stderr_base64": _base64_unless_text(result.stderr_data),
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
        "stdout_truncated": result.stdout_truncated,
        "stderr_truncated": result.stderr_truncated,
        "full_log_ref": result.full_log_ref,
        "left_running": result.left_running,
        "promoted_process_id": result.promoted_process_id,
        "error": None,
    }


def _base64_unless_text(data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
    return None


def _show_broken_off(error: ExecutionError, result: CommandResult, *, as_json: bool) -> int:
    """Show what was known when the place of the command went away."""
    if not as_json:
        _write(result)
        raise error
    described = {"code": error.code, "message": error.message, "hint": error.hint}
    print_json({**as_document(result), "error": described})
    return exit_codes.exit_code_of(error)


def _write(result: CommandResult) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(result.stdout_data)
    sys.stdout.buffer.flush()
    sys.stderr.flush()
    sys.stderr.buffer.write(result.stderr_data)
    sys.stderr.buffer.flush()


def _show(result: CommandResult, request: Request, session: Session) -> None:
    _write(result)
    for note in notes(result, request):
        print_note(note)


def notes(result: CommandResult, request: Request) -> list[str]:
    """Return what a person should know beyond the output and the exit code."""
    found = []
    if result.outcome == "timed_out":
        found.append(
            f"timed out after {duration(result.duration_ms)}; the command and everything it "
            "started were ended. --timeout gives it longer."
        )
    if result.left_running:
        left = count(result.left_running, "process").replace("processs", "processes")
        found.append(f"{left} left running in the background ended with this session.")
    for name in ("stdout", "stderr"):
        if getattr(result, f"{name}_truncated"):
            total = getattr(result, f"{name}_bytes")
            found.append(f"{name} was cut: it had {total:,} bytes.")
    if result.exit_code == exit_codes.NOT_FOUND and len(request.words) == 1:
        [word] = request.words
        if " " in word:
            found.append(f"one word is one name; for shell text use: moorage run -c {word!r}")
    return found
