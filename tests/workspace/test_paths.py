from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.errors import InvalidArguments
from moorage.workspace.paths import absolute_form, beneath, climbs

parts = st.lists(st.sampled_from(["a", "b", ".", "", "..", "..."]), max_size=6)


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        (".", "/work"),
        ("a/b", "/work/a/b"),
        ("./a//b/", "/work/a/b"),
        ("/etc/passwd", "/etc/passwd"),
        ("//etc/passwd", "/etc/passwd"),
        ("/", "/"),
        ("~/a", "/work/~/a"),
        ("$HOME/a", "/work/$HOME/a"),
        ("...", "/work/..."),
    ],
)
def test_a_relative_path_starts_at_the_root(path: str, absolute: str) -> None:
    assert absolute_form("/work", path) == absolute


def test_two_dots_stay_for_they_depend_on_symlinks() -> None:
    assert absolute_form("/work", "a/../b") == "/work/a/../b"
    assert climbs("/work/a/../b")
    assert not climbs("/work/a..b/...")


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("$MOORAGE_SESSION_DIR", "/session"),
        ("$MOORAGE_SESSION_DIR/a", "/session/a"),
        ("${MOORAGE_SESSION_DIR}/a", "/session/a"),
        ("$MOORAGE_SESSION_DIRECTORY/a", "/work/$MOORAGE_SESSION_DIRECTORY/a"),
    ],
)
def test_the_sessions_folder_may_be_named_by_its_variable(path: str, absolute: str) -> None:
    assert absolute_form("/work", path, session_folder="/session") == absolute
    assert absolute_form("/work", path) == "/work/" + path


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_can_be_no_path_is_an_argument_error(path: str) -> None:
    with pytest.raises(InvalidArguments):
        absolute_form("/work", path)


@pytest.mark.parametrize(
    ("folder", "absolute", "relative"),
    [
        ("/work", "/work", "."),
        ("/work", "/work/a/b", "a/b"),
        ("/work", "/workshop", None),
        ("/work", "/", None),
        ("/", "/etc", "etc"),
        ("/", "/", "."),
    ],
)
def test_beneath_compares_whole_names(folder: str, absolute: str, relative: str | None) -> None:
    assert beneath(folder, absolute) == relative


@given(parts, st.booleans())
def test_an_absolute_form_is_absolute_and_stable(names: list[str], is_absolute: bool) -> None:
    path = ("/" if is_absolute else "") + "/".join(names)
    if not path:
        return
    absolute = absolute_form("/work", path)
    assert absolute.startswith("/")
    assert climbs(absolute) == (".." in names)
    assert absolute_form("/other", absolute) == absolute
