"""How things look: plain text when piped, colours and tables on a terminal, JSON on request."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from rich.table import Table

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


def age(seconds: float) -> str:
    """Return how long ago something was, in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(int(seconds), 0)} s"


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
    click.echo(note(text, sys.stderr), err=True)


def note(text: str, stream: TextIO | None = None) -> str:
    """Return a remark of Moorage's own as it stands on ``stream``."""
    return f"{styled('moorage:', stream=stream, dim=True)} {many_lines(text)}"


def print_failure(text: str) -> None:
    """Write the sentence that says what went wrong and what to do to standard error."""
    mark = styled("moorage:", stream=sys.stderr, fg="red", bold=True)
    click.echo(f"{mark} {many_lines(text)}", err=True)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    colours: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write rows in columns: fitted to the terminal, or aligned and uncut when piped.

    ``colours`` names the colour of a cell by its text.
    """
    if not is_colourful():
        _print_aligned(columns, [[one_line(cell) for cell in row] for row in rows])
        return
    # Late: rich costs as much as everything else together and only a terminal needs it.
    from rich.console import Console  # noqa: PLC0415

    Console(highlight=False).print(fitted_table(columns, rows, colours))


def fitted_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], colours: Mapping[str, str]
) -> Table:
    """Return rows as a table that fits a terminal."""
    # Late: rich costs as much as everything else together and only a terminal needs it.
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = [[one_line(cell) for cell in row] for row in rows]
    # An empty column would take room that a path further right may need.
    kept = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index in kept:
        table.add_column(columns[index], no_wrap=index != kept[-1], overflow="fold")
    for row in rows:
        cells = (row[index] for index in kept)
        table.add_row(*(Text(shortened(cell), style=colours.get(cell, "")) for cell in cells))
    return table


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
