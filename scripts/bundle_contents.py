"""What lies in a portable worker, put into a folder: Python, its C library, and our own modules.

Where things lie is what ``moorage.confine.own_interpreter`` says. Nothing here names an
architecture: the loader and the libraries are those that the system's own Python is linked to.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import bundle_modules
import repository
from moorage.confine.own_interpreter import LIBRARIES, LOADER, PYTHON

SYSTEM_PYTHON = Path("/usr/bin/python3.11")
STANDARD_LIBRARY = Path("/usr/lib/python3.11")
VERSION = "3.11"

# The system loads it by name when a thread ends.
_BY_NAME = ("libgcc_s.so.1",)
_LIBRARY_LINE = re.compile(r"\s(?:(\S+) => )?(/\S+) \(0x")
_DISTRIBUTIONS = ("anyio", "idna", "msgspec", "pillow", "typing_extensions")
# Frozen sets are written in the order of their hashes, and files never look at their sources.
_COMPILE = """
import sys, py_compile
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for line in sys.stdin.read().splitlines():
    source, target, name = line.split("\\t")
    py_compile.compile(source, target, name, doraise=True, invalidation_mode=mode)
"""


def fill(top: Path) -> None:
    """Put everything but the archive's own order into a folder."""
    packages = libraries_folder()
    folders = (repository.ROOT / "src", packages)
    standard = (STANDARD_LIBRARY, STANDARD_LIBRARY / "lib-dynload")
    modules = bundle_modules.needed_modules((*folders, *standard), _suffixes())
    place = top / "lib" / f"python{VERSION}"
    _copy(SYSTEM_PYTHON, top / PYTHON)
    sources, linked = [], [SYSTEM_PYTHON]
    for file in sorted(modules.values()):
        origin = next(folder for folder in (*standard[::-1], *folders) if folder in file.parents)
        target = place / ("lib-dynload" if origin == standard[1] else "") / file.relative_to(origin)
        if file.suffix == ".py":
            target.parent.mkdir(parents=True, exist_ok=True)
            sources.append(f"{file}\t{target.with_suffix('.pyc')}\t{file.relative_to(origin)}")
        else:
            _copy(file, target)
            linked.append(file)
    _compile(sources)
    native = _copy_native(linked, top, packages)
    _write_metadata(place)
    _copy_licences(top / "licenses", native, packages)


def libraries_folder() -> Path:
    """Return a folder with our libraries for the system's Python: this one's, or a fetched one."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == VERSION:
        return Path(str(importlib.metadata.distribution("msgspec").locate_file(""))).resolve()
    place = repository.ROOT / "build" / "worker-libraries" / "site-packages"
    lock = (repository.ROOT / "requirements.lock").read_text("utf-8")
    wanted = [re.search(rf"^{name.replace('_', '.')}==[^ ;]+", lock, re.MULTILINE)
              for name in _DISTRIBUTIONS]  # fmt: skip
    fetch = ("-m", "uv", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:")
    target = ("--python-version", VERSION, "--target", str(place))
    pinned = [found.group() for found in wanted if found is not None]
    subprocess.run([sys.executable, *fetch, *target, *pinned], check=True)
    return place


def _suffixes() -> tuple[str, ...]:
    program = "import importlib.machinery as m; print(*m.EXTENSION_SUFFIXES)"
    told = subprocess.run([SYSTEM_PYTHON, "-S", "-c", program], check=True, capture_output=True)
    return tuple(told.stdout.decode().split())


def _compile(sources: Iterable[str]) -> None:
    subprocess.run(
        [SYSTEM_PYTHON, "-S", "-c", _COMPILE],
        input="\n".join(sources).encode(),
        env={"PYTHONHASHSEED": "0"},
        check=True,
    )


def _copy_native(files: list[Path], top: Path, packages: Path) -> list[Path]:
    """Copy the loader and every library that the files are linked to; return where they lay."""
    needed: dict[str, Path] = {}
    loader: Path | None = None
    listing = subprocess.run(["ldd", *files], capture_output=True, check=True, text=True).stdout
    for name, found in _LIBRARY_LINE.findall(listing):
        if name:
            needed[name] = Path(found)
        else:
            loader = Path(found)
    if loader is None:
        raise SystemExit(f"{SYSTEM_PYTHON} names no loader: is it linked statically?")
    beside = needed["libc.so.6"].resolve().parent
    for name in _BY_NAME:
        needed[name] = beside / name
    _copy(loader, top / LOADER)
    for name, file in needed.items():
        # A wheel's own libraries are found beside it, under the names that it gave them.
        inside = packages in file.resolve().parents
        place = top / "lib" / f"python{VERSION}" / os.path.relpath(file.resolve(), packages)
        _copy(file, place if inside else top / LIBRARIES / name)
    return [loader, *needed.values(), SYSTEM_PYTHON]


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def _write_metadata(place: Path) -> None:
    """Let ``importlib.metadata`` tell the version of Moorage."""
    version = importlib.metadata.version("moorage")
    folder = place / f"moorage-{version}.dist-info"
    folder.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: moorage\nVersion: {version}\n"
    (folder / "METADATA").write_text(text, "ascii")


def _copy_licences(target: Path, native: list[Path], packages: Path) -> None:
    """Bring the licence of everything that is in it along."""
    _copy(repository.ROOT / "LICENSE", target / "moorage")
    for package in _debian_packages(native):
        told = Path("/usr/share/doc") / package / "copyright"
        if told.is_file():
            _copy(told, target / package)
    for distribution in importlib.metadata.distributions(path=[str(packages)]):
        if distribution.name.replace("-", "_") in _DISTRIBUTIONS:
            for file in distribution.files or ():
                if "licen" in file.name.lower():
                    _copy(Path(str(file.locate())), target / distribution.name)


def _debian_packages(files: list[Path]) -> list[str]:
    names = set()
    for file in files:
        # A library may be registered with its path from before /usr was merged.
        for path in {str(file), str(file.resolve()), str(file.resolve()).removeprefix("/usr")}:
            asked = subprocess.run(
                ["dpkg-query", "-S", path], capture_output=True, check=False, text=True
            )
            names |= {line.partition(":")[0] for line in asked.stdout.splitlines()}
    return sorted(names)
