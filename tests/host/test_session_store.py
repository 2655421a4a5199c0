from __future__ import annotations

import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from moorage.backends.profile import Profile
from moorage.errors import ConfigError, NotFound
from moorage.host.session_store import Selection, SessionStore, new_session_id
from moorage.policy.permission import PermissionMode


def selection(session_id: str = "s-1", name: str = "", age: int = 0) -> Selection:
    return Selection(
        id=session_id,
        environment="box",
        workspace="/workspace",
        mode=PermissionMode.STANDARD,
        created_at=datetime.now(UTC) - timedelta(days=age),
        name=name,
        profile=Profile(backend="docker", image="img:1"),
        writable_roots=("/data",),
    )


def test_of_hosts_that_take_a_name_at_once_one_gets_it(tmp_path: Path) -> None:
    refused = []

    def take(number: int) -> None:
        try:
            SessionStore(tmp_path).create(selection(f"s-{number}", name="build"))
        except ConfigError as error:
            refused.append(error.message)

    hosts = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join(timeout=10)
    assert [kept.name for kept in SessionStore(tmp_path).all()] == ["build"]
    assert refused == ["a session named 'build' exists already."] * 7


def test_a_selection_is_kept_whole_and_private(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    kept = selection()
    folder = store.create(kept)
    assert store.load("s-1") == kept
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "selection.json").stat().st_mode) == 0o600
    assert [file.name for file in folder.iterdir()] == ["selection.json"]


def test_a_session_is_found_by_its_name_and_a_taken_name_is_refused(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.create(selection("s-1", "build"))
    assert store.load("build").id == "s-1"
    with pytest.raises(ConfigError, match="exists already"):
        store.create(selection("s-2", "build"))


def test_an_unknown_session_never_becomes_a_new_one(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    with pytest.raises(NotFound, match="no session has the id or name 's-9'"):
        store.load("s-9")
    assert not (tmp_path / "sessions").exists()


@pytest.mark.parametrize("text", ["../x", "", ".", "..", "a/b", "-x", "x" * 65])
def test_a_text_that_is_no_id_never_reaches_the_disk(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        SessionStore(tmp_path).folder(text)
    with pytest.raises(ConfigError):
        SessionStore(tmp_path).load(text)


@pytest.mark.parametrize("damage", ["", "{", '{"id": 1}'])
def test_a_damaged_selection_is_an_error_and_not_local(tmp_path: Path, damage: str) -> None:
    store = SessionStore(tmp_path)
    (store.create(selection()) / "selection.json").write_text(damage)
    with pytest.raises(ConfigError, match="cannot be read"):
        store.load("s-1")
    assert store.all() == []


def test_sessions_are_listed_oldest_first_and_removed_whole(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.create(selection("s-new"))
    store.create(selection("s-old", age=3))
    assert [kept.id for kept in store.all()] == ["s-old", "s-new"]
    store.remove("s-old")
    assert [kept.id for kept in store.all()] == ["s-new"]


def test_saving_again_replaces_the_selection(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.create(selection())
    changed = msgspec.structs.replace(selection(), mode=PermissionMode.READ_ONLY)
    store.save(changed)
    assert store.load("s-1").mode is PermissionMode.READ_ONLY


def test_a_state_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file stands in the way")
    with pytest.raises(ConfigError, match="cannot be kept"):
        SessionStore(tmp_path / "sessions").create(selection())


def test_ids_differ_and_are_legal(tmp_path: Path) -> None:
    ids = {new_session_id() for _ in range(50)}
    assert len(ids) == 50
    assert {SessionStore(tmp_path).folder(one).parent for one in ids} == {tmp_path}
