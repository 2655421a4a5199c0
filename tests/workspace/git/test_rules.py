"""Which subcommands of git there are."""

from __future__ import annotations

import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.workspace.git.rules import WRITE_COMMANDS, plan_call


@pytest.mark.parametrize(
    "subcommand",
    ["push", "reset", "checkout", "clean", "config", "grep", "fetch", "-c", "--exec-path", "", "x"],
)
def test_others_are_refused_with_a_list_of_what_there_is(subcommand: str) -> None:
    with pytest.raises(Refused, match=r"The git tool knows: add, blame, .*, tag\.") as caught:
        plan_call(subcommand, ("x",))
    assert caught.value.reason == "git_not_allowed"


def test_only_three_of_them_write() -> None:
    arguments = {"add": ("a",), "restore": ("-S", "a"), "commit": ("-m", "x")}
    assert {plan_call(name, arguments[name]).effect for name in WRITE_COMMANDS} == {"write"}
    assert plan_call("log", ()).effect == "read"


def test_a_nul_in_an_argument_is_an_argument_error() -> None:
    with pytest.raises(InvalidArguments, match="NUL"):
        plan_call("log", ("a\0b",))
