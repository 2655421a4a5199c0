from __future__ import annotations

import os
import resource
import signal

import anyio
import pytest

from moorage.errors import (
    ConfinementUnavailable,
    InvalidArguments,
    ProvisionError,
    ShutdownIncomplete,
)
from moorage.process.child import PipeReader
from moorage.process.spec import ExitStatus, ProgramSpec
from moorage.process.supervisor import Supervisor

BASE = {"PATH": os.environ["PATH"]}

pytestmark = pytest.mark.needs("landlock")


async def test_a_program_runs_with_its_output_on_two_pipes(hand, shell) -> None:
    finished = await hand.run(shell("echo out; echo err >&2; exit 7"))
    assert finished == (ExitStatus(exit_code=7), "out\n", "err\n")


async def test_a_program_that_is_killed_ends_by_that_signal(hand, shell) -> None:
    finished = await hand.run(shell("kill -9 $$"))
    assert finished.status == ExitStatus(signal=signal.SIGKILL)


async def test_a_child_has_no_other_descriptors_than_the_three_streams(hand, shell) -> None:
    listing = "import os; print([f for f in sorted(os.listdir('/proc/self/fd'))])"
    finished = await hand.run(shell(f'python3 -c "{listing}"; ls -l /proc/self/fd >&2'))
    # The fourth is the directory that is being listed.
    assert finished.stdout == "['0', '1', '2', '3']\n"
    assert "0 -> /dev/null" in finished.stderr


async def test_standard_input_is_empty_unless_a_descriptor_is_given(hand, shell, tmp_path) -> None:
    assert (await hand.run(shell("cat; echo done"))).stdout == "done\n"
    given = tmp_path / "input"
    given.write_text("from the descriptor")
    with given.open("rb") as file:
        finished = await hand.run(shell("cat", stdin_fd=file.fileno()))
    assert finished.stdout == "from the descriptor"


async def test_a_directory_descriptor_wins_over_the_path(hand, shell, place) -> None:
    inner = place.root / "inner"
    inner.mkdir()
    directory = os.open(inner, os.O_PATH | os.O_DIRECTORY)
    try:
        finished = await hand.run(shell("pwd -P", cwd_fd=directory, cwd=str(place.root)))
    finally:
        os.close(directory)
    assert finished.stdout == f"{inner}\n"
    assert (await hand.run(shell("pwd -P"))).stdout == f"{place.root}\n"


async def test_variables_are_the_base_and_then_the_additions(hand, shell, place) -> None:
    spec = shell("echo $BASE; echo $HOME; echo $MORE", variables={"HOME": "/h", "MORE": "a=b\n"})
    assert (await hand.run(spec)).stdout == "from the base\n/h\na=b\n"
    hand.supervisor.set_base_variables(place.plan(), {"PATH": os.environ["PATH"], "BASE": "new"})
    assert (await hand.run(shell("echo $BASE"))).stdout == "new\n"


async def test_text_that_is_no_text_travels_unchanged(hand, shell) -> None:
    raw = os.fsdecode(b"\xff\xfe")
    finished = await hand.run(shell('printf %s "$RAW" | od -An -tx1', variables={"RAW": raw}))
    assert finished.stdout.split() == ["ff", "fe"]


async def test_a_program_larger_than_the_socket_takes_travels_whole(hand, place) -> None:
    argument = "x" * 100_000
    argv = ("bash", "-c", 'echo ${#1} ${#2} "${#3}"', "-", argument, argument, argument)
    finished = await hand.run(ProgramSpec(argv=argv, plan=place.plan()))
    assert finished.stdout == "100000 100000 100000\n"


async def test_what_ignores_signals_around_us_does_not_reach_the_child(hand, shell) -> None:
    finished = await hand.run(shell("grep -E 'Sig(Ign|Blk)' /proc/self/status"))
    blocked, ignored = (int(line.split()[1], 16) for line in finished.stdout.splitlines())
    # Signals 32 and 33 are the C library's own; whatever started us may have ignored them.
    assert (blocked, ignored & ~(0b11 << 31)) == (0, 0)


async def test_a_missing_program_is_named_and_nothing_runs(hand, place) -> None:
    with pytest.raises(ProvisionError, match=r"no-such-program could not be started: .*No such"):
        await hand.run(ProgramSpec(argv=("no-such-program",), plan=place.plan()))
    with pytest.raises(ProvisionError, match="/no/such could not be started") as caught:
        await hand.run(ProgramSpec(argv=("/no/such",), plan=place.plan()))
    assert isinstance(caught.value.__cause__, FileNotFoundError)


async def test_a_missing_directory_is_named_and_nothing_runs(hand, shell, place) -> None:
    with pytest.raises(ProvisionError, match="gone: No such file"):
        await hand.run(shell("echo x", cwd=str(place.root / "gone")))
    file = os.open(place.hidden / "secret", os.O_RDONLY)
    try:
        with pytest.raises(ProvisionError, match="its name: Not a directory"):
            await hand.run(shell("echo x", cwd="its name", cwd_fd=file))
    finally:
        os.close(file)


async def test_a_nul_byte_is_refused_before_anything_runs(hand, shell) -> None:
    with pytest.raises(InvalidArguments, match="NUL"):
        await hand.run(shell("echo a\0touch b"))
    with pytest.raises(InvalidArguments, match="NUL"):
        await hand.run(shell("true", variables={"A": "1\0B=2"}))
    assert (await hand.run(shell("echo still here"))).stdout == "still here\n"


async def test_waiting_does_not_wait_for_whoever_holds_the_pipes(hand, shell) -> None:
    with anyio.fail_after(5):
        async with hand.supervisor.open(shell("sleep 1000 & echo $!")) as child:
            assert await child.wait() == ExitStatus(exit_code=0)
            assert await child.count_left() == 1
            pid = int(await hand.read_line(child.stdout))
            await child.end(0)
            assert await child.count_left() == 0
    await hand.await_end(pid)


@pytest.mark.parametrize("disguise", ["MOORAGE_CALL=${MOORAGE_CALL%.*}.999999", "env -i"])
async def test_an_orphan_in_disguise_belongs_to_its_command_all_the_same(
    hand, shell, disguise
) -> None:
    left = f"({disguise} setsid sleep 1000 & echo $!)"
    with anyio.fail_after(5):
        async with hand.supervisor.open(shell("sleep 1000 & ")) as earlier:
            await earlier.wait()
            async with hand.supervisor.open(shell(left)) as child:
                pid = int(await hand.read_line(child.stdout))
                await child.wait()
                assert await child.count_left() == 1
            async with hand.supervisor.open(shell(f"{left}; sleep 1000")) as child:
                pid = int(await hand.read_line(child.stdout))
                await child.end(0)
                await hand.await_end(pid)
            await earlier.end(0)


async def test_a_child_that_outlived_its_shell_lives_until_the_supervisor_closes(
    nursery, limits, shell, hand
) -> None:
    with anyio.fail_after(5):
        async with Supervisor(nursery, limits=limits, base_variables=lambda _: BASE) as other:
            # It writes more than a pipe holds after its shell is gone, and must not die of it.
            writer = "head -c 300000 /dev/zero; echo > written; sleep 1000"
            command = f"trap '' TERM; ({writer}) & echo $BASHPID $!"
            async with other.open(shell(command)) as child:
                await child.wait()
                left = int((await hand.read_line(child.stdout)).split()[1])
            other_shell = "until [ -e written ]; do :; done; kill -0 $PID && echo alive"
            async with other.open(shell(other_shell, variables={"PID": str(left)})) as child:
                assert (await hand.finish(child)).stdout == "alive\n"
    await hand.await_end(left)


async def test_leaving_ends_a_running_program_and_its_tree(hand, shell) -> None:
    command = "trap '' TERM; sleep 1000 & echo $$ $!; wait; sleep 1000"
    with anyio.fail_after(5):
        async with hand.supervisor.open(shell(command)) as child:
            pids = [int(pid) for pid in (await hand.read_line(child.stdout)).split()]
    for pid in pids:
        await hand.await_end(pid)


async def test_cancelling_a_start_leaves_nothing_behind(hand, shell, place) -> None:
    await hand.supervisor.prepare(place.plan())
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with hand.supervisor.open(shell("echo $$ > early; sleep 1000")):
            raise AssertionError("it was cancelled while it started")

    async def start() -> None:
        async with hand.supervisor.open(shell("echo $$ > late; sleep 1000")) as child:
            await child.wait()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            await hand.until((place.root / "late").exists)
            tasks.cancel_scope.cancel()
    for file in place.root.iterdir():
        if text := file.read_text():
            await hand.await_end(int(text))


async def test_ending_asks_first_and_then_insists(hand, shell) -> None:
    polite = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    with anyio.fail_after(5):
        async with hand.supervisor.open(shell(polite)) as child:
            assert await hand.read_line(child.stdout) == "ready"
            await child.end(5)
            finished = await hand.finish(child)
            assert (finished.status, finished.stdout) == (ExitStatus(exit_code=3), "asked\n")
        deaf = "trap '' TERM; echo ready; while :; do sleep 0.01; done"
        async with hand.supervisor.open(shell(deaf)) as child:
            assert await hand.read_line(child.stdout) == "ready"
            await child.end(0.05)
            assert await child.wait() == ExitStatus(signal=signal.SIGKILL)


async def test_a_stopped_program_ends_too(hand, shell) -> None:
    with anyio.fail_after(5):
        async with hand.supervisor.open(shell("echo ready; kill -STOP $$")) as child:
            assert await hand.read_line(child.stdout) == "ready"
            await child.end(5)
            assert await child.wait() == ExitStatus(signal=signal.SIGTERM)


ESCAPES = {
    "a session of its own": "setsid sleep 1000",
    "a double fork": "(setsid sleep 1000 & ) & wait",
    "a group of its own": "set -m; sleep 1000",
    "a double fork without variables": "(env -i setsid $(which sleep) 1000 & ) & wait",
    "an ignored SIGTERM": "(trap '' TERM; setsid bash -c 'while :; do sleep 0.1; done' & ) & wait",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("does_shell_stay", [True, False], ids=["shell stays", "shell exits"])
async def test_descendants_that_left_group_and_session_are_found_and_ended(
    hand, shell, escape, does_shell_stay
) -> None:
    last = "echo $$; sleep 1000" if does_shell_stay else "echo $$"
    with anyio.fail_after(8):
        async with hand.supervisor.open(shell(f"{escape} & \n {last}")) as child:
            await hand.read_line(child.stdout)
            if not does_shell_stay:
                await child.wait()
                assert await child.count_left() >= 1
            await child.end(0.05)
            assert await child.count_left() == 0
            assert await hand.read_all(child.stdout) == ""


async def test_ending_one_call_leaves_another_alone(hand, shell) -> None:
    with anyio.fail_after(5):
        async with (
            hand.supervisor.open(shell("(setsid sleep 1000 &) ; echo; read")) as first,
            hand.supervisor.open(shell("setsid sleep 1000 & echo $!; sleep 1000")) as second,
        ):
            await first.wait()
            pid = int(await hand.read_line(second.stdout))
            await first.end(0)
            assert await first.count_left() == 0
            assert second.is_running
            assert await second.count_left() >= 2
            os.kill(pid, 0)
        await hand.await_end(pid)


async def test_a_signal_reaches_the_whole_family(hand, shell) -> None:
    with anyio.fail_after(5):
        command = "trap 'echo heard; exit' USR1; echo; while :; do sleep 0.01; done"
        async with hand.supervisor.open(shell(command)) as child:
            await hand.read_line(child.stdout)
            await child.signal(signal.SIGUSR1)
            assert (await hand.finish(child)).stdout == "heard\n"


async def test_a_hundred_children_run_at_once(hand, shell) -> None:
    gate = "until [ -e go ]; do sleep 0.05; done; echo $N"
    got: list[str] = []

    async def one(number: int) -> None:
        spec = shell(gate, variables={"N": str(number)})
        async with hand.supervisor.open(spec) as child:
            started.append(number)
            got.append((await hand.finish(child)).stdout)

    started: list[int] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(one, number)
            await hand.until(lambda: len(started) == 100)
            assert (await hand.run(shell("touch go"))).status == ExitStatus(exit_code=0)
    assert sorted(map(int, got)) == list(range(100))


async def test_many_starts_in_flight_wait_for_room(nursery, limits, place) -> None:
    many = limits.__class__(spawns_in_flight=400, answer_seconds=20)
    results: list[ExitStatus] = []

    async def one() -> None:
        spec = ProgramSpec(argv=("/bin/true", "x" * 8000), plan=place.plan())
        async with supervisor.open(spec) as child:
            results.append(await child.wait())

    with anyio.fail_after(20):
        async with Supervisor(nursery, limits=many) as supervisor:
            await supervisor.prepare(place.plan())
            async with anyio.create_task_group() as tasks:
                for _ in range(200):
                    tasks.start_soon(one)
    assert results == [ExitStatus(exit_code=0)] * 200


async def test_a_closed_supervisor_starts_nothing(nursery, shell) -> None:
    async with Supervisor(nursery) as supervisor:
        await supervisor.aclose()
        await supervisor.aclose()
        with pytest.raises(ProvisionError, match="closed"):
            await supervisor.prepare(shell("").plan)


async def test_too_many_open_files_are_told_and_nothing_runs(hand, shell, place) -> None:
    await hand.supervisor.prepare(place.plan())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 3, hard))
    try:
        with pytest.raises(ProvisionError, match="Too many open files"):
            await hand.run(shell("true"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(held)
    assert (await hand.run(shell("echo on"))).stdout == "on\n"


async def test_an_error_inside_the_supervisor_comes_out_as_it_is(nursery) -> None:
    with pytest.raises(KeyError):
        async with Supervisor(nursery):
            raise KeyError


async def test_a_program_that_began_early_is_adopted_and_its_launcher_serves_on(
    nursery, limits, place, hand, shell
) -> None:
    early = nursery.begin(place.plan(), ["bash", "-c", "echo $A $PPID"], {**BASE, "A": "early"})
    with anyio.fail_after(5):
        async with Supervisor(nursery, limits=limits, base_variables=lambda _: BASE) as supervisor:
            async with supervisor.adopt(early) as child:
                said = (await hand.finish(child)).stdout.split()
            assert said[0] == "early"
            async with supervisor.open(shell("echo $PPID")) as child:
                assert (await hand.finish(child)).stdout.strip() == said[1]


async def test_an_early_program_that_could_not_run_says_why(nursery, limits, place) -> None:
    missing = nursery.begin(place.plan(), ["no-such-program"], BASE)
    around_home = place.plan()._replace(writable_roots=(str(place.hidden.parent),))
    refused = nursery.begin(around_home, ["true"], BASE)
    with anyio.fail_after(5):
        async with Supervisor(nursery, limits=limits) as supervisor:
            with pytest.raises(ProvisionError, match="no-such-program: No such file"):
                async with supervisor.adopt(missing):
                    raise AssertionError("it ran")
            with pytest.raises(ConfinementUnavailable, match="contains"):
                async with supervisor.adopt(refused):
                    raise AssertionError("it ran")


class Stubborn:
    """A launcher that leaves two processes behind."""

    async def close(self, grace_seconds: float) -> int:
        return 2


async def test_a_supervisor_says_what_survived(nursery) -> None:
    async with Supervisor(nursery) as supervisor:
        supervisor._all_launchers.add(Stubborn())  # type: ignore[arg-type]
        with pytest.raises(ShutdownIncomplete, match="2 processes survived"):
            await supervisor.aclose()
        supervisor._all_launchers.clear()


@pytest.mark.timeout(5)  # several writers give the drain no pause of its own
async def test_a_pipe_that_is_never_empty_leaves_others_their_turn(supervisor: Supervisor) -> None:
    reader = PipeReader(os.open("/dev/zero", os.O_RDONLY))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(supervisor._drains.drain, reader)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert reader.fd < 0
