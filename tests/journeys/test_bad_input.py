from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def one_sentence(err: bytes) -> str:
    text = err.decode()
    assert text.startswith("moorage: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


def test_an_environment_that_nobody_configured_is_127(terminal: Any) -> None:
    ended = terminal("run", "--env", "lab", "--", "true")
    assert ended.code == 127
    assert "unknown environment 'lab'; configured are local." in one_sentence(ended.err)


def test_an_invalid_configuration_starts_nothing(terminal: Any) -> None:
    configuration = terminal.home / "moorage"
    configuration.mkdir()
    (configuration / "config.json").write_text('{"execution_environments": {"default": 3}}')
    ended = terminal("run", "-c", "touch made")
    assert ended.code == 125
    assert "execution_environments.default" in one_sentence(ended.err)
    assert not (terminal.project / "made").exists()


@pytest.mark.parametrize(
    ("name", "sentence"), [("nowhere", "does not exist"), ("file", "is not a folder")]
)
def test_a_workspace_that_is_no_folder_is_125(terminal: Any, name: str, sentence: str) -> None:
    (terminal.project / "file").write_text("")
    ended = terminal("run", "--workspace", name, "--", "true")
    assert ended.code == 125
    assert sentence in one_sentence(ended.err)


def test_a_workspace_that_cannot_be_read_is_125(terminal: Any) -> None:
    locked = terminal.project / "locked"
    locked.mkdir(mode=0)
    ended = terminal.without_the_rights_of_root()("run", "--workspace", "locked", "--", "true")
    assert ended.code == 125
    assert "cannot be read" in one_sentence(ended.err)


def test_a_home_that_may_not_be_written_is_125(terminal: Any) -> None:
    terminal.home.chmod(0o500)
    ended = terminal.without_the_rights_of_root()("run", "-c", "touch made")
    assert ended.code == 125
    assert "MOORAGE_HOME" in one_sentence(ended.err)
    assert not (terminal.project / "made").exists()


def test_a_configuration_that_may_not_be_read_is_125(terminal: Any) -> None:
    configuration = terminal.home / "moorage" / "config.json"
    configuration.parent.mkdir()
    configuration.write_text("{}")
    configuration.chmod(0)
    ended = terminal.without_the_rights_of_root()("env", "list")
    assert ended.code == 125
    assert "cannot be read" in one_sentence(ended.err)


def test_a_workspace_around_moorages_home_is_125(terminal: Any) -> None:
    ended = terminal("run", "--workspace", str(terminal.home), "-c", "touch made")
    assert ended.code == 125
    assert str(terminal.home / "moorage") in one_sentence(ended.err)
    assert not (terminal.home / "made").exists()


def test_a_kernel_without_landlock_runs_nothing_and_says_what_helps(terminal: Any) -> None:
    ended = terminal.without_landlock()("run", "-c", "touch made")
    assert ended.code == 126
    assert "Landlock" in one_sentence(ended.err)
    assert "6.2" in ended.err.decode()
    assert not (terminal.project / "made").exists()


def test_a_kernel_without_landlock_still_runs_what_is_unconfined(terminal: Any) -> None:
    ended = terminal.without_landlock()("run", "--mode", "unconfined", "-c", "touch made")
    assert ended.code == 0
    assert (terminal.project / "made").exists()


def test_a_folder_to_run_in_that_is_not_there_is_one_sentence(terminal: Any) -> None:
    ended = terminal("run", "--cwd", "nowhere", "--", "true")
    assert ended.code == 125
    assert "nowhere" in one_sentence(ended.err)


def test_a_home_that_cannot_be_written_is_one_sentence(terminal: Any) -> None:
    (terminal.home / "moorage").write_text("a file where a folder should be")
    ended = terminal("run", "--", "true")
    assert ended.code == 125
    assert "MOORAGE_HOME" in one_sentence(ended.err)


@pytest.mark.parametrize(
    ("path", "code"), [("../outside", 126), ("/etc/passwd", 126), ("link", 126), ("nothing", 1)]
)
def test_a_path_that_escapes_is_refused(
    terminal: Any, tmp_path: Path, path: str, code: int
) -> None:
    (tmp_path / "outside").write_text("secret")
    (terminal.project / "link").symlink_to(tmp_path / "outside")
    ended = terminal("tool", "read_file", f"path={path}")
    assert ended.code == code
    assert ended.out == b""
    assert b"secret" not in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--", "ls", "caf\udce9"),
        ("run", "-c", "touch caf\udce9"),
        ("run", "-C", "caf\udce9", "--", "true"),
        ("run", "-w", "caf\udce9", "--", "true"),
        ("tool", "write_file", "path=caf\udce9", "content="),
    ],
)
def test_an_argument_that_is_no_text_starts_and_keeps_nothing(
    terminal: Any, arguments: tuple[str, ...]
) -> None:
    ended = terminal(*arguments)
    assert ended.code == (125 if arguments[0] == "run" else 2)
    assert r"caf\xe9' is not UTF-8 text" in one_sentence(ended.err)
    assert list(terminal.project.iterdir()) == []
    assert list(terminal.home.iterdir()) == []
