"""A denial is guessed from complaints; what the file's own permissions forbid is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.capture import CaptureLimits, StreamCapture
from moorage.process.foreground import ForegroundResult
from moorage.process.full_log import FullLog, LogLimits
from moorage.tools.denials import was_denied
from moorage.workspace.redact import Redactor


def captured(text: str) -> StreamCapture:
    stream = StreamCapture(Redactor(), CaptureLimits(), lambda _: None)
    stream.feed(text.encode("utf-8", "surrogateescape"))
    stream.finish()
    return stream


def ended(complaint: str, exit_code: int) -> ForegroundResult:
    return ForegroundResult(
        outcome="exited",
        exit_code=exit_code,
        signal=None,
        duration_ms=1,
        stdout=captured(""),
        stderr=captured(complaint),
        left_running=0,
        log=FullLog("/nowhere", lambda: "x", lambda: b"", LogLimits()),
    )


class Ground:
    def __init__(self, folder: Path) -> None:
        self.root, self.outside = folder.resolve() / "work", folder.resolve() / "outside"
        for made in (self.root, self.outside):
            made.mkdir()
            (made / "file").touch()
            (made / "noexec.sh").touch(mode=0o644)
        (self.root / "way").symlink_to(self.outside)

    def is_denied(
        self,
        complaint: str,
        exit_code: int = 1,
        mode: PermissionMode = PermissionMode.STANDARD,
    ) -> bool:
        plan = Plan(mode, (str(self.root),), ())
        return was_denied(plan, str(self.root), ended(complaint, exit_code))


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture
def no_access(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the workspace is permitted to anybody, not even to root."""
    monkeypatch.setattr(os, "access", lambda *_: False)


@pytest.mark.parametrize("mode", [PermissionMode.STANDARD, PermissionMode.READ_ONLY])
def test_a_script_of_the_workspace_that_is_not_executable_is_no_denial(
    ground: Ground, mode: PermissionMode
) -> None:
    for name in ("./noexec.sh", f"{ground.root}/noexec.sh"):
        assert not ground.is_denied(f"bash: line 1: {name}: Permission denied\n", 126, mode)
    # Something else may have ended with another code.
    assert ground.is_denied("bash: line 1: ./noexec.sh: Permission denied\n", 1, mode)


def test_a_program_outside_or_behind_a_symlink_that_leads_there_may_be_denied(
    ground: Ground,
) -> None:
    for name in (f"{ground.outside}/noexec.sh", "way/noexec.sh", "../outside/noexec.sh"):
        assert ground.is_denied(f"bash: line 1: {name}: Permission denied\n", 126)


@pytest.mark.usefixtures("no_access")
@pytest.mark.parametrize(
    "complaint",
    [
        "cat: file: Permission denied",
        "touch: cannot touch 'file': Permission denied",
        "touch: cannot touch 'new': Permission denied",
        "ls: cannot open directory \u2018.\u2019: Permission denied",
        'error: open("file"): Permission denied',
        "touch: cannot touch 'file': Operation not permitted",
        "bash: line 1: file: Read-only file system",
    ],
)
def test_what_permissions_in_the_workspace_forbid_is_no_denial(
    ground: Ground, complaint: str
) -> None:
    assert not ground.is_denied(complaint)


@pytest.mark.parametrize(
    "complaint",
    [
        "bash: line 1: /outside: Permission denied",
        "sh: 1: cannot create /outside: Permission denied",
        "mv: cannot move 'file' to '/outside': Permission denied",
        "touch: cannot touch 'missing/new': Permission denied",
        "cat: file: Permission denied\ncat: /outside: Permission denied",
        "touch: cannot touch 'way/new': Permission denied",
        "open /outside: permission denied",
        "Permission denied",
    ],
)
@pytest.mark.usefixtures("no_access")
def test_everything_else_still_looks_like_a_denial(ground: Ground, complaint: str) -> None:
    assert ground.is_denied(complaint)


@pytest.mark.usefixtures("no_access")
def test_a_name_of_any_bytes_can_be_looked_at(ground: Ground) -> None:
    (ground.root / "\udcff").touch()
    assert not ground.is_denied("cat: \udcff: Permission denied")
    assert ground.is_denied("cat: /out\0side: Permission denied")


def test_a_name_of_the_workspace_that_may_be_written_explains_nothing(ground: Ground) -> None:
    # The command may have gone elsewhere first: cd / && touch file
    assert ground.is_denied("touch: cannot touch 'file': Permission denied")


@pytest.mark.usefixtures("no_access")
def test_in_read_only_a_new_file_is_denied_whatever_the_folder_permits(ground: Ground) -> None:
    complaint = "touch: cannot touch 'new': Permission denied"
    assert ground.is_denied(complaint, mode=PermissionMode.READ_ONLY)


@pytest.mark.usefixtures("no_access")
def test_many_complaints_are_not_looked_at_one_by_one(ground: Ground) -> None:
    assert ground.is_denied("cat: file: Permission denied\n" * 33)
