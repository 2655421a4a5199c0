from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from moorage.confine import code_places as module
from moorage.confine.code_places import (
    CodePlace,
    check_code_apart,
    code_places,
    installed_path,
    ways,
)
from moorage.errors import ConfigError


def test_a_root_that_holds_code_is_refused_with_what_to_do(tmp_path: Path) -> None:
    site = tmp_path / ".venv/lib/python3/site-packages"
    with pytest.raises(ConfigError, match=rf"workspace: .*{site}.*rewrite.*uv tool install") as it:
        check_code_apart([str(tmp_path)], [CodePlace(str(site))])
    assert "read_only" in it.value.hint


def test_a_root_inside_a_folder_of_code_is_refused_where_all_of_it_is_code() -> None:
    check_code_apart(["/p/src/other"], [CodePlace("/p/src")])
    with pytest.raises(ConfigError, match="writable_roots"):
        check_code_apart(["/v/pkg"], [CodePlace("/v", is_whole=True)], field="writable_roots")


def test_a_variable_that_names_a_place_in_the_workspace_is_named(tmp_path: Path) -> None:
    variables = {"PYTHONPATH": f"/elsewhere:{tmp_path}/not/there/yet"}
    with pytest.raises(ConfigError, match=r"PYTHONPATH names .*Unset PYTHONPATH"):
        check_code_apart([str(tmp_path)], code_places([], variables))


@pytest.mark.parametrize("name", module.VARIABLES)
def test_an_empty_entry_of_a_variable_is_the_current_folder(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"{name} names"):
        check_code_apart([str(tmp_path)], code_places([], {name: "/elsewhere:"}))
    check_code_apart([str(tmp_path)], code_places([], {name: ""}))


def test_this_very_installation_is_known() -> None:
    found = {place.path for place in code_places(variables={})}
    package = str(Path(module.__file__).parents[1])
    assert {package, sys.prefix, sys.executable, os.path.dirname(os.__file__)} <= found
    for path in (package, sys.prefix, sys.base_prefix):
        with pytest.raises(ConfigError, match="loaded from"):
            check_code_apart([os.path.realpath(path)], code_places(variables={}))


def test_packages_that_are_hard_links_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own", "linked"):
        (tmp_path / f"{name}.py").touch()
        loaded = ModuleType(name)
        loaded.__file__ = f"{tmp_path}/{name}.py"
        monkeypatch.setitem(sys.modules, name, loaded)
    (tmp_path / "workspace.py").hardlink_to(tmp_path / "linked.py")
    assert module.linked_packages(("own", "linked", "sys", "never.loaded")) == ("linked",)


def test_an_ordinary_workspace_is_fine(tmp_path: Path) -> None:
    check_code_apart([str(tmp_path)], code_places())


def test_the_folder_of_the_running_program_is_its_own_business() -> None:
    library = os.path.dirname(os.__file__)
    entries = ["", "/program", "/lib/python.zip", library, "/site-packages", "/of/a/pth"]
    assert installed_path(entries) == (library, "/site-packages", "/of/a/pth")
    assert installed_path(["/a"]) == ("/a",)


def test_shared_memory_can_always_be_written() -> None:
    with pytest.raises(ConfigError, match=module.SHARED_MEMORY):
        check_code_apart([], [CodePlace(f"{module.SHARED_MEMORY}/venv")])


def test_every_symlink_on_the_way_counts(tmp_path: Path) -> None:
    (tmp_path / "real/bin").mkdir(parents=True)
    (tmp_path / "root").mkdir()
    (tmp_path / "root/venv").symlink_to("../real")
    (tmp_path / "outer").symlink_to(tmp_path / "root/./venv")
    (tmp_path / "real/bin/python").symlink_to("python3")
    top = str(tmp_path)
    assert list(ways(f"{top}/outer/bin/python")) == [
        f"{top}/outer",
        f"{top}/root/venv",
        f"{top}/real/bin/python",
        f"{top}/real/bin/python3",
    ]
    with pytest.raises(ConfigError, match="root/venv"):
        check_code_apart([f"{top}/root"], [CodePlace(f"{top}/outer/bin/python")])


def test_a_circle_of_symlinks_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert len(list(ways(f"{tmp_path}/a"))) < 50


def test_where_the_current_folder_is_gone_a_relative_path_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(module.os, "getcwd", gone)
    assert list(ways("relative")) == ["/"]
    assert list(ways("/no/such")) == ["/no/such"]
