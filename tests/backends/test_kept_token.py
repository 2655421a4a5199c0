"""The token of a worker that stays: one for all hosts, and nothing but a private file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from moorage.backends import kept_token as room
from moorage.backends.kept_token import kept_token
from moorage.errors import ConfigError


def test_it_is_made_once_and_stays_the_same(tmp_path: Path) -> None:
    token = kept_token(tmp_path)
    assert len(token.reveal()) == 64
    assert kept_token(tmp_path).reveal() == token.reveal()
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_of_two_hosts_that_make_it_at_once_the_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept_token(tmp_path).reveal()
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    assert kept_token(tmp_path).reveal() == first
    assert [file.name for file in tmp_path.iterdir()] == [room.NAME]


def damage(file: Path) -> None:
    file.write_text("too short")


def open_to_others(file: Path) -> None:
    file.chmod(0o644)


def make_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize("spoil", [damage, open_to_others, make_a_folder, make_a_pipe])
def test_a_file_that_is_not_ours_alone_is_never_used(tmp_path: Path, spoil: object) -> None:
    kept_token(tmp_path)
    assert callable(spoil)
    spoil(tmp_path / room.NAME)
    with pytest.raises(ConfigError, match=r"damaged|cannot be kept"):
        kept_token(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    kept_token(tmp_path / "there")
    (tmp_path / room.NAME).symlink_to(tmp_path / "there" / room.NAME)
    with pytest.raises(ConfigError, match="cannot be kept"):
        kept_token(tmp_path)
    with pytest.raises(ConfigError, match="cannot be kept"):
        kept_token(tmp_path / "missing")
