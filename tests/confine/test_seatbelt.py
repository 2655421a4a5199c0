from __future__ import annotations

import pytest

from moorage.confine.plan import Plan
from moorage.confine.seatbelt import profile, quote, wrap
from moorage.errors import ConfigError
from moorage.policy.permission import PermissionMode

STANDARD = Plan(
    PermissionMode.STANDARD,
    writable_roots=("/Users/me/work", '/Users/me/a "b"'),
    hidden_paths=("/Users/me/.moorage",),
    private_paths=("/Users/me/.moorage/tmp",),
    readable_paths=("/Users/me/.moorage/logs",),
)

EXPECTED = r"""(version 1)
(allow default)
(deny file-write*)
(allow file-write* file-ioctl
    (literal "/dev/null")
    (literal "/dev/zero")
    (literal "/dev/full")
    (literal "/dev/tty")
    (regex #"^/dev/(ptmx|ttys[0-9]+)$"))
(deny file-read-data file-write*
    (subpath "/Users/me/.moorage"))
(allow file-read*
    (subpath "/Users/me/.moorage/logs"))
(allow file-read* file-write*
    (subpath "/Users/me/work")
    (subpath "/Users/me/a \"b\"")
    (subpath "/Users/me/.moorage/tmp"))
(deny signal (target others))
(allow signal (target same-sandbox))
(deny process-info-pidinfo (target others))
(deny mach-priv-task-port)
"""


def test_the_profile_says_what_the_plan_says() -> None:
    assert profile(STANDARD) == EXPECTED


def test_a_read_only_profile_writes_only_in_private_paths() -> None:
    text = profile(STANDARD._replace(mode=PermissionMode.READ_ONLY))
    assert "/Users/me/work" not in text
    assert "ptmx" not in text
    assert '(allow file-read* file-write*\n    (subpath "/Users/me/.moorage/tmp"))' in text


def test_no_rule_stands_without_a_filter() -> None:
    text = profile(Plan(PermissionMode.READ_ONLY))
    assert "(deny file-read-data file-write*" not in text
    assert "(allow file-read*" not in text


def test_the_program_is_wrapped_with_its_profile() -> None:
    assert wrap(STANDARD, ["echo", "x"]) == (
        "/usr/bin/sandbox-exec",
        "-p",
        EXPECTED,
        "echo",
        "x",
    )


def test_an_unconfined_plan_and_a_contradiction_have_no_profile() -> None:
    with pytest.raises(ConfigError, match="no Seatbelt profile"):
        profile(Plan(PermissionMode.UNCONFINED))
    with pytest.raises(ConfigError, match="contains"):
        profile(STANDARD._replace(writable_roots=("/Users",)))


@pytest.mark.parametrize("path", ["/a\nb", "/a\x7f", "/\x00"])
def test_a_path_that_cannot_be_quoted_safely_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="control character"):
        quote(path)


def test_quotes_and_backslashes_cannot_end_the_string() -> None:
    assert quote('/a"b\\c') == '"/a\\"b\\\\c"'
