from __future__ import annotations

import errno
import os

import pytest

from moorage.confine import landlock
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
