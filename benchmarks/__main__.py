"""Run the measurements and print the table; ``--json FILE`` also writes the numbers."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path

import anyio

from benchmarks import background, commands, environments, files, output, search, startup
from benchmarks.place import Place, temporary_place
from benchmarks.rows import Row

FAMILIES: dict[str, Callable[[Place], AsyncIterator[Row]]] = {
    "commands": commands.rows,
    "background": background.rows,
    "files": files.rows,
    "search": search.rows,
    "output": output.rows,
    "startup": startup.rows,
    "environments": environments.rows,
}
VERDICTS = {True: "met", False: "missed", None: ""}


def main() -> None:
    """Measure the chosen families, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("family", nargs="*", help=f"any of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    parser.add_argument("--quick", action="store_true", help="shorten what takes minutes")
    options = parser.parse_args()
    if unknown := set(options.family) - FAMILIES.keys():
        parser.error(f"no family is called {', '.join(sorted(unknown))}")
    chosen = options.family or list(FAMILIES)
    print(f"{machine()}\n\n{line('Figure', 'Measured', 'Bar', '')}\n{'-' * 116}", flush=True)
    measured = anyio.run(measure, chosen, options.quick)
    if options.json:
        report = {"machine": machine(), "rows": [asdict(row) for row in measured]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


async def measure(chosen: list[str], is_quick: bool) -> list[Row]:
    """Run the families one after another and print each row as it is known."""
    measured: list[Row] = []
    with temporary_place(is_quick=is_quick) as place:
        for family in chosen:
            try:
                async for row in FAMILIES[family](place):
                    print(line(row.figure, row.measured, row.bar, VERDICTS[row.is_met]), flush=True)
                    measured.append(row)
            except Exception as error:  # noqa: BLE001 - one broken family must not hide the others
                print(line(family, f"failed: {cause_of(error)!r}", "", ""), flush=True)
    return measured


def cause_of(error: BaseException) -> BaseException:
    """Return the first error inside nested groups of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def line(figure: str, measured: str, bar: str, verdict: str) -> str:
    """Return one line of the table."""
    return f"{figure:<50} {measured:<42} {bar:<13} {verdict}".rstrip()


def machine() -> str:
    """Return what the figures depend on."""
    load, *_ = os.getloadavg()
    return (
        f"Python {platform.python_version()}, Linux {platform.release()}, "
        f"{os.cpu_count()} cores, load {load:.1f}"
    )


if __name__ == "__main__":
    main()
