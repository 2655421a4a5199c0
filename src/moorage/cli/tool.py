"""``moorage tool``: call one workspace tool, exactly as a model would."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.command_line import unknown_name
from moorage.cli.render import (
    is_colourful,
    many_lines,
    print_failure,
    print_json,
    print_note,
    print_table,
)
from moorage.cli.session_options import SessionChoice, open_chosen, session_options
from moorage.cli.tool_arguments import parse_words, type_of
from moorage.errors import InvalidArguments, UnknownTool
from moorage.policy.permission import Effect
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ToolSpec

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ContentPart, ToolResult

EPILOG = """\b
Examples:
  moorage tool read_file path=README.md limit=20
  moorage tool grep pattern=TODO include='*.py'
  moorage tool edit_file path=a.py old_text='x = 1' new_text='x = 2'
  moorage tool write_file path=notes.md content@draft.md
  moorage tool git '{"subcommand": "status"}'
  moorage tool TOOL --help
"""

_EFFECTS = {Effect.READ: "reads", Effect.WRITE: "writes", Effect.EXECUTE: "runs"}


class ToolGroup(click.Group):
    """A group with one sub-command per workspace tool, made from the tool's schema."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the workspace tools."""
        return list(WORKSPACE_TOOLS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the sub-command of one tool."""
        spec = WORKSPACE_TOOLS.get(cmd_name)
        return None if spec is None else _command_of(spec)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the tool's sub-command, or say which tool is near."""
        is_known = args[0].startswith("-") or args[0] in WORKSPACE_TOOLS
        if not (is_known or ctx.resilient_parsing):
            raise UnknownTool(
                unknown_name("tool", args[0], WORKSPACE_TOOLS), hint="moorage tool lists them."
            )
        return super().resolve_command(ctx, args)


@click.group(cls=ToolGroup, invoke_without_command=True, epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="List the tools with their schemas as JSON.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> int:
    """Call one workspace tool, or list them all.

    Arguments are key=value, key@file for the content of a file, or one JSON object; values get the
    type that the tool asks for.
    """
    if ctx.invoked_subcommand is None:
        _list(as_json=as_json)
    return exit_codes.OK


def _list(*, as_json: bool) -> None:
    specs = WORKSPACE_TOOLS.values()
    if as_json:
        print_json([_as_document(spec) for spec in specs])
    else:
        print_table(
            ("TOOL", "EFFECT", "WHAT IT DOES"),
            [(spec.name, _EFFECTS[spec.effect], spec.description) for spec in specs],
        )
        if is_colourful():
            print_note("moorage tool TOOL --help shows the arguments of one.")


def _as_document(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "effect": spec.effect,
        "description": spec.description,
        "input_schema": spec.input_schema(),
    }


def _command_of(spec: ToolSpec) -> click.Command:
    @session_options
    def call(choice: SessionChoice, words: tuple[str, ...], *, as_json: bool) -> int:
        # Late: help and errors of usage need no event loop.

        arguments = parse_words(spec.name, spec.input_schema(), words, _read_text)
        return anyio.run(_call, choice, spec.name, arguments, as_json)

    json_option = click.option("--json", "as_json", is_flag=True, help="Print the whole result.")
    words = click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[key=value]...")
    return click.command(
        spec.name, help=spec.description, epilog=_arguments_help(spec), cls=click.Command
    )(words(json_option(call)))


def _arguments_help(spec: ToolSpec) -> str:
    schema = spec.input_schema()
    required = schema.get("required", [])
    lines = ["\b", "Arguments:"]
    for key, field in schema["properties"].items():
        default = field.get("default")
        notes = [type_of(field)]
        if key in required:
            notes.append("required")
        elif default not in (None, "", []):
            notes.append(f"default {str(default).lower() if default is False else default}")
        lines += [f"  {key}  ({', '.join(notes)})", f"      {field.get('description', '')}"]
    return "\n".join(lines)


def _read_text(place: str) -> str:
    try:
        data = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
        return data.decode()
    except OSError as error:
        raise InvalidArguments(f"{place} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidArguments(f"{place} is not UTF-8 text.") from error


async def _call(choice: SessionChoice, name: str, arguments: dict[str, Any], as_json: bool) -> int:
    async with open_chosen(choice) as session:
        if name == "bash" and not session.processes.outlive_host:
            # Its worker ends with this program, and a command that was handed over with it.
            arguments.setdefault("hand_over", False)
        result = await session.call(name, arguments)
    if as_json:
        print_json(result_document(result))
    else:
        show_result(result)
    return exit_codes.FAILED if result.is_error else exit_codes.OK


def result_document(result: ToolResult) -> dict[str, Any]:
    """Return a result as its JSON document; the keys are the same for every tool."""
    return {
        "content": result.content,
        "structured_content": result.structured_content,
        "is_error": result.is_error,
    }


def show_result(result: ToolResult) -> None:
    """Write what the model would read: an error to standard error, the rest to standard output."""
    text = "\n".join(_part_text(part) for part in result.content)
    if result.is_error:
        print_failure(text or "the tool failed without a word.")
    elif text:
        click.echo(many_lines(text) if sys.stdout.isatty() else text, nl=not text.endswith("\n"))


def _part_text(part: ContentPart) -> str:
    if part.type == "text":
        return part.text
    where = part.uri or part.name or part.remote_ref or f"{len(part.data)} base64 characters"
    what = f"{part.type} {part.mime_type}".strip()
    return f"[{what}, {where}; --json has it whole]"
