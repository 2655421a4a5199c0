"""Run every gate and every test, in order of speed, and say at the end how each went.

``python scripts/gates.py NAME...`` runs only the named ones; ``--list`` shows them.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import repository

PYTHON = sys.executable
BIN = Path(PYTHON).parent
# More workers than cores would only make the tests that wait for processes slower.
TEST_WORKERS = max(1, min(4, os.cpu_count() or 1))
PYTEST_CLOSING_LINE = re.compile(
    r"^=*\s*(?P<text>\d+ (?:passed|failed|skipped|error).* in .*?)\s*=*$"
)


@dataclasses.dataclass(frozen=True)
class Gate:
    """One check: its name and the program that exits with 0 when all is in order."""

    name: str
    argv: tuple[str, ...]


def _script(name: str) -> tuple[str, ...]:
    return (PYTHON, f"scripts/{name}.py")


GATES = (
    Gate("format", (str(BIN / "ruff"), "format", "--check", "--quiet")),
    Gate("lint", (str(BIN / "ruff"), "check", "--quiet")),
    Gate("imports", (str(BIN / "lint-imports"), "--no-logo")),
    Gate("shape", _script("check_shape")),
    Gate("tests-wait", _script("check_tests")),
    Gate("texts", _script("check_texts")),
    Gate("news", (str(BIN / "towncrier"), "build", "--draft", "--version", "0")),
    Gate("types", (str(BIN / "mypy"),)),
    Gate(
        "tests",
        (
            *(PYTHON, "-m", "coverage", "run", "-m", "pytest", "-q", "--no-header"),
            *("-n", str(TEST_WORKERS), "--dist", "worksteal"),
        ),
    ),
    Gate("coverage", _script("coverage_floors")),
    Gate("torture", ("scripts/torture-processes", "--quick")),
    Gate("faults", ("scripts/torture-environments", "--quick")),
    Gate("wheel", _script("wheel_smoke")),
    Gate("lowest", _script("lowest_direct")),
    Gate(
        "docs",
        (
            *(PYTHON, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet"),
            *("docs", "docs/_build/html"),
        ),
    ),
)


def _run(gate: Gate) -> tuple[int, str]:
    """Run one gate with its output passed on, and return its exit code and last telling line."""
    print(f"\n--- {gate.name}", flush=True)
    closing_line = ""
    with subprocess.Popen(
        gate.argv,
        cwd=repository.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        assert child.stdout is not None  # noqa: S101 - a pipe was asked for
        for line in child.stdout:
            print(line, end="", flush=True)
            if match := PYTEST_CLOSING_LINE.match(line.strip()):
                closing_line = match["text"]
    return child.returncode, closing_line


def _forget_earlier_measurements() -> None:
    for path in repository.ROOT.glob(".coverage*"):
        path.unlink()
    (repository.ROOT / "build" / "coverage.json").unlink(missing_ok=True)


def main(names: list[str]) -> int:
    """Run the gates and print the summary; the exit code is 0 when all of them passed."""
    if names == ["--list"]:
        print("\n".join(gate.name for gate in GATES))
        return 0
    if unknown := set(names) - {gate.name for gate in GATES}:
        print(f"gates: no gate is called {', '.join(sorted(unknown))}; --list shows them all.")
        return 2
    chosen = [gate for gate in GATES if not names or gate.name in names]
    if any(gate.name == "tests" for gate in chosen):
        _forget_earlier_measurements()
    summary: list[str] = []
    failed: list[str] = []
    closing_lines: list[str] = []
    for gate in chosen:
        started = time.perf_counter()
        exit_code, closing_line = _run(gate)
        seconds = time.perf_counter() - started
        summary.append(
            f"  {gate.name:<11} {'failed' if exit_code else 'passed':<7} {seconds:6.1f} s"
        )
        if exit_code:
            failed.append(gate.name)
        if closing_line and gate.name == "tests":
            closing_lines.append(closing_line)
    print("\n--- summary", *summary, sep="\n")
    print(f"gates: failed: {', '.join(failed)}" if failed else "gates: all passed")
    for line in closing_lines:
        print(line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
