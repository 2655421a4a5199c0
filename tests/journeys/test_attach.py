"""A person sits down at the terminal of a background process, leaves it, and comes back."""

from __future__ import annotations

import re
import signal
import termios
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.journeys.screen import Screen

pytestmark = pytest.mark.needs("landlock")

DETACH = "\x1d"
ECHO = "echo ready; while read -r line; do echo got:$line; done"


@pytest.fixture
def site(terminal: Any) -> Callable[..., str]:
    """Start a command in the session ``site`` and return the id of its process."""
    is_begun = False

    def start(line: str, *options: str) -> str:
        nonlocal is_begun
        session = ("--session", "site") if is_begun else ("--name", "site")
        is_begun = True
        ended = terminal("start", *session, *options, "-c", line)
        assert (ended.code, ended.err) == (0, b"")
        return str(ended.out.decode().strip())

    return start


@pytest.fixture
def screen(terminal: Any) -> Iterator[Callable[..., Screen]]:
    opened: list[Screen] = []

    def open_one(*arguments: str, **options: Any) -> Screen:
        opened.append(Screen(terminal, *arguments, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def state_of(terminal: Any, process: str) -> dict[str, Any]:
    (found,) = (
        each for each in terminal("ps", "--json").document["processes"] if each["id"] == process
    )
    return dict(found)


def test_keys_arrive_and_a_detached_process_goes_on(
    terminal: Any, site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site(ECHO)
    first = screen("attach", process)
    assert "ctrl-] detaches" in first.sees("detaches")
    first.sees("ready\r\n")
    first.press("one höla\r")
    first.sees("got:one höla")
    first.press(DETACH)
    assert first.ends() == 0
    assert first.is_as_before
    goodbye = re.search(r"goes on; moorage attach --since-offset (\d+) ", first.shown)
    assert goodbye is not None
    assert state_of(terminal, process)["state"] == "running"

    second = screen("attach", "--since-offset", goodbye[1], f"site/{process}")
    second.press("two\r")
    assert "höla" not in second.sees("got:two")
    second.press("\x04")
    assert second.ends() == 0
    assert f"{process} ({ECHO}) ended with exit code 0." in " ".join(second.shown.split())
    assert second.is_as_before
    assert second.shown.count("got:two") == 1


def test_an_attach_ends_with_the_exit_code_of_its_process(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site("echo ready; read line; exit 7")
    seat = screen("attach", process)
    seat.sees("ready\r\n")
    seat.press("\r")
    assert seat.ends() == 7
    again = screen("attach", process)
    assert again.ends() == 7
    assert "ready" in again.shown


def test_the_size_of_the_terminal_is_passed_on_at_once_and_when_it_changes(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    ask = "while read -t 0.1 x; [ $? -gt 128 ] || stty size; do :; done"
    process = site(f"trap 'echo changed: $(stty size)' WINCH; echo ready; {ask}")
    seat = screen("attach", process, size=(31, 101))
    seat.sees("ready\r\n")
    seat.press("\r")
    seat.sees("31 101")
    seat.resize(40, 120)
    seat.sees("changed: 40 120")
    seat.press(DETACH)
    assert seat.ends() == 0


def test_ctrl_c_reaches_the_process_by_its_line_discipline(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site("trap 'echo caught; exit 9' INT; echo ready; while :; do read -t 0.1 x; done")
    seat = screen("attach", process)
    seat.sees("ready\r\n")
    seat.press("\x03")
    seat.sees("caught")
    assert seat.ends() == 9


def test_another_detach_key_is_shown_and_frees_the_usual_one(
    terminal: Any, site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site(ECHO)
    seat = screen("attach", "--detach-key", "ctrl-q", process)
    seat.sees("ctrl-q detaches")
    seat.sees("ready\r\n")
    seat.press(f"a{DETACH}b\r")
    seat.sees(f"got:a{DETACH}b")
    seat.press("\x11")
    assert seat.ends() == 0
    assert state_of(terminal, process)["state"] == "running"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_gives_the_terminal_back_and_leaves_the_process(
    terminal: Any, site: Callable[..., str], screen: Callable[..., Screen], number: int
) -> None:
    process = site(ECHO)
    seat = screen("attach", process)
    seat.sees("ready\r\n")
    assert not seat.is_as_before
    seat.child.send_signal(number)
    assert seat.ends() == 128 + number
    assert seat.is_as_before
    assert state_of(terminal, process)["state"] == "running"


def test_a_lost_worker_gives_the_terminal_back_with_an_error(
    terminal: Any, site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site(ECHO)
    seat = screen("attach", process)
    seat.sees("ready\r\n")
    assert terminal("session", "stop", "site").code == 0
    seat.ends()
    assert seat.is_as_before


def test_what_a_program_changed_of_the_terminal_is_undone_at_the_end(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site(r"printf '\033[?1049h\033[?25l\033[31mready\033[6n'; read line")
    seat = screen("attach", process)
    seat.sees("\x1b[31mready")
    seat.press(DETACH)
    assert seat.ends() == 0
    assert "\x1b[?25h\x1b[?1049l\x1b[0m\r\n" in seat.shown
    later = screen("attach", process)
    later.sees("\x1b[31mready")
    later.press(DETACH)
    assert later.ends() == 0
    assert "\x1b[6n" not in later.shown


def test_a_process_with_pipes_is_typed_to_line_by_line(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site(ECHO, "--pipes")
    seat = screen("attach", process)
    seat.sees("ready\r\n")
    seat.press("one\n")
    seat.sees("got:one\r\n")
    seat.press(DETACH)
    assert seat.ends() == 0
    assert seat.is_as_before


def test_a_process_that_takes_no_input_is_only_watched(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site("exec <&-; echo ready; while [ ! -e go ]; do :; done; echo gone", "--pipes")
    seat = screen("attach", process)
    seat.sees("ready\r\n")
    seat.press("one\n")
    seat.sees("takes no more input")
    seat.press("two\n")
    assert seat.child.poll() is None
    seat.press(DETACH)
    assert seat.ends() == 0


def test_a_seat_that_was_stopped_takes_the_terminal_again(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site(ECHO)
    seat = screen("attach", process)
    seat.sees("ready\r\n")
    termios.tcsetattr(seat.slave, termios.TCSANOW, seat.modes)
    seat.resize(41, 121)
    seat.child.send_signal(signal.SIGCONT)
    while seat.is_as_before:
        seat.child.send_signal(0)
    seat.press("one\r")
    seat.sees("got:one\r\n")
    seat.press(DETACH)
    assert seat.ends() == 0


def test_keys_that_nobody_reads_do_not_hold_the_detach_key(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site("stty raw; echo ready; exec sleep 1000")
    seat = screen("attach", process)
    seat.sees("ready\n")
    for _ in range(40):
        seat.press("x" * 200)
    seat.press(DETACH)
    assert seat.ends() == 0
    assert seat.is_as_before


def test_without_a_terminal_an_attach_says_what_helps(
    terminal: Any, site: Callable[..., str]
) -> None:
    ended = terminal("attach", site(ECHO))
    assert ended.code == 125
    assert b"moorage logs -f" in ended.err


def test_the_table_is_redrawn_until_ctrl_c(
    site: Callable[..., str], screen: Callable[..., Screen]
) -> None:
    process = site(ECHO)
    table = screen("ps", "--follow")
    table.sees(process)
    table.sees("running")
    table.sees(process)
    table.press("\x03")
    assert table.ends() == 0
