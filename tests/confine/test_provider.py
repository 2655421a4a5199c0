from __future__ import annotations

import pytest

from moorage.confine.plan import Plan
from moorage.confine.provider import ConfinementProvider, check_provider
from moorage.errors import ConfigError
from moorage.policy.permission import PermissionMode

BUBBLEWRAP = ConfinementProvider(
    argv=("/usr/bin/bwrap", "--ro-bind", "/", "/"),
    enforcement="full",
    hidden=("--tmpfs", "{path}"),
    readable=("--ro-bind", "{path}", "{path}"),
    writable=("--bind", "{path}", "{path}"),
    end=("--",),
)
PLAN = Plan(PermissionMode.STANDARD, ("/w",), ("/h",), ("/h/tmp",), ("/h/logs",))
HEAD = ("/usr/bin/bwrap", "--ro-bind", "/", "/", "--tmpfs", "/h")


def test_a_provider_is_told_of_every_path_hidden_ones_first() -> None:
    told = ("--ro-bind", "/h/logs", "/h/logs", "--bind", "/w", "/w", "--bind", "/h/tmp", "/h/tmp")
    assert BUBBLEWRAP.wrap(PLAN, ["echo", "{path}"]) == (*HEAD, *told, "--", "echo", "{path}")


def test_in_read_only_the_roots_are_readable_only() -> None:
    plan = PLAN._replace(mode=PermissionMode.READ_ONLY)
    told = (
        "--ro-bind",
        "/w",
        "/w",
        "--ro-bind",
        "/h/logs",
        "/h/logs",
        "--bind",
        "/h/tmp",
        "/h/tmp",
    )
    assert BUBBLEWRAP.wrap(plan, ["x"]) == (*HEAD, *told, "--", "x")


def test_a_full_provider_is_taken() -> None:
    assert check_provider(BUBBLEWRAP) is BUBBLEWRAP


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"argv": ()}, "absolute path"),
        ({"argv": ("bwrap",)}, "absolute path"),
        ({"enforcement": "partial"}, "'partial'; only \"full\""),
        ({"enforcement": ""}, 'only "full"'),
        ({"hidden": ()}, "'hidden' must hold"),
        ({"writable": ("--bind",)}, "'writable' must hold"),
    ],
)
def test_half_a_provider_is_refused_by_name(changes: dict, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^confinement: .*{problem}"):
        check_provider(BUBBLEWRAP._replace(**changes), path="confinement")
