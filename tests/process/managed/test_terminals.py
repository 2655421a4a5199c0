from __future__ import annotations

import os

import pytest

from moorage.errors import InvalidArguments, ProvisionError
from moorage.policy.permission import PermissionMode
from moorage.process import child
from moorage.process import supervisor as supervisors
from moorage.process.child import NoTerminal


@pytest.fixture(params=["standard", "read_only", "unconfined"])
def plan(request, place):
    return place.plan(PermissionMode(request.param))


async def output_of(bench, command: str, **changes: object) -> str:
    started = await bench.start(command, tty=True, **changes)
    await bench.end_of(started.id)
    return (await bench.read(started.id)).output.replace("\r\n", "\n")


async def test_all_three_streams_are_one_terminal(bench, plan) -> None:
    record = await bench.start("test -t 0 && test -t 1 && test -t 2 && tty", tty=True, plan=plan)

    assert record.tty
    assert (await bench.end_of(record.id)).exit_code == 0
    assert (await bench.read(record.id)).output.startswith("/dev/pts/")


async def test_the_terminal_is_the_controlling_one(bench, plan) -> None:
    text = await output_of(
        bench,
        "echo through >/dev/tty; test $(ps -o tty= -p $$) = $(tty | cut -c6-) && echo same",
        plan=plan,
    )

    assert text == "through\nsame\n"


async def test_a_program_may_open_its_own_terminal_by_name(bench, plan) -> None:
    assert await output_of(bench, "echo here >$(tty)", plan=plan) == "here\n"


async def test_no_other_terminal_can_be_opened(bench) -> None:
    other = await bench.start("tty; cat", tty=True)
    path = (await bench.until_printed(other.id, "\n")).strip()

    text = await output_of(bench, f"(: <{path}) 2>/dev/null || echo no; (: >{path}) || echo no")
    assert text.count("no\n") == 2
    assert "Permission denied" in text
    ours, theirs = os.openpty()
    try:
        text = await output_of(bench, f"echo x >{os.ttyname(theirs)}")
    finally:
        os.close(ours)
        os.close(theirs)
    assert "Permission denied" in text


async def test_a_terminal_is_as_confined_as_a_pipe(bench, place) -> None:
    text = await output_of(
        bench,
        f"echo x >{place.outside}/x; cat {place.hidden}/secret; mv {place.root}/a {place.root}/b/a"
        f" && echo moved; echo x >/dev/shm/x-$$ && rm /dev/shm/x-$$ && echo shared",
        cwd_fd=_tree(place),
    )

    assert text.count("Permission denied") == 2
    assert "moved\nshared\n" in text
    assert "the secret" not in text


def _tree(place) -> None:
    (place.root / "a").write_text("")
    (place.root / "b").mkdir()


async def test_control_c_interrupts_by_the_line_discipline(bench) -> None:
    started = await bench.start("trap 'echo caught; exit 5' INT; echo on; read line", tty=True)
    await bench.until_printed(started.id, "on")

    await bench.manager.write(bench.session, started.id, b"\x03")
    assert (await bench.end_of(started.id)).exit_code == 5
    assert "caught" in (await bench.read(started.id)).output


async def test_end_of_file_is_typed(bench) -> None:
    started = await bench.start("cat", tty=True)

    await bench.manager.write(bench.session, started.id, b"hello\n\x04")
    assert (await bench.end_of(started.id)).exit_code == 0
    assert (await bench.read(started.id)).output == "hello\r\nhello\r\n"


async def test_a_terminal_has_24_rows_and_80_columns_and_can_be_resized(bench) -> None:
    started = await bench.start(
        "trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.02; done", tty=True
    )
    assert "24 80" in await bench.until_printed(started.id, "\n")

    await bench.manager.resize(bench.session, started.id, 132, 50)
    await bench.end_of(started.id)
    assert (await bench.read(started.id)).output == "24 80\r\n50 132\r\n"


async def test_a_start_chooses_the_first_size(bench) -> None:
    assert await output_of(bench, "stty size", size=(40, 100)) == "40 100\n"


async def test_no_size_no_terminal_and_no_process_are_each_told_apart(bench) -> None:
    piped = await bench.start("sleep 60")
    ended = await bench.start("true", tty=True)
    running = await bench.start("sleep 60", tty=True)
    await bench.end_of(ended.id)

    for process_id, columns, text in (
        (running.id, 0, "no size of a terminal"),
        (running.id, 65_536, "no size of a terminal"),
        (piped.id, 80, "has no terminal"),
        (ended.id, 80, "has ended"),
    ):
        with pytest.raises(InvalidArguments, match=text):
            await bench.manager.resize(bench.session, process_id, columns, 24)


async def test_the_variables_of_a_terminal_come_back(bench) -> None:
    bench.supervisor.set_base_variables(
        bench.spec("true").plan, {"PATH": os.environ["PATH"], "NO_COLOR": "1", "TERM": "dumb"}
    )

    text = await output_of(bench, "echo $TERM $COLORTERM $CLICOLOR $FORCE_COLOR ${NO_COLOR-none}")
    assert text == "xterm-256color truecolor 1 1 none\n"
    piped = await bench.start("echo $TERM $NO_COLOR")
    await bench.end_of(piped.id)
    assert (await bench.read(piped.id)).output == "dumb 1\n"


async def test_given_variables_win_over_those_of_a_terminal(bench) -> None:
    assert await output_of(bench, "echo $TERM", variables={"TERM": "vt100"}) == "vt100\n"


async def test_stopping_a_terminal_ends_all_that_holds_it(bench) -> None:
    started = await bench.start(
        "trap '' TERM HUP; setsid -f bash -c 'trap \"\" TERM HUP; echo $$; sleep 60; sleep 60'; "
        "sleep 60; sleep 60",
        tty=True,
    )
    pid = int(await bench.until_printed(started.id, "\n"))

    record = await bench.stop(started.id)
    assert record.terminal_cause == "requested_stop"
    assert not bench.is_alive(pid)


async def test_what_is_printed_last_is_never_lost(bench) -> None:
    for _ in range(20):
        assert (await output_of(bench, "seq 1 300; echo last")).endswith("last\n")


async def test_a_program_that_keeps_the_terminal_does_not_hold_up_the_end(bench) -> None:
    started = await bench.start("trap '' HUP; setsid -f sleep 60; echo done", tty=True)

    assert (await bench.end_of(started.id)).status == "stopped"
    assert (await bench.read(started.id)).output == "done\r\n"


async def test_a_folder_that_is_gone_is_told_and_leaves_nothing(bench) -> None:
    with pytest.raises(ProvisionError, match="no-such-folder"):
        await bench.start("true", tty=True, cwd="/no-such-folder")
    assert bench.manager.list(bench.session) == ()


async def test_a_command_longer_than_the_system_takes_is_told(bench) -> None:
    with pytest.raises(InvalidArguments, match="longer than the system takes"):
        await bench.start(f"echo {'x' * 200_000}", tty=True)


async def test_where_no_terminal_can_be_had_pipes_serve(bench, monkeypatch) -> None:
    def none(size: tuple[int, int]) -> tuple[int, int]:
        raise NoTerminal("There is no terminal to be had.")

    monkeypatch.setattr(supervisors, "open_terminal", none)
    started = await bench.start("test -t 1 || echo a pipe", tty=True)
    assert not started.tty
    await bench.end_of(started.id)
    assert (await bench.read(started.id)).output == "a pipe\n"


async def test_a_terminal_that_cannot_be_opened_is_told(monkeypatch) -> None:
    def fail() -> tuple[int, int]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "openpty", fail)
    with pytest.raises(NoTerminal, match="No space left"):
        child.open_terminal((24, 80))
    monkeypatch.setattr(os, "openpty", lambda: (os.dup(0), os.dup(0)))
    monkeypatch.setattr(os, "ttyname", lambda _: fail())
    with pytest.raises(NoTerminal, match="cannot be used"):
        child.open_terminal((24, 80))
