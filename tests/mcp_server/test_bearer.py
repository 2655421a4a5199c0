from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from moorage.errors import ConfigError
from moorage.mcp_server.bearer import is_right_token, make_token, read_or_make_token, read_token
from moorage.protocol.secret import Secret

GOOD = "a" * 43


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_new_token_is_long_private_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "state" / "mcp" / "bearer-token"
    made, is_new = read_or_make_token(file)
    again, is_new_again = read_or_make_token(file)
    assert (is_new, is_new_again) == (True, False)
    assert made == again
    assert len(made) >= 43
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_two_tokens_are_never_the_same(tmp_path: Path) -> None:
    assert make_token(tmp_path / "one") != make_token(tmp_path / "two")


def test_a_token_that_the_user_wrote_is_taken_without_its_newline(tmp_path: Path) -> None:
    assert read_token(written(tmp_path, f"{GOOD}\n")) == Secret(GOOD)


@pytest.mark.parametrize(("owner", "is_taken"), [(1000, True), (0, True), (1001, False)])
def test_a_file_of_another_user_is_refused_unless_that_is_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, is_taken: bool
) -> None:
    file = written(tmp_path, GOOD)
    status = list(file.stat())
    status[stat.ST_UID] = owner
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(status))
    if is_taken:
        assert read_token(file) == Secret(GOOD)
    else:
        with pytest.raises(ConfigError, match="belongs to another user"):
            read_token(file)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_file_that_others_can_reach_is_refused_with_its_remedy(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        read_token(written(tmp_path, GOOD, mode))


@pytest.mark.parametrize("text", ["", "short", "two words " + GOOD, "é" * 40, "x" * 5000])
def test_a_file_without_a_good_token_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="holds no token"):
        read_token(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent.* cannot be read"):
        read_token(tmp_path / "absent")


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        read_token(tmp_path / "fifo")


def test_a_folder_that_cannot_be_made_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made: Not a directory"):
        read_or_make_token(tmp_path / "file" / "token")


@pytest.mark.parametrize("header", [f"Bearer {GOOD}", f"bearer {GOOD}", f"BEARER  {GOOD} "])
def test_the_right_token_opens_however_the_scheme_is_written(header: str) -> None:
    assert is_right_token(header.encode(), Secret(GOOD))


@pytest.mark.parametrize(
    "header", [None, b"", b"Bearer", b"Bearer ", b"Basic " + GOOD.encode(), b"Bearer \xff\xfe"]
)
def test_anything_else_does_not_open(header: bytes | None) -> None:
    assert not is_right_token(header, Secret(GOOD))


def test_a_token_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be made: File name too long"):
        read_or_make_token(tmp_path / ("x" * 300))
