"""Which modules a portable worker needs: what its own import, and what those import, to the end.

The imports are read from the sources and none is run, so a branch that this machine never takes is
followed as well. What a name cannot tell (an import by string, or from C) stands in ``UNSEEN``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# The rooms of Moorage that run inside an environment.
INSIDE = (
    *("moorage.errors", "moorage.policy", "moorage.protocol", "moorage.confine"),
    *("moorage.process", "moorage.transports", "moorage.connection", "moorage.workspace"),
    *("moorage.tools", "moorage.worker"),
)
# Whole packages, whose modules are imported by strings.
WHOLE = (*INSIDE, "encodings", "importlib", "idna", "msgspec")
# Single modules that are imported by strings, from C, by the interpreter or by the self-tests.
UNSEEN = (
    *("_strptime", "datetime", "decimal", "uuid", "zoneinfo", "ipaddress", "runpy", "traceback"),
    *("ctypes", "fcntl", "signal", "socket", "struct", "resource", "mmap", "_bootlocale"),
    *("anyio._backends._asyncio", "PIL._imaging", "PIL._webp", "PIL.WebPImagePlugin"),
    *("PIL.JpegImagePlugin", "PIL.PngImagePlugin", "PIL.GifImagePlugin"),
)
# The libraries that may come along, by the names of their packages.
LIBRARIES = frozenset({"PIL", "anyio", "idna", "msgspec", "sniffio", "typing_extensions"})
# Large things behind branches that a worker never takes.
LEFT_OUT = (
    *("doctest", "pdb", "pydoc", "unittest", "test", "tkinter", "lib2to3", "distutils", "sqlite3"),
    *("curses", "readline", "dbm", "xmlrpc", "idlelib", "ensurepip", "venv", "webbrowser"),
    *("antigravity", "this", "multiprocessing", "http", "ftplib", "smtplib", "nntplib", "turtle"),
    *("anyio.pytest_plugin", "anyio._backends._trio", "encodings.mbcs"),
    *("encodings.oem", "PIL._avif", "PIL._imagingft", "PIL._imagingcms", "PIL._imagingtk"),
    *("PIL.ImageFont", "PIL.ImageQt", "PIL.ImageTk", "PIL.ImageCms", "PIL.ImageShow"),
    *("PIL.AvifImagePlugin"),
)


class Modules:
    """The files of modules by name, found below some folders."""

    def __init__(self, folders: tuple[Path, ...], suffixes: tuple[str, ...]) -> None:
        """Look for Python files, and for extensions with these suffixes."""
        self._folders = folders
        self._suffixes = (".py", *suffixes)
        self.found: dict[str, Path] = {}

    def add(self, name: str) -> None:
        """Find a module, the packages that it lies in, and everything that they import."""
        waiting = [name]
        while waiting:
            for known in _with_packages(waiting.pop()):
                file = None if known in self.found or _is_left_out(known) else self._file(known)
                if file is not None:
                    self.found[known] = file
                    waiting += imports(known, file)

    def add_whole(self, package: str) -> None:
        """Find a module or every module of a package, with everything that they import."""
        self.add(package)
        top = self.found.get(package)
        if top is None or top.stem != "__init__":
            return
        for file in sorted(top.parent.rglob("*.py")):
            parts = file.relative_to(top.parent).with_suffix("").parts
            self.add(".".join((package, *(part for part in parts if part != "__init__"))))

    def _file(self, name: str) -> Path | None:
        below = name.replace(".", "/")
        for folder in self._folders:
            if folder.name == "site-packages" and below.partition("/")[0] not in LIBRARIES:
                continue
            for rest in (*(f"/__init__{suffix}" for suffix in self._suffixes), *self._suffixes):
                if (file := folder / f"{below}{rest}").is_file():
                    return file
        return None


def needed_modules(folders: tuple[Path, ...], suffixes: tuple[str, ...]) -> dict[str, Path]:
    """Return the files of all modules of a portable worker, by name.

    ``suffixes`` are those of extensions for the Python that comes along.
    """
    modules = Modules(folders, suffixes)
    for package in WHOLE:
        modules.add_whole(package)
    for name in UNSEEN:
        modules.add(name)
    return modules.found


def imports(name: str, file: Path) -> list[str]:
    """Return the names that a module may import; an extension tells none."""
    if file.suffix != ".py":
        return []
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    found: list[str] = []
    for node in _run_nodes(ast.parse(file.read_bytes(), filename=str(file))):
        match node:
            case ast.Import():
                found += [alias.name for alias in node.names]
            case ast.ImportFrom():
                origin = _origin(node, package)
                found += [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
            case _:
                continue
    return found


def _origin(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _run_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node but those that only a type checker looks at."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        yield from _run_nodes(node)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: count + 1]) for count in range(len(parts)))


def _is_left_out(name: str) -> bool:
    is_outside = name.startswith("moorage.") and not name.startswith(INSIDE)
    return is_outside or any(name == left or name.startswith(f"{left}.") for left in LEFT_OUT)
