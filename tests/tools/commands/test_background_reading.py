"""What is read of a background command: paced, explained, and never its own output again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tools.commands.conftest import CommandDesk

from moorage.policy.permission import PermissionMode

pytestmark = pytest.mark.needs("landlock")


async def start(desk: CommandDesk, command: str, **arguments: Any) -> str:
    result = await desk.call(command=command, run_in_background=True, **arguments)
    assert result.structured_content is not None
    return str(result.structured_content["id"])


async def read(desk: CommandDesk, process_id: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    result = await desk.call(action="read", process_id=process_id, **arguments)
    assert result.structured_content is not None
    return result.text, result.structured_content


async def read_at_its_end(desk: CommandDesk, process_id: str) -> tuple[str, dict[str, Any]]:
    """Return the first read after the end."""
    while True:
        _, found = await read(desk, process_id, offset_bytes=10**9, wait_ms=10_000)
        if found["status"] in {"stopped", "failed"}:
            return await read(desk, process_id)


async def test_a_waiting_read_of_continuous_output_gathers_it(desk: CommandDesk) -> None:
    limits = msgspec.structs.replace(desk.processes.limits, dwell_seconds=0.3)
    desk.processes.limits = limits
    process_id = await start(desk, "while :; do echo x; read -t 0.01; done")
    await read(desk, process_id, offset_bytes=0, wait_ms=10_000)
    _, found = await read(desk, process_id, wait_ms=10_000)
    assert found["duration_ms"] >= 300
    assert not found["timed_out"]


@pytest.mark.parametrize(
    ("mode", "command", "advice"),
    [
        (PermissionMode.STANDARD, "echo x > {outside}/stolen", "--writable DIR"),
        (PermissionMode.READ_ONLY, "cat", "read_only"),
    ],
)
async def test_a_denial_in_the_background_comes_with_the_way_out(
    desk: CommandDesk, mode: PermissionMode, command: str, advice: str
) -> None:
    desk.program("cat", "#!/bin/sh\necho x > stolen\n")
    process_id = await start(desk, command.format(outside=desk.outside), mode=mode)
    text, found = await read_at_its_end(desk, process_id)
    assert found["process"]["sandbox_denied"] is True
    assert advice in text
    assert "change the session's mode" in text
    assert not (desk.outside / "stolen").exists()
    assert not (desk.path / "stolen").exists()


async def test_a_failure_that_is_no_denial_is_given_no_such_advice(desk: CommandDesk) -> None:
    text, found = await read_at_its_end(desk, await start(desk, "echo wrong; exit 3"))
    assert "sandbox_denied" not in found["process"]
    assert "session's mode" not in text


@pytest.mark.needs("git")
async def test_git_in_a_terminal_waits_for_no_pager_and_no_editor(desk: CommandDesk) -> None:
    identity = "git config user.email a@example.org; git config user.name a"
    many = 'for i in $(seq 60); do git commit -q --allow-empty -m "number $i"; done'
    process_id = await start(
        desk, f"git init -q .; {identity}; {many}; test -t 1 && git log --oneline; git commit"
    )
    _, found = await read_at_its_end(desk, process_id)
    assert found["exit_code"] == 1
    assert "number 1\r\n" in found["output"]


async def test_a_search_does_not_find_its_own_output(desk: CommandDesk) -> None:
    (desk.path / "hay").write_text("a needle\n")
    process_id = await start(desk, "grep -rn needle . --line-buffered; grep -rn needle .")
    _, found = await read_at_its_end(desk, process_id)
    assert found["output"].splitlines() == ["./hay:1:a needle"] * 2
    assert not Path(found["process"]["log_path"]).is_relative_to(desk.path)


async def test_an_inherited_goroot_is_absent_in_the_background_too(desk: CommandDesk) -> None:
    desk.variables |= {"GOROOT": "/build/go"}
    _, found = await read_at_its_end(desk, await start(desk, "env | grep -ci '^goroot='"))
    assert found["output"] == "0\r\n"
