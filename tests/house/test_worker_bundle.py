from __future__ import annotations

import os
from pathlib import Path

import pytest

import bundle_modules
import worker_bundle
from moorage.backends.bundle import hash_file

SOURCE = """
import a.b, c as d
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import never
if TYPE_CHECKING or not lazy():
    from . import beside
try:
    from .deep import thing
except ImportError:
    def late():
        from ..above import other
"""


def test_imports_are_read_wherever_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    found = set(bundle_modules.imports("top.package.module", file))
    assert {"a.b", "c", "typing", "top.package.beside", "top.package.deep.thing"} <= found
    assert "top.above.other" in found
    assert "never" not in found
    package = tmp_path / "__init__.py"
    package.write_text("from . import beside")
    assert "top.package.beside" in bundle_modules.imports("top.package", package)


def test_modules_are_followed_with_their_packages_and_without_what_is_left_out(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site-packages"
    for name, text in {
        "tool/__init__.py": "",
        "tool/first.py": "import tool.second, anyio.streams, yaml, doctest",
        "tool/second.py": "import tool.first, nowhere",
        "doctest.py": "",
        "site-packages/anyio/__init__.py": "import anyio.native",
        "site-packages/anyio/native.so": "",
        "site-packages/anyio/streams.py": "",
        "site-packages/yaml.py": "",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    modules = bundle_modules.Modules((tmp_path, site), (".so",))
    modules.add("tool.first")
    known = {"tool", "tool.first", "tool.second", "anyio", "anyio.native", "anyio.streams"}
    assert set(modules.found) == known


def test_the_outside_of_moorage_does_not_come_along(tmp_path: Path) -> None:
    for name in ("worker/__init__.py", "worker/loop.py", "host/__init__.py", "__init__.py"):
        file = tmp_path / "moorage" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("import moorage.host")
    modules = bundle_modules.Modules((tmp_path,), ())
    modules.add_whole("moorage.worker")
    modules.add_whole("moorage.missing")
    assert set(modules.found) == {"moorage", "moorage.worker", "moorage.worker.loop"}


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    archives = []
    for order in (("b", "a"), ("a", "b")):
        folder = tmp_path / "".join(order)
        (folder / "top").mkdir(parents=True)
        for name in order:
            file = folder / "top" / name
            file.write_text(name)
            file.chmod(0o600 if order[0] == "a" else 0o664)
            os.utime(file, (len(archives), len(archives)))
        archives.append(worker_bundle.pack(folder))
    assert archives[0] == archives[1]


def test_an_archive_and_its_hash_are_put_where_they_are_looked_for(tmp_path: Path) -> None:
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(b"new")
    hash_file(archive).write_text("told")
    folder = tmp_path / "state" / "bundles"
    for _ in range(2):
        there = worker_bundle.install(archive, folder)
    assert (there.read_bytes(), hash_file(there).read_text()) == (b"new", "told")
    assert sorted(folder.iterdir()) == [there, hash_file(there)]


@pytest.mark.needs("system python")
def test_what_is_built_is_built_once(portable_worker) -> None:
    status = portable_worker.archive.stat()
    assert worker_bundle.built() == portable_worker.archive
    assert portable_worker.archive.stat().st_mtime_ns == status.st_mtime_ns
