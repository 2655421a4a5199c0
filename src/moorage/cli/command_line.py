"""The root command: its help, its lazily loaded sub-commands, and the reporting of every error."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem, shell_complete

from moorage.cli import exit_codes
from moorage.cli.failures import as_document, described, sentence
from moorage.cli.render import print_failure, print_json, styled
from moorage.errors import InvalidArguments


class Entry(NamedTuple):
    """One sub-command, known without importing it.

    Without a section it stands in the help only by the summary of another one.
    """

    name: str
    section: str
    summary: str


ENTRIES = (
    Entry("run", "Work", "Run one command in a confined workspace"),
    Entry("start", "Work", "Start one in the background; then ps, logs, attach, stop, kill"),
    Entry("ps", "", "List background processes and how they fare"),
    Entry("logs", "", "Show what a background process printed, or follow it"),
    Entry("attach", "", "Sit down at the terminal of a background process"),
    Entry("stop", "", "End background processes, softly first"),
    Entry("kill", "", "End background processes at once, by force"),
    Entry("tool", "Work", "Call one workspace tool, exactly as a model would"),
    Entry("session", "Work", "List, show, change and remove saved sessions"),
    Entry("mcp", "Work", "Serve a workspace to any MCP client"),
    Entry("demo", "Set up", "See the main job done on a small real project"),
    Entry("doctor", "Set up", "Say what this machine can do, and how to fix what is missing"),
    Entry("env", "Set up", "Add, check and list environments, and clean up after them"),
    Entry("completion", "Set up", "Print the completion script of your shell"),
    Entry("worker", "Set up", "Serve the tools of this machine on standard streams"),
)

EXAMPLES = (
    "moorage run -- python3 -m unittest",
    "moorage tool grep pattern=TODO include='*.py'",
    "moorage mcp --workspace ~/project",
)

PROGRAM = "moorage"
COMPLETION_VARIABLE = "_MOORAGE_COMPLETE"

NEXT_STEP = "Next: moorage demo, then moorage doctor. moorage COMMAND --help has examples."


class RootGroup(click.Group):
    """A group that imports a sub-command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the sub-commands, in the order of the help."""
        return [entry.name for entry in ENTRIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one sub-command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"moorage.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - the catalogue test proves it
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the sub-command, or say which name is near to the one that was given."""
        name = args[0]
        is_known = name.startswith("-") or name in self.list_commands(ctx)
        if not (is_known or ctx.resilient_parsing):
            raise click.UsageError(unknown_name("command", name, self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write help that fits one screen and teaches by example."""
        formatter.write("Usage: moorage COMMAND [OPTIONS]\n")
        formatter.write("A confined workspace for AI agents, in the environment you chose.\n")
        for section in filter(None, dict.fromkeys(entry.section for entry in ENTRIES)):
            formatter.write(f"\n{styled(section, bold=True)}\n")
            for entry in ENTRIES:
                if entry.section == section:
                    formatter.write(f"  {entry.name.ljust(12)}{entry.summary}\n")
        formatter.write(f"\n{styled('Examples', bold=True)}\n")
        formatter.write("".join(f"  {example}\n" for example in EXAMPLES))
        formatter.write(f"\n{NEXT_STEP}\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the sub-commands that begin with ``incomplete``, without importing any."""
        return [
            CompletionItem(entry.name, help=entry.summary)
            for entry in ENTRIES
            if entry.name.startswith(incomplete)
        ]


@click.group(cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="moorage", message="moorage %(version)s")
def root() -> None:
    """Moorage gives an AI agent a confined workspace."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence for a name that nothing has, with the nearest one that something has."""
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}."
    return f"There is no {kind} {name!r}; {advice}"


def run_command_line(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; nothing escapes as a traceback."""
    own_arguments = _before_separator(arguments)
    _set_up_logging()
    try:
        _check_text(arguments)
        code = _run(list(arguments))
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        # The reader went away, which is its right.
        _let_go_of_output()
        return exit_codes.BROKEN_PIPE
    except (click.Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the one place of this process that reports them all
        code = report(error, as_json="--json" in own_arguments)
        if isinstance(error, OSError):
            _let_go_of_output()
        passes_codes_on = _command_name(own_arguments) in {"run", "attach"}
        return exit_codes.without_clash(code) if passes_codes_on else code
    return code


def _check_text(arguments: Sequence[str]) -> None:
    """Let only text pass: an argument travels, and is recorded, as JSON.

    Raises:
        InvalidArguments: the bytes of one are not UTF-8.
    """
    for argument in arguments:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            shown = os.fsencode(argument).decode(errors="backslashreplace")
            raise InvalidArguments(
                f"the argument '{shown}' is not UTF-8 text, which every argument must be.",
                hint=r"""Shell text can name such bytes, as in: moorage run -c "ls $'caf\xe9'".""",
            )


def _let_go_of_output() -> None:
    """Drop what could not be written, or Python would try again at exit, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    """Answer a shell that completes a line, or run a sub-command.

    ``click.Command.main`` would do both, but it also exits by itself when a reader goes away.
    """
    completion = os.environ.get(COMPLETION_VARIABLE)
    if completion:
        return shell_complete(root, {}, PROGRAM, COMPLETION_VARIABLE, completion)
    with root.make_context(PROGRAM, arguments) as context:
        code = root.invoke(context)
    return code if isinstance(code, int) else exit_codes.OK


def _set_up_logging() -> None:
    """Keep the library's log off the terminal, unless the user looks for a mistake of ours."""
    if os.environ.get("MOORAGE_DEBUG") == "1":
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    else:
        logging.getLogger("moorage").addHandler(logging.NullHandler())


def _before_separator(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _command_name(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "")


def report(error: Exception, *, as_json: bool) -> int:
    """Say what went wrong, for people or as JSON, and return the exit code."""
    if os.environ.get("MOORAGE_DEBUG") == "1":
        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return exit_codes.USAGE
    failures = described(error)
    if as_json:
        print_json({"error": as_document(failures)})
    else:
        for failure in failures:
            print_failure(f"{sentence(failure.message)} {failure.hint}".strip())
    return max(failure.exit_code for failure in failures)
