from __future__ import annotations

import os
import termios
from collections.abc import Iterator

import anyio
import pytest

from moorage.cli.own_terminal import OwnTerminal, Traces, without_questions


@pytest.fixture
def pair() -> Iterator[tuple[int, int]]:
    master, slave = os.openpty()
    yield master, slave
    os.close(slave)
    os.close(master)


class Standing:
    def __init__(self, descriptor: int) -> None:
        self.fileno = lambda: descriptor
        self.isatty = lambda: os.isatty(descriptor)


def lend_and_fail(slave: int, *, is_raw: bool) -> None:
    with OwnTerminal.open() as terminal, terminal.lent(b"\x1d", is_raw=is_raw):
        is_by_lines = bool(termios.tcgetattr(slave)[3] & termios.ICANON)
        assert is_by_lines is not is_raw
        raise RuntimeError("trouble")


def undone(*shown: str) -> str:
    traces = Traces()
    for text in shown:
        traces.note(text)
    return traces.undo()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ((), ""),
        (("",), ""),
        (("plain\n",), ""),
        (("plain",), "\r\n"),
        (("\x1b[31mred\n",), "\x1b[0m"),
        (("\x1b[?1049h\x1b[?25l\n",), "\x1b[?25h\x1b[?1049l\x1b[0m"),
        (("\x1b[?10", "00;1006h\n"), "\x1b[?1000l\x1b[?1006l\x1b[0m"),
        (("\x1b", "[?2004h\n"), "\x1b[?2004l\x1b[0m"),
        (("\x1b[?1049h", "\x1b[?1049l\x1b[?25l\x1b[?25h\n"), "\x1b[0m"),
    ],
)
def test_what_was_changed_is_put_right(shown: tuple[str, ...], expected: str) -> None:
    assert undone(*shown) == expected


@pytest.mark.parametrize(
    "question",
    ["\x1b[c", "\x1b[>c", "\x1b[6n", "\x1b[?6$p", "\x1b[>q", "\x1b]11;?\x07", "\x1b]4;1;?\x1b\\"],
)
def test_old_output_asks_the_terminal_nothing(question: str) -> None:
    assert without_questions(f"\x1b[1mone{question}two\x1b[3C") == "\x1b[1monetwo\x1b[3C"


def test_a_terminal_is_given_back_also_after_an_error(
    pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, slave = pair
    before = termios.tcgetattr(slave)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}", Standing(slave))
    for is_raw in (True, False):
        with pytest.raises(RuntimeError, match="trouble"):
            lend_and_fail(slave, is_raw=is_raw)
        assert termios.tcgetattr(slave) == before


def test_a_terminal_of_another_container_is_found_as_the_controlling_one(
    pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = os.open

    def fail(descriptor: int) -> str:
        raise OSError(19, "No such device")

    def open_other(name: str, flags: int) -> int:
        opened.append(name)
        return real(os.devnull, flags)

    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}", Standing(pair[1]))
    monkeypatch.setattr(os, "ttyname", fail)
    monkeypatch.setattr(os, "open", open_other)
    with OwnTerminal.open():
        assert opened == ["/dev/tty"]


async def test_output_waits_for_a_terminal_that_is_slow(pair: tuple[int, int]) -> None:
    master, slave = pair
    os.set_blocking(slave, False)
    os.set_blocking(master, False)
    terminal = OwnTerminal(slave)
    text = "x" * 200_000
    taken = 0
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.write, text)
            while taken < len(text):
                await anyio.wait_readable(master)
                taken += len(os.read(master, 65536))
    assert taken == len(text)


async def test_keys_of_a_terminal_that_is_gone_are_none() -> None:
    master, slave = os.openpty()
    os.set_blocking(slave, False)
    terminal = OwnTerminal(slave)
    assert terminal.size() is None
    os.close(master)
    with anyio.fail_after(5):
        assert await terminal.read() == b""
    terminal.write_last("nobody sees this")
    os.close(slave)
