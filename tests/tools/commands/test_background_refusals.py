"""Requests on background commands that cannot be met: one sentence, and nothing else happens."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.tools.commands.conftest import CommandDesk

from moorage.errors import ExecutionError, InvalidArguments, ProvisionError, Refused
from moorage.policy.permission import PermissionMode

pytestmark = pytest.mark.needs("landlock")


def plain(error: ExecutionError) -> str:
    """Return the message, which is for people and models and no trace of ours."""
    text = error.message
    assert "\n" not in text
    assert "Traceback" not in text
    return text


async def structured(desk: CommandDesk, **arguments: Any) -> dict[str, Any]:
    result = await desk.call(**arguments)
    assert result.structured_content is not None
    return result.structured_content


async def nothing_is_left(desk: CommandDesk) -> bool:
    listed = (await structured(desk, action="list"))["processes"]
    folders = (desk.own / "processes", desk.own / "logs")
    return not listed and not any(list(folder.iterdir()) for folder in folders)


@pytest.mark.parametrize("action", ["read", "write", "stop", "update"])
async def test_an_id_of_another_session_is_as_unknown_as_any_other(
    desk: CommandDesk, action: str
) -> None:
    process_id = (await structured(desk, command="sleep 60", run_in_background=True))["id"]
    own = desk.context
    desk.context = lambda mode: msgspec.structs.replace(own(mode), session="another")  # type: ignore[method-assign]
    more = {"input": "x", "completion_mode": "detached"}
    with pytest.raises(InvalidArguments, match="No background process of this session") as refusal:
        await desk.call(action=action, process_id=process_id, **more)
    with pytest.raises(InvalidArguments) as unknown:
        await desk.call(action=action, process_id="proc-00000000", **more)
    assert plain(refusal.value).replace(process_id, "") == plain(unknown.value).replace(
        "proc-00000000", ""
    )
    assert (await structured(desk, action="list"))["processes"] == []
    desk.context = own  # type: ignore[method-assign]
    (listed,) = (await structured(desk, action="list"))["processes"]
    assert (listed["status"], listed["completion_mode"]) == ("running", "resume")


@pytest.mark.parametrize("wait_ms", [2**31, 2**64])
async def test_no_wait_is_too_long_to_be_ended_by_the_end(desk: CommandDesk, wait_ms: int) -> None:
    process_id = (await structured(desk, command="exit 3", run_in_background=True))["id"]
    found = await structured(
        desk, action="read", process_id=process_id, offset_bytes=2**64, wait_ms=wait_ms
    )
    assert (found["exit_code"], found["timed_out"]) == (3, False)


@pytest.mark.parametrize("wrong", ["5", 1.5, True, [1]])
@pytest.mark.parametrize("field", ["wait_ms", "offset_bytes", "max_bytes"])
async def test_a_number_of_another_type_is_named(
    desk: CommandDesk, field: str, wrong: object
) -> None:
    with pytest.raises(InvalidArguments, match=field) as error:
        await desk.call(action="read", process_id="proc-00000000", **{field: wrong})
    plain(error.value)


@pytest.mark.parametrize("in_background", [False, True])
async def test_a_missing_shell_is_named_and_the_next_command_runs(
    desk: CommandDesk, in_background: bool
) -> None:
    path = desk.variables["PATH"]
    plan = desk.plan(PermissionMode.STANDARD)
    desk.supervisor.set_base_variables(plan, {"PATH": str(desk.outside)})
    with pytest.raises(ProvisionError, match=r"bash could not be started: .*No such file") as error:
        await desk.call(command="touch ran", run_in_background=in_background)
    plain(error.value)
    assert await nothing_is_left(desk)
    desk.supervisor.set_base_variables(plan, {"PATH": path})
    assert (await desk.bash("ls"))[0] == "(no output)"


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({"command": " \n"}, InvalidArguments, "blank"),
        ({}, InvalidArguments, "blank"),
        ({"command": "touch ran", "cwd": ".."}, Refused, "outside"),
        ({"command": "touch ran", "cwd": "/etc"}, Refused, "outside"),
        ({"command": "touch ran", "cwd": "missing"}, InvalidArguments, "does not exist"),
        ({"command": "touch ran", "lifecycle": "forever"}, InvalidArguments, "lifecycle"),
        ({"command": "touch ran", "action": "start"}, InvalidArguments, "is no action"),
    ],
)
async def test_a_start_that_cannot_be_leaves_nothing(
    desk: CommandDesk, arguments: dict[str, str], error: type[ExecutionError], why: str
) -> None:
    with pytest.raises(error, match=why) as raised:
        await desk.call(**arguments, run_in_background=True)
    plain(raised.value)
    assert await nothing_is_left(desk)
    assert list(desk.path.iterdir()) == []
