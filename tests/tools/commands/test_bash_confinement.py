"""``bash`` under the permission modes: what is denied, refused, and told of it."""

from __future__ import annotations

import pytest

from moorage.confine.nursery import start_nursery
from moorage.confine.provider import ConfinementProvider
from moorage.errors import ConfinementUnavailable, Refused
from moorage.policy.permission import PermissionMode
from moorage.process.supervisor import Supervisor

pytestmark = pytest.mark.needs("landlock")


async def test_a_write_outside_is_denied_and_the_user_is_told_both_ways(desk) -> None:
    text, envelope = await desk.bash(f"echo x > {desk.outside}/x")
    assert envelope["sandbox"]["denied"]
    assert (envelope["sandbox"]["mode"], envelope["sandbox"]["enforcement"]) == ("standard", "full")
    assert "path_sockets" in envelope["sandbox"]["not_enforced"]
    assert "--writable DIR" in text
    assert "writable_roots" in text
    assert "change the session's mode" in text
    assert list(desk.outside.iterdir()) == []


async def test_what_is_allowed_is_not_called_denied(desk) -> None:
    text, envelope = await desk.bash("echo x > file && cat file")
    assert text == "x"
    assert not envelope["sandbox"]["denied"]
    _, envelope = await desk.bash("exit 1")
    assert not envelope["sandbox"]["denied"]


async def test_a_script_without_the_right_to_execute_is_not_called_denied(desk) -> None:
    (desk.path / "noexec.sh").write_text("echo ran\n")
    text, envelope = await desk.bash("./noexec.sh")
    assert (envelope["exit_code"], envelope["sandbox"]["denied"]) == (126, False)
    assert "Permission denied" in text
    assert "confinement" not in text


async def test_where_a_provider_confines_the_account_is_about_it(desk) -> None:
    provider = ConfinementProvider(argv=("/usr/bin/env",), enforcement="full", end=("--",))
    nursery = start_nursery()
    try:
        async with Supervisor(
            nursery, base_variables=desk._base, provider=provider, found_abi=0
        ) as supervisor:
            desk.supervisor = supervisor
            _, envelope = await desk.bash("echo ran")
    finally:
        nursery.close()
    sandbox = envelope["sandbox"]
    assert (sandbox["provider"], sandbox["not_enforced"]) == ("/usr/bin/env", ["provider"])


@pytest.mark.parametrize("abi", [0, 2])
async def test_a_kernel_that_cannot_confine_refuses_and_runs_nothing(desk, abi: int) -> None:
    nursery = start_nursery()
    try:
        async with Supervisor(nursery, base_variables=desk._base, found_abi=abi) as supervisor:
            desk.supervisor = supervisor
            for mode in (PermissionMode.STANDARD, PermissionMode.READ_ONLY):
                with pytest.raises(ConfinementUnavailable):
                    await desk.call(command="echo ran", mode=mode)
    finally:
        nursery.close()


@pytest.mark.parametrize("command", ["touch ran", "ls > ran", "pytest", "git commit -m x", "env"])
async def test_read_only_refuses_a_command_that_may_write_before_it_starts(
    desk, command: str
) -> None:
    with pytest.raises(Refused, match="read_only") as refusal:
        await desk.call(command=command, mode=PermissionMode.READ_ONLY)
    assert refusal.value.reason == "boundary_denied"
    assert "change the session's mode" in str(refusal.value)
    assert not (desk.path / "ran").exists()


async def test_read_only_reads(desk) -> None:
    (desk.path / "file").write_text("content\n")
    text, envelope = await desk.bash("cat file", mode=PermissionMode.READ_ONLY)
    assert text == "content"
    assert envelope["sandbox"]["mode"] == "read_only"


async def test_read_only_writes_nothing_even_when_a_reading_command_tries(desk) -> None:
    desk.program("cat", "#!/bin/sh\necho x > ran\n")
    text, envelope = await desk.bash("cat file", mode=PermissionMode.READ_ONLY)
    assert envelope["sandbox"]["denied"]
    assert "read_only" in text
    assert not (desk.path / "ran").exists()


@pytest.mark.parametrize(
    "command",
    [
        "sort -o ran file",
        "sort --output=ran file",
        "git diff --no-index --output=ran file other",
        "git log --output=ran",
        "find . -fprint ran",
        "find . -exec touch ran +",
        "tree -o ran",
        "file -C -m ran",
        "rg --pre ./writer x",
        "cat file >ran",
        "echo $(touch ran)",
    ],
)
@pytest.mark.parametrize("in_background", [False, True])
async def test_read_only_writes_nothing_through_an_option_of_a_reading_command(
    desk, command: str, in_background: bool
) -> None:
    (desk.path / "file").write_text("2\n1\n")
    (desk.path / "other").write_text("3\n")
    (desk.path / "writer").write_text("#!/bin/sh\ntouch ran\n")
    (desk.path / "writer").chmod(0o755)
    before = sorted(desk.path.iterdir())
    with pytest.raises(Refused, match="read_only") as refusal:
        await desk.call(
            command=command, mode=PermissionMode.READ_ONLY, run_in_background=in_background
        )
    assert refusal.value.reason == "boundary_denied"
    assert sorted(desk.path.iterdir()) == before


async def test_unconfined_writes_anywhere_and_has_no_sandbox(desk) -> None:
    command = f"echo x > {desk.outside}/x && cat {desk.outside}/x"
    text, envelope = await desk.bash(command, mode=PermissionMode.UNCONFINED)
    assert text == "x"
    assert "sandbox" not in envelope


async def test_a_command_can_end_its_launcher_and_is_told_so(desk) -> None:
    result = await desk.call(command="echo so far; kill -9 $PPID; sleep 60")
    assert result.is_error
    assert result.structured_content["outcome"] == "environment_died"
    assert result.structured_content["stdout"] == "so far\n"
    text, envelope = await desk.bash(f"echo works; echo x > {desk.outside}/x")
    assert text.startswith("works\n")
    assert envelope["sandbox"]["denied"]
