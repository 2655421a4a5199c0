"""Gate: modules, classes, functions and folders stay small, and their names say something.

The limits are those of ``docs/architecture.md``. Branches and parameters are ruff's to count.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import repository

MAX_MODULE_LINES = 500
MAX_CLASS_LINES = 300
MAX_FUNCTION_LINES = 60
MAX_MODULES_IN_FOLDER = 13
MAX_DEPTH = 2

# Rooms of many modules of one shape: a catalogue is as long as what it lists.
CATALOGUE_ROOMS = frozenset({"api", "backends", "cli", "conformance", "tools"})
EMPTY_NAMES = frozenset(
    {"base", "common", "core", "helper", "helpers", "impl", "manager", "managers", "misc"}
    | {"shared", "util", "utils"}
)


def size_findings(path: Path, source: str) -> Iterator[str]:
    """Yield what is too long in one module."""
    line_count = source.count("\n")
    if line_count > MAX_MODULE_LINES:
        yield f"{path}: {line_count} lines, at most {MAX_MODULE_LINES}; split it by idea."
    for node in ast.walk(ast.parse(source, filename=str(path))):
        match node:
            case ast.ClassDef():
                limit = MAX_CLASS_LINES
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                limit = MAX_FUNCTION_LINES
            case _:
                continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > limit:
            yield f"{path}:{node.lineno}: {node.name} has {length} lines, at most {limit}."


def name_findings(paths: list[Path]) -> Iterator[str]:
    """Yield the files and folders whose name says nothing."""
    parts = {part for path in paths for part in [*path.parents, path.with_suffix("")] if part.name}
    for part in sorted(parts):
        words = part.name.removeprefix("test_").split("_")
        if words[-1] in EMPTY_NAMES:
            yield f"{part}: {words[-1]!r} names no idea; say what it holds."


def folder_findings(paths: list[Path], package: Path) -> Iterator[str]:
    """Yield the folders of ``package`` that hold too many modules or lie too deep."""
    modules: dict[Path, int] = defaultdict(int)
    for path in paths:
        if path.is_relative_to(package):
            modules[path.parent] += not path.name.startswith("__")
    for folder, count in sorted(modules.items()):
        room = folder.relative_to(package)
        if len(room.parts) > MAX_DEPTH:
            yield f"{folder}: {len(room.parts)} folders deep, at most {MAX_DEPTH}."
        if count > MAX_MODULES_IN_FOLDER and not CATALOGUE_ROOMS.intersection(room.parts):
            yield f"{folder}: {count} modules, at most {MAX_MODULES_IN_FOLDER}; find its halves."


def findings(root: Path) -> list[str]:
    """Return everything that is out of shape below ``root``."""
    paths = repository.python_files(root)
    found = [
        line for path in paths for line in size_findings(path, (root / path).read_text("utf-8"))
    ]
    return [*found, *name_findings(paths), *folder_findings(paths, Path("src/moorage"))]


if __name__ == "__main__":
    sys.exit(repository.report("shape", findings(repository.ROOT)))
