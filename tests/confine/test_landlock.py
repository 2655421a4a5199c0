from __future__ import annotations

import errno
import os

import pytest

from moorage.confine import landlock
from moorage.confine import plan as plans
from moorage.confine.plan import Plan
from moorage.errors import ConfinementUnavailable
from moorage.policy.permission import PermissionMode


def kernel_that_says(code: int):
    def system_call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return system_call


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_kernel_without_landlock_has_abi_zero(code: int) -> None:
    assert landlock.abi(kernel_that_says(code)) == 0


def test_another_error_is_not_taken_for_an_answer() -> None:
    with pytest.raises(OSError, match="denied"):
        landlock.abi(kernel_that_says(errno.EACCES))


@pytest.mark.needs("landlock")
def test_this_kernel_has_a_usable_abi() -> None:
    assert landlock.abi() >= 3
    landlock.require(landlock.abi())


@pytest.mark.parametrize(
    ("abi", "found"), [(0, "has no Landlock"), (1, "ABI 1"), (2, "ABI 2, and 3 is the first")]
)
def test_an_old_abi_is_refused_with_what_helps(abi: int, found: str) -> None:
    with pytest.raises(ConfinementUnavailable, match=found) as caught:
        landlock.require(abi)
    assert "Nothing ran" in caught.value.message
    assert "6.2" in caught.value.hint
    assert "bubblewrap" in caught.value.hint
    with pytest.raises(ConfinementUnavailable):
        landlock.restrict(Plan(PermissionMode.STANDARD), (), found_abi=abi)


def test_a_real_refusal_of_the_kernel_is_an_error() -> None:
    # A rule set of no rights at all is refused by every kernel, whether it knows the call or not.
    with pytest.raises(OSError, match=r"."):
        landlock._create_ruleset(0, 0, 3)


def test_what_stands_at_a_path_is_told_apart(tmp_path) -> None:
    status = tmp_path.stat()
    assert landlock.identity(str(tmp_path)) == (status.st_dev, status.st_ino)
    assert landlock.identity(str(tmp_path / "none")) == landlock.MISSING
    (tmp_path / "link").symlink_to(tmp_path)
    assert landlock.identity(str(tmp_path / "link")) == landlock.MISSING


@pytest.mark.needs("landlock")
def test_a_grant_names_what_it_is_held_by_and_never_follows_a_symlink(tmp_path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "through").symlink_to("/")
    rights = plans.READ_RIGHTS | plans.WRITE_RIGHTS
    ruleset = landlock._create_ruleset(plans.handled_rights(3), 0, 3)
    try:
        for name in ("", "file"):
            path = tmp_path / name
            status = path.stat()
            assert landlock._add(ruleset, str(path), rights) == (status.st_dev, status.st_ino)
        for name in ("link", "none", "through/tmp", "file/beneath"):
            assert landlock._add(ruleset, str(tmp_path / name), rights) == landlock.MISSING
        # No right of a file among them: nothing to grant, but it is there.
        assert landlock._add(ruleset, str(tmp_path / "file"), plans.READ_DIR) != landlock.MISSING
    finally:
        os.close(ruleset)


@pytest.mark.needs("landlock")
def test_a_kernel_that_cannot_open_safely_is_no_reason_to_grant_less(monkeypatch) -> None:
    monkeypatch.setattr(landlock, "_open_without_symlinks", kernel_that_says(errno.ENOSYS))
    with pytest.raises(OSError, match="not implemented"):
        landlock._add(0, "/", plans.READ_DIR)


@pytest.mark.parametrize(("abi", "size"), [(3, 8), (5, 8), (6, 24), (7, 24)])
def test_every_rule_is_given_before_the_process_is_confined(
    monkeypatch, tmp_path, abi, size
) -> None:
    made: list[tuple[int, ...]] = []

    def system_call(number: int, *arguments: object) -> int:
        if number == 437:  # openat2
            return os.open(tmp_path, os.O_PATH)
        made.append((number, *(a for a in arguments if isinstance(a, int))))
        return os.open(os.devnull, os.O_RDONLY) if number == 444 else 0

    monkeypatch.setattr(landlock, "_system_call", system_call)
    plan = Plan(PermissionMode.STANDARD, (str(tmp_path),))
    rules = plans.rules(plan, lambda _: ["bin"])
    (identity,) = landlock.restrict(plan, rules, found_abi=abi)
    assert identity == (tmp_path.stat().st_dev, tmp_path.stat().st_ino)
    assert made[0] == (444, size, 0)
    assert [call[0] for call in made[1:-1]] == [445] * len(rules)
    assert made[-1][0] == 446
