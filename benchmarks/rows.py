"""One line of the table: what was measured, against which bar."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median

MS = 1000.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A figure, what was measured, and the bar it is held against.

    ``is_met`` is None for a line that only informs. ``values`` are the numbers behind the text.
    """

    figure: str
    measured: str
    bar: str = ""
    is_met: bool | None = None
    values: dict[str, float] = dataclasses.field(default_factory=dict)


def median_ms(seconds: Sequence[float]) -> float:
    """Return the median of durations in seconds, in milliseconds."""
    return median(seconds) * MS


def at_most(figure: str, seconds: Sequence[float], bar_ms: float) -> Row:
    """Return a row whose median must be at most ``bar_ms``."""
    value = median_ms(seconds)
    return Row(
        figure=figure,
        measured=f"{value:.2f} ms",
        bar=f"<= {bar_ms:g} ms",
        is_met=value <= bar_ms,
        values={"median_ms": value, "worst_ms": max(seconds) * MS, "rounds": len(seconds)},
    )


def ratio(
    figure: str, ours: Sequence[float], bare: Sequence[float], bar: float | None = None
) -> Row:
    """Return a row whose median must be at most ``bar`` times the median of the bare thing."""
    ours_ms, bare_ms = median_ms(ours), median_ms(bare)
    times = ours_ms / bare_ms
    return Row(
        figure=figure,
        measured=f"{times:.2f} x  ({ours_ms:.2f} ms over {bare_ms:.2f} ms)",
        bar="" if bar is None else f"<= {bar:g} x",
        is_met=None if bar is None else times <= bar,
        values={"times": times, "median_ms": ours_ms, "bare_median_ms": bare_ms},
    )


def added(figure: str, ours: Sequence[float], bare: Sequence[float], bar_ms: float) -> Row:
    """Return a row whose median may exceed that of the bare thing by ``bar_ms``."""
    more = median_ms(ours) - median_ms(bare)
    return Row(
        figure=figure,
        measured=f"{more:.2f} ms",
        bar=f"<= {bar_ms:g} ms",
        is_met=more <= bar_ms,
        values={"added_ms": more},
    )


def more(figure: str, ours: Sequence[float], other: Sequence[float]) -> Row:
    """Return a row that only informs by how much one median exceeds another."""
    difference = median_ms(ours) - median_ms(other)
    return Row(figure=figure, measured=f"{difference:.2f} ms", values={"added_ms": difference})


def mebibytes(figure: str, byte_count: float, bar: float) -> Row:
    """Return a row of memory that must be at most ``bar`` MiB."""
    size = byte_count / 2**20
    return Row(
        figure=figure,
        measured=f"{size:.1f} MiB",
        bar=f"<= {bar:g} MiB",
        is_met=size <= bar,
        values={"mebibytes": size},
    )


def per_cent(figure: str, share: float, bar: float) -> Row:
    """Return a row of a share that must be below ``bar`` per cent."""
    value = share * 100
    return Row(
        figure=figure,
        measured=f"{value:.2f} %",
        bar=f"< {bar:g} %",
        is_met=value < bar,
        values={"per_cent": value},
    )


def most(figure: str, seconds: Sequence[float], bar: float) -> Row:
    """Return a row whose worst value must be at most ``bar`` seconds."""
    worst, middle = max(seconds), median(seconds)
    return Row(
        figure=figure,
        measured=f"{worst:.2f} s  (median {middle:.2f} s)",
        bar=f"<= {bar:g} s",
        is_met=worst <= bar,
        values={"worst_s": worst, "median_s": middle, "rounds": len(seconds)},
    )
