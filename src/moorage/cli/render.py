"""How things look: plain text when piped, colours and tables on a terminal, JSON on request."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import click

MAX_CELL_CHARACTERS = 200
"""A table is for the eye; whole values are in the JSON form."""

_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_VISIBLE_LINES = {code: text for code, text in _VISIBLE.items() if code not in {9, 10}}


def is_colourful(stream: TextIO | None = None) -> bool:
    """Return whether colours and progress belong on ``stream``: a capable terminal, no NO_COLOR."""
    stream = sys.stdout if stream is None else stream
    return (
        stream.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def styled(text: str, *, stream: TextIO | None = None, **style: Any) -> str:
    """Return ``text`` in a style where colours belong, as it is elsewhere."""
    return click.style(text, **style) if is_colourful(stream) else text


def one_line(text: str) -> str:
    """Return text of unknown origin as one harmless line.

    Records and file names may hold escape sequences; none of them may reach a terminal as such.
    """
    flat = " ".join(text.split())
    return flat.translate(_VISIBLE)


def many_lines(text: str) -> str:
    """Return text of unknown origin with its lines and tabs, every other control made visible."""
    return text.replace("\r\n", "\n").translate(_VISIBLE_LINES)


def shortened(text: str, width: int = MAX_CELL_CHARACTERS) -> str:
    """Return at most ``width`` characters, with an ellipsis where something was left out."""
    return text if len(text) <= width else text[: width - 1] + "…"


def duration(milliseconds: float) -> str:
    """Return a duration as people write it."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural where that is right."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def print_json(value: Any) -> None:
    """Write one JSON document to standard output."""
    # Late: msgspec costs 40 ms, which ``--help`` need not pay.
    import msgspec  # noqa: PLC0415

    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    click.echo(text.decode(errors="replace"))


def print_note(text: str) -> None:
    """Write a remark of Moorage's own to standard error, apart from a command's output."""
    mark = styled("moorage:", stream=sys.stderr, dim=True)
    click.echo(f"{mark} {many_lines(text)}", err=True)


def print_failure(text: str) -> None:
    """Write the sentence that says what went wrong and what to do to standard error."""
    mark = styled("moorage:", stream=sys.stderr, fg="red", bold=True)
    click.echo(f"{mark} {many_lines(text)}", err=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows in columns: fitted to the terminal, or aligned and uncut when piped."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    if is_colourful():
        _print_fitted(columns, cells)
    else:
        _print_aligned(columns, cells)


def _print_fitted(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # Late: rich costs as much as everything else together and only a terminal needs it.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # An empty column would take room that a path further right may need.
    kept = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index in kept:
        table.add_column(columns[index], no_wrap=index != kept[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(shortened(row[index])) for index in kept))
    Console(highlight=False).print(table)


def _print_aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [list(columns), *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def print_fields(fields: Mapping[str, str]) -> None:
    """Write names and values, one per line."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        click.echo(f"{styled(name.ljust(width), dim=True)}  {one_line(value)}".rstrip())
