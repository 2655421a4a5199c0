from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio
import pytest

from moorage.confine.provider import ConfinementProvider
from moorage.errors import (
    ConfigError,
    ConfinementUnavailable,
)
from moorage.policy.permission import PermissionMode
from moorage.process.spec import ExitStatus
from moorage.process.supervisor import Supervisor

BASE = {"PATH": os.environ["PATH"]}

pytestmark = pytest.mark.needs("landlock")


async def test_a_command_writes_in_its_roots_and_nowhere_else(hand, shell, place) -> None:
    command = f"echo a > here; echo b > {place.private}/here; echo c > {place.outside}/there"
    finished = await hand.run(shell(command))
    assert (place.root / "here").exists()
    assert (place.private / "here").exists()
    assert not (place.outside / "there").exists()
    assert "Permission denied" in finished.stderr


async def test_a_read_only_command_writes_only_in_its_private_folder(hand, shell, place) -> None:
    plan = place.plan(PermissionMode.READ_ONLY)
    command = (
        f"cat file; echo a > file; rm file; mkdir d; echo b > {place.private}/here; "
        f"echo c > /dev/null; echo d > /dev/shm/moorage-{os.getpid()}"
    )
    (place.root / "file").write_text("kept\n")
    finished = await hand.run(shell(command, plan=plan))
    assert finished.stdout == "kept\n"
    assert (place.root / "file").read_text() == "kept\n"
    assert [p.name for p in place.root.iterdir()] == ["file"]
    assert (place.private / "here").exists()
    assert finished.stderr.count("Permission denied") == 4


async def test_nothing_hidden_can_be_read_whenever_it_was_made(hand, shell, place) -> None:
    read = f"cat {place.hidden}/secret {place.hidden}/later; cat {place.private}/mine"
    (place.private / "mine").write_text("mine\n")
    finished = await hand.run(shell(read))
    assert finished.stdout == "mine\n"
    (place.hidden / "later").write_text("the later secret\n")
    finished = await hand.run(shell(read))
    assert finished.stdout == "mine\n"
    linked = (
        f"ln -s {place.hidden}/secret link; cat link; cat /proc/self/root{place.hidden}/secret; "
        f"cd {place.hidden} && cat secret"
    )
    assert (await hand.run(shell(linked))).stdout == ""


async def test_a_hidden_path_that_is_made_later_stays_hidden(hand, shell, place) -> None:
    hidden = place.outside / "not" / "yet"
    plan = place.plan()._replace(hidden_paths=(str(place.hidden), str(hidden)))
    spec = shell(f"cat {hidden}/secret", plan=plan)
    await hand.run(spec)
    hidden.mkdir(parents=True)
    (hidden / "secret").write_text("secret")
    assert (await hand.run(spec)).stdout == ""


async def test_a_readable_path_inside_a_hidden_one_can_be_read_and_not_written(
    hand, shell, place
) -> None:
    logs = place.hidden / "logs"
    logs.mkdir()
    (logs / "log").write_text("the log\n")
    plan = place.plan()._replace(readable_paths=(str(logs),))
    finished = await hand.run(
        shell(f"cat {logs}/log; echo x > {logs}/log; rm {logs}/log", plan=plan)
    )
    assert finished.stdout == "the log\n"
    assert finished.stderr.count("Permission denied") == 2


async def test_a_root_that_was_made_anew_can_be_written(hand, shell, place) -> None:
    assert (await hand.run(shell("echo a > file; echo $PPID"))).status.exit_code == 0
    shutil.rmtree(place.root)
    place.root.mkdir()
    assert (await hand.run(shell("echo b > file"))).status.exit_code == 0
    assert (place.root / "file").read_text() == "b\n"


async def test_a_new_launcher_comes_beside_one_that_still_works(hand, shell, place) -> None:
    with anyio.fail_after(5):
        async with hand.supervisor.open(shell("echo $PPID; sleep 1000")) as child:
            first = int(await hand.read_line(child.stdout))
            shutil.rmtree(place.root)
            place.root.mkdir()
            second = int((await hand.run(shell("echo $PPID"))).stdout)
            assert second != first
            assert child.is_running
        # The first goes with its last program.
        await hand.await_end(first)
        assert int((await hand.run(shell("echo $PPID"))).stdout) == second


async def test_a_root_that_became_a_symlink_grants_nothing(hand, shell, place) -> None:
    inner = place.root / "inner"
    inner.mkdir()
    plan = place.plan()._replace(writable_roots=(str(place.root), str(inner)))
    spec = shell(f"rmdir inner; ln -s {place.outside} inner", plan=plan)
    assert (await hand.run(spec)).status.exit_code == 0
    for _ in range(2):
        finished = await hand.run(shell("echo x > inner/file; echo y > own", plan=plan))
        assert "Permission denied" in finished.stderr
    assert not list(place.outside.iterdir())
    assert (place.root / "own").exists()


def own_privileges() -> str:
    """Return the line that says whether this very process may gain privileges."""
    lines = Path("/proc/self/status").read_text().splitlines(keepends=True)
    return next(line for line in lines if line.startswith("NoNewPrivs"))


async def test_an_unconfined_command_writes_everywhere(hand, shell, place) -> None:
    plan = place.plan(PermissionMode.UNCONFINED)
    finished = await hand.run(
        shell(f"echo x > {place.outside}/file; cat {place.hidden}/secret", plan=plan)
    )
    assert finished == (ExitStatus(exit_code=0), "the secret\n", "")
    status = (await hand.run(shell("grep NoNewPrivs /proc/self/status", plan=plan))).stdout
    assert status == own_privileges()


@pytest.mark.parametrize("abi", [0, 1, 2])
@pytest.mark.parametrize("mode", [PermissionMode.STANDARD, PermissionMode.READ_ONLY])
async def test_an_old_kernel_refuses_restricted_commands(nursery, place, shell, abi, mode) -> None:
    async with Supervisor(nursery, found_abi=abi) as supervisor:
        with pytest.raises(ConfinementUnavailable, match="Nothing ran") as caught:
            async with supervisor.open(shell("touch ran", plan=place.plan(mode))):
                raise AssertionError("it ran")
        assert "6.2" in caught.value.hint
        plan = place.plan(PermissionMode.UNCONFINED)
        async with supervisor.open(shell("exit 3", plan=plan)) as child:
            assert await child.wait() == ExitStatus(exit_code=3)
    assert not list(place.root.iterdir())


async def test_a_plan_that_contradicts_itself_is_refused(hand, shell, place) -> None:
    plan = place.plan()._replace(writable_roots=(str(place.root.parent),))
    with pytest.raises(ConfigError, match="contains"):
        await hand.run(shell("true", plan=plan))


PROVIDER = ConfinementProvider(
    argv=("/usr/bin/env",),
    enforcement="full",
    hidden=("HIDDEN={path}",),
    writable=("WRITABLE={path}",),
)


async def test_a_configured_provider_stands_in_for_the_kernel(
    nursery, limits, place, hand, shell
) -> None:
    spec = shell("echo $HIDDEN $WRITABLE; grep NoNewPrivs /proc/self/status")
    async with Supervisor(
        nursery, limits=limits, provider=PROVIDER, found_abi=0, base_variables=lambda _: BASE
    ) as supervisor:
        said = (await hand.__class__(supervisor).run(spec)).stdout.splitlines()
        assert said[0].split() == [str(place.hidden), str(place.private)]
        assert said[1] + "\n" == own_privileges()
        unconfined = shell("echo $HIDDEN.", plan=place.plan(PermissionMode.UNCONFINED))
        assert (await hand.__class__(supervisor).run(unconfined)).stdout == ".\n"
    early = nursery.begin(place.plan(), spec.argv, BASE, provider=PROVIDER)
    async with Supervisor(nursery, limits=limits) as supervisor, supervisor.adopt(early) as child:
        assert (await hand.finish(child)).stdout.startswith(str(place.hidden))


async def test_a_command_opens_terminals_of_its_own_only_where_the_user_grants_them(
    hand, shell, place
) -> None:
    command = "python3 -c 'import os; os.openpty()' 2>/dev/null && echo opened || echo refused"
    assert (await hand.run(shell(command))).stdout == "refused\n"
    granted = place.plan()._replace(writable_roots=(str(place.root), "/dev/pts"))
    assert (await hand.run(shell(command, plan=granted))).stdout == "opened\n"
