from __future__ import annotations

import sys
from pathlib import Path

import pytest

from moorage.confine.code_places import code_places
from moorage.confine.own_interpreter import LOADER, bundled_interpreter, own_interpreter
from moorage.workspace.own_program import loader_variables, own_argv


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have this process look as if its Python came in a portable worker."""
    loader = tmp_path / LOADER
    loader.parent.mkdir(parents=True)
    loader.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
    return tmp_path


def test_an_installed_python_starts_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
    assert own_interpreter() == (sys.executable,)
    assert own_argv("moorage.x")[0] == sys.executable
    assert loader_variables() == {"LD_LIBRARY_PATH": "/elsewhere"}


def test_a_bundled_python_starts_by_its_own_loader_and_without_variables(bundled: Path) -> None:
    start = own_interpreter()
    assert start == bundled_interpreter(str(bundled))
    assert start[0] == f"{bundled}/lib/moorage-loader"
    assert start[start.index("--library-path") + 1] == f"{bundled}/lib/native"
    assert own_argv("moorage.x")[: len(start)] == start
    assert loader_variables() == {}


def test_a_bundle_is_a_place_of_code_as_a_whole(bundled: Path) -> None:
    places = code_places([], {"LD_LIBRARY_PATH": "/a", "PYTHONPATH": "/b", "LD_PRELOAD": "/c"})
    assert [place.is_whole for place in places if place.path == str(bundled)] == [True, True]
    assert [place.path for place in places if place.variable] == ["/c"]
