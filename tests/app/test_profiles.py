"""Profiles are added and removed in the user's file, and all else in it stays."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from moorage.app.config import load
from moorage.app.home import Home, find_home
from moorage.app.profiles import add_profile, remove_profile
from moorage.errors import BackendUnavailable, ConfigError, NotFound

BOX = {"backend": "docker", "image": "debian:12"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return find_home(tmp_path / "home")


def document(home: Home) -> Any:
    return json.loads((home.configuration / "config.json").read_text())


def test_the_first_profile_makes_the_file_for_its_user_alone(home: Home) -> None:
    file = add_profile(home, "box", {**BOX, "cpus": 1.5, "forward_env": ["A"]}, is_default=True)
    assert file == home.configuration / "config.json"
    assert file.stat().st_mode & 0o777 == 0o600
    configuration = load(home)
    assert configuration.default_name() == "box"
    profile = configuration.profile("box")
    assert (profile.image, profile.cpus, profile.forward_env) == ("debian:12", 1.5, ("A",))


def test_everything_else_in_the_file_stays(home: Home, tmp_path: Path) -> None:
    home.configuration.mkdir()
    before = {
        "hand_over": False,
        "execution_environments": {"profiles": {"b.1": {"backend": "local"}, "broken": 3}},
        "writable_roots": ["/srv"],
    }
    kept = tmp_path / "kept-elsewhere.json"
    kept.write_text(json.dumps(before))
    (home.configuration / "config.json").symlink_to(kept)
    add_profile(home, "box", BOX)
    after = document(home)
    assert (home.configuration / "config.json").is_symlink()
    assert after["execution_environments"]["profiles"].pop("box") == BOX
    assert after == before
    assert list(after) == list(before)
    remove_profile(home, "b.1")
    remove_profile(home, "box")
    assert document(home)["execution_environments"]["profiles"] == {"broken": 3}


def test_a_name_that_is_taken_is_replaced_only_when_told_to(home: Home) -> None:
    add_profile(home, "box", BOX)
    with pytest.raises(ConfigError, match="configured already") as caught:
        add_profile(home, "box", {**BOX, "image": "other"})
    assert "--replace" in caught.value.hint
    assert load(home).profile("box").image == "debian:12"
    add_profile(home, "box", {**BOX, "image": "other"}, replaces=True)
    assert load(home).profile("box").image == "other"


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("box", {"backend": "docker"}, "profiles.box.image"),
        ("box", {**BOX, "host": "h"}, "profiles.box.host"),
        ("box", {**BOX, "cpus": -1.0}, "profiles.box.cpus"),
        ("local", BOX, "cannot name a profile"),
        ("a/b", BOX, "cannot name a profile"),
        ("box", {"backend": "dokcer"}, "unknown backend"),
    ],
)
def test_nothing_is_written_of_what_is_impossible(
    home: Home, name: str, fields: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        add_profile(home, name, fields)
    assert not home.configuration.exists()


def test_a_backend_that_is_not_there_yet_is_named(home: Home) -> None:
    with pytest.raises(BackendUnavailable, match="modal"):
        add_profile(home, "cloud", {"backend": "modal", "image": "i"})
    assert not home.configuration.exists()


def test_a_toml_file_is_left_alone_and_the_text_to_add_is_told(home: Home) -> None:
    home.configuration.mkdir()
    file = home.configuration / "config.toml"
    file.write_text("# mine\n[execution_environments.profiles.lab]\nbackend = 'local'\n")
    before = file.read_text()
    fields = {**BOX, "forward_env": ["A", "B"], "shared": True, "memory_mb": 64}
    with pytest.raises(ConfigError, match="by hand") as caught:
        add_profile(home, "box.1", fields)
    assert file.read_text() == before
    _, _, to_add = caught.value.hint.partition("\n")
    file.write_text(before + to_add)
    assert load(home).profile("box.1").forward_env == ("A", "B")
    assert tomllib.loads(to_add)["execution_environments"]["profiles"]["box.1"] == fields
    with pytest.raises(ConfigError, match="by hand") as caught:
        remove_profile(home, "lab")
    assert "[execution_environments.profiles.lab]" in caught.value.hint


def test_a_profile_that_is_the_default_or_unknown_is_not_removed(home: Home) -> None:
    add_profile(home, "box", BOX, is_default=True)
    with pytest.raises(ConfigError, match="default"):
        remove_profile(home, "box")
    with pytest.raises(NotFound, match="there are: box"):
        remove_profile(home, "bxo")


def test_a_damaged_file_is_not_replaced(home: Home) -> None:
    home.configuration.mkdir()
    (home.configuration / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="malformed"):
        add_profile(home, "box", BOX)
    assert (home.configuration / "config.json").read_text() == "{"
