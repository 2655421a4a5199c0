"""Build the portable worker, an archive of Python and the worker that runs without an installation.

The same sources on the same system make the same bytes. What was built is kept below ``build`` and
used again until something that goes into it changes.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import hashlib
import importlib.metadata
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import bundle_contents
import bundle_modules
import repository
from moorage.backends.bundle import (
    MAX_BYTES,
    archive_name,
    bundle_argv,
    bundles_folder,
    hash_file,
)
from moorage.confine.own_interpreter import TOP, bundled_interpreter

KEPT = repository.ROOT / "build" / "worker-bundles"
MOST_KEPT = 4

_TIME = 315532800  # 1980-01-01: the first moment that every archive format can hold
_CHECK = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def built() -> Path:
    """Return the archive of exactly this state of the sources, which is built when there is none.

    One that builds keeps others waiting; they find what it made.
    """
    name = archive_name(importlib.metadata.version("moorage"), platform.machine())
    place = KEPT / _inputs()
    with _alone():
        archive = place / name
        if not hash_file(archive).is_file():
            place.mkdir(exist_ok=True)
            data = _build()
            archive.write_bytes(data)
            line = f"{hashlib.sha256(data).hexdigest()}  {name}\n"
            hash_file(archive).write_text(line, "ascii")
        os.utime(place)
        _forget_old()
    return archive


def install(archive: Path, folder: Path) -> Path:
    """Put a copy of the archive and its hash into a folder, each as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (archive, hash_file(archive)):
        staged = folder / f".{file.name}.{os.getpid()}"
        shutil.copyfile(file, staged)
        staged.replace(folder / file.name)
    return folder / archive.name


def _build() -> bytes:
    with TemporaryDirectory(prefix="moorage-bundle-") as folder:
        bundle_contents.fill(Path(folder) / TOP)
        _check(folder)
        data = pack(Path(folder))
    if len(data) > MAX_BYTES:
        raise SystemExit(f"The portable worker has {len(data)} bytes, at most {MAX_BYTES}.")
    return data


def pack(folder: Path) -> bytes:
    """Return the archive of a folder: in the order of names, without times, owners and umasks."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = _TIME
            is_program = path.parent.name in {"bin", "lib", "native"} or ".so" in path.name
            entry.mode = 0o755 if path.is_dir() or is_program else 0o644
            if path.is_dir():
                archive.addfile(entry)
                continue
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return gzip.compress(packed.getvalue(), compresslevel=9, mtime=0)


def _check(folder: str) -> None:
    """Import everything of ours in what was built, in an empty environment."""
    top = Path(folder) / TOP
    for program in (top / "bin", top / "lib"):
        for file in program.iterdir():
            if file.is_file():
                file.chmod(0o755)
    place = top / "lib" / f"python{bundle_contents.VERSION}"
    inside = sorted(place.joinpath("moorage").rglob("*.pyc"))
    names = [
        str(file.relative_to(place).with_suffix("")).replace("/", ".")
        for file in inside
        if file.stem not in {"__init__", "__main__"}
    ]
    python = bundled_interpreter(str(top))
    libraries = ("PIL.Image", "PIL.ImageOps", "anyio._backends._asyncio", "asyncio", "ssl")
    subprocess.run([*python, "-c", _CHECK, *names, *libraries], env={}, check=True)
    subprocess.run([*bundle_argv(folder), "--version"], env={}, check=True, stdout=sys.stderr)


def _inputs() -> str:
    """Return a name for everything that decides what is built."""
    told = hashlib.sha256(f"{platform.machine()} {sys.version}".encode())
    src = repository.ROOT / "src"
    rooms = [src / name.replace(".", "/") for name in ("moorage.__init__", *bundle_modules.INSIDE)]
    files = [file for room in rooms for file in sorted(room.rglob("*.py"))]
    files += [file for room in rooms if (file := room.with_suffix(".py")).is_file()]
    files += sorted(Path(__file__).parent.glob("*bundle*.py"))
    files += [repository.ROOT / "requirements.lock", repository.ROOT / "LICENSE"]
    for file in files:
        told.update(f"{file.name} ".encode() + hashlib.sha256(file.read_bytes()).digest())
    installed = ["dpkg-query", "--show", "python3.11-minimal", "libpython3.11-stdlib", "libc6"]
    told.update(subprocess.run(installed, capture_output=True, check=True).stdout)
    return told.hexdigest()[:24]


def _forget_old() -> None:
    places = sorted(KEPT.glob("[0-9a-f]*"), key=lambda place: place.stat().st_mtime)
    for place in places[:-MOST_KEPT]:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _alone() -> Iterator[None]:
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Build it, put it where it is looked for, and print where that is."""
    described = argparse.ArgumentParser(prog="build-worker-bundle", description=__doc__)
    described.add_argument(
        "--into", metavar="DIR", type=Path, default=bundles_folder(),
        help="where to put the archive (default: %(default)s)",
    )  # fmt: skip
    archive = install(built(), described.parse_args().into)
    print(f"{archive}  ({archive.stat().st_size / 1024 / 1024:.1f} MiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
