from __future__ import annotations

import errno
import os
import signal

import pytest

from moorage.confine.nursery import in_terminal


@pytest.fixture
def terminal():
    ours, theirs = os.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_a_program_holds_its_terminal_as_the_controlling_one(terminal) -> None:
    ours, theirs = terminal
    guarded = []
    pid = in_terminal.start(
        b"/bin/sh",
        [b"sh", b"-c", b"echo $A >/dev/tty"],
        {b"A": b"there"},
        theirs,
        lambda: guarded.append("in the child alone"),
    )
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert os.read(ours, 100) == b"there\r\n"
    assert guarded == []


def test_a_program_that_cannot_be_used_is_told(terminal) -> None:
    with pytest.raises(FileNotFoundError, match="no-such"):
        in_terminal.start(b"/no-such", [b"x"], {}, terminal[1], lambda: None)


def test_a_guard_that_the_kernel_refuses_starts_nothing(terminal) -> None:
    def refuse() -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with pytest.raises(PermissionError):
        in_terminal.start(b"/bin/true", [b"true"], {}, terminal[1], refuse)


class Left(BaseException):
    """The process would have ended here."""


def test_what_the_child_does_before_the_program_runs(terminal, monkeypatch) -> None:
    done: list[object] = []

    def leave(status: int) -> None:
        raise Left(status)

    monkeypatch.setattr(os, "setsid", lambda: done.append("session"))
    monkeypatch.setattr(in_terminal.fcntl, "ioctl", lambda *_: done.append("terminal"))
    monkeypatch.setattr(os, "dup2", lambda _, stream: done.append(stream))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: done.append("mask"))
    monkeypatch.setattr(os, "_exit", leave)
    source, end = os.pipe()

    def fail(*_: object) -> None:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))

    monkeypatch.setattr(os, "execve", fail)
    with pytest.raises(Left):
        in_terminal.become(b"p", [b"p"], {}, (terminal[1], end), lambda: done.append("guard"))
    assert done == ["session", "terminal", "guard", 0, 1, 2, "mask"]
    assert int.from_bytes(os.read(source, 8), "little") == errno.E2BIG
    os.close(source)
    os.close(end)
