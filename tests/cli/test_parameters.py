from __future__ import annotations

import click
import pytest

from moorage.cli.parameters import Address, ControlKey, Folder, WholeNumber


def test_an_address_is_a_host_and_a_port() -> None:
    assert Address().convert("127.0.0.1:80", None, None) == ("127.0.0.1", 80)
    assert Address().convert("[::1]:0", None, None) == ("::1", 0)


@pytest.mark.parametrize("text", ["", "8765", ":8765", "host:", "host:http", "host:70000"])
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not HOST:PORT"):
        Address().convert(text, None, None)


def test_a_number_keeps_its_bounds() -> None:
    assert WholeNumber(1, 9).convert("9", None, None) == 9
    assert WholeNumber(0).convert(10**9, None, None) == 10**9
    with pytest.raises(click.BadParameter, match="'10' is not a whole number from 1 to 9"):
        WholeNumber(1, 9).convert("10", None, None)
    with pytest.raises(click.BadParameter, match="'-1' is not a whole number of 0 or more"):
        WholeNumber(0).convert("-1", None, None)


def test_folders_are_completed_by_the_shell() -> None:
    command = click.Command("x")
    option = click.Option(["--w"])
    [item] = Folder().shell_complete(click.Context(command), option, "sr")
    assert (item.value, item.type) == ("sr", "dir")


@pytest.mark.parametrize(
    ("text", "name", "byte"),
    [("ctrl-]", "ctrl-]", b"\x1d"), ("^Q", "ctrl-q", b"\x11"), ("CTRL-a", "ctrl-a", b"\x01")],
)
def test_a_key_is_known_by_both_of_its_names(text: str, name: str, byte: bytes) -> None:
    key = ControlKey().convert(text, None, None)
    assert key == (name, byte)
    assert ControlKey().convert(key, None, None) is key


@pytest.mark.parametrize("text", ["q", "ctrl-1", "alt-x", "ctrl-", ""])
def test_other_keys_are_named_as_wrong(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a key such as ctrl-\]"):
        ControlKey().convert(text, None, None)
