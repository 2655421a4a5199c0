"""Gate: tests wait for events, never for time, and say what they need by name.

A sleep makes a test slow where the machine is fast and wrong where it is slow; an assertion on a
measured duration fails on a busy machine; a skip of a test's own making would go unseen where the
whole suite has to run. All are found by reading the syntax tree.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import repository

# Reading a clock to measure. ``time.time`` stays allowed: files have times too.
CLOCKS = frozenset({"current_time", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"})
SLEEPS = frozenset({"sleep", "sleep_until"})
SKIPS = frozenset({"importorskip", "skip", "skipif"})
NEEDS = Path("tests/conftest.py")
"""Where a need that is not met becomes a skip or, under ``CI=true``, a failure."""


def _called_name(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _is_skip(node: ast.Attribute) -> bool:
    return node.attr in SKIPS and ast.unparse(node.value) in {"pytest", "pytest.mark"}


def _is_bare_checkpoint(call: ast.Call) -> bool:
    """Return whether the call is ``sleep(0)``, which lets other tasks run and waits for nothing."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def test_findings(path: Path, source: str) -> Iterator[str]:
    """Yield every sleep, clock and own skip that a module of tests uses."""
    may_skip = path == NEEDS
    for node in ast.walk(ast.parse(source, filename=str(path))):
        if isinstance(node, ast.Attribute) and _is_skip(node) and not may_skip:
            yield f'{path}:{node.lineno}: {node.attr} hides why; use @pytest.mark.needs("...").'
        if not isinstance(node, ast.Call):
            continue
        name = _called_name(node)
        if name in SLEEPS and not _is_bare_checkpoint(node):
            yield f"{path}:{node.lineno}: {name}() waits for time; wait for an event."
        if name in CLOCKS:
            yield f"{path}:{node.lineno}: {name}() measures time; assert order and cause instead."


def findings(root: Path) -> list[str]:
    """Return every such use below ``root``."""
    return [
        line
        for path in repository.python_files(root, ("tests",))
        for line in test_findings(path, (root / path).read_text("utf-8"))
    ]


if __name__ == "__main__":
    sys.exit(repository.report("tests", findings(repository.ROOT)))
