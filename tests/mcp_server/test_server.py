from __future__ import annotations

import anyio
import mcp_types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from moorage.errors import (
    ConnectionLost,
    EnvironmentDied,
    InvalidArguments,
    OutcomeUnknown,
    Refused,
    WorkerFailure,
)
from moorage.mcp_server.server import MODE_SENTENCES, Place, instructions
from moorage.policy.permission import PermissionMode
from moorage.protocol.tool_calls import ContentPart, ToolResult

ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
"""The handshake revisions, and the stateless one of 2026-07-28."""


def text(result: mcp_types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


@ERAS
async def test_a_client_lists_nine_tools_and_starts_no_session(serving, house, era: str) -> None:
    async with Client(serving(), mode=era) as client:
        listed = await client.list_tools()
        assert len(listed.tools) == 9
        assert client.server_info.name == "moorage"
        assert "/srv/project" in (client.instructions or "")
    assert not house.asked_for


@ERAS
async def test_a_call_gives_the_view_and_the_data(serving, house, era: str) -> None:
    async with Client(serving(), mode=era) as client:
        result = await client.call_tool("bash", {"command": "make"})
    assert text(result) == "ran make"
    assert result.structured_content == {"outcome": "exited", "exit_code": 0}
    assert house.sessions[0].calls == [("bash", {"command": "make"})]
    assert house.closed == ["session-0"]


async def test_the_data_can_be_left_out_for_clients_that_would_show_nothing_else(serving) -> None:
    async with Client(serving(structured_content=False), mode="legacy") as client:
        result = await client.call_tool("bash", {"command": "make"})
        failed = await client.call_tool("no_such_tool", {})
    assert result.structured_content is None
    assert text(result) == "ran make"
    assert failed.structured_content is None
    assert failed.is_error


async def test_an_image_reaches_the_client_as_an_image(serving, house) -> None:
    image = ContentPart(type="image", data="iVBO", mime_type="image/png")
    house.answer("read_file", ToolResult(content=(image,)))
    async with Client(serving(), mode="legacy") as client:
        result = await client.call_tool("read_file", {"path": "a.png"})
    assert result.content == [mcp_types.ImageContent(data="iVBO", mime_type="image/png")]


@ERAS
@pytest.mark.parametrize(
    "error",
    [
        Refused("outside the workspace.", reason="boundary_denied", hint="Ask the user."),
        InvalidArguments("timeout_seconds: expected int, got str."),
        OutcomeUnknown("the worker went away."),
        EnvironmentDied("the environment ended."),
        ConnectionLost("nobody is there."),
        WorkerFailure("the disk is full."),
    ],
)
async def test_whatever_goes_wrong_is_a_tool_error_that_a_model_can_read(
    serving, house, era: str, error
) -> None:
    house.answer("bash", error)
    async with Client(serving(), mode=era) as client:
        result = await client.call_tool("bash", {"command": "x"})
    assert result.is_error
    assert text(result) == str(error)
    assert result.structured_content["error"]["code"] == error.code
    assert result.structured_content["error"]["hint"] == error.hint


async def test_an_unknown_tool_is_a_tool_error_that_names_the_tools(serving, house) -> None:
    async with Client(serving(), mode="legacy") as client:
        result = await client.call_tool("apply_patch", {})
    assert result.is_error
    assert "'apply_patch'" in text(result)
    assert "edit_file" in text(result)
    assert result.structured_content["error"]["code"] == "unknown_tool"
    assert not house.asked_for


@pytest.mark.parametrize("arguments", [[1], '{"command": "x"}', 3, True])
async def test_arguments_that_are_no_object_are_a_tool_error(serving, arguments) -> None:
    async with Client(serving(), mode="legacy") as client:
        raw = await client.session.send_request(
            mcp_types.Request[dict, str](
                method="tools/call", params={"name": "bash", "arguments": arguments}
            ),
            mcp_types.CallToolResult,
        )
    assert raw.is_error
    assert raw.structured_content["error"]["code"] == "invalid_arguments"
    assert "arguments: expected an object" in text(raw)


async def test_a_fault_of_ours_costs_one_call_and_not_the_server(serving, house, caplog) -> None:
    async def broken(_):
        raise RuntimeError("a bug")

    house.answers["glob"] = broken
    async with Client(serving(), mode="legacy") as client:
        with pytest.raises(MCPError):
            await client.call_tool("glob", {"pattern": "*"})
        assert not (await client.call_tool("bash", {"command": "x"})).is_error
    assert "a bug" in caplog.text


async def test_cancelling_a_call_cancels_the_tool(serving, house) -> None:
    hanging = house.hang("bash")
    async with Client(serving(), mode="legacy") as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "bash", {"command": "sleep 300"})
            with anyio.fail_after(5):
                await hanging.begun.wait()
                tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await hanging.cancelled.wait()
        house.answer("glob", ToolResult())
        assert not (await client.call_tool("glob", {"pattern": "*"})).is_error
    assert len(house.sessions) == 1


async def test_calls_of_one_client_run_side_by_side(serving, house) -> None:
    hanging = house.hang("bash")
    house.answer("grep", ToolResult(content=(ContentPart(type="text", text="found"),)))
    results = []
    async with Client(serving(), mode="legacy") as client:

        async def run() -> None:
            results.append(text(await client.call_tool("bash", {"command": "long"})))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(5):
                await hanging.begun.wait()
                found = await client.call_tool("grep", {"pattern": "x"})
            assert text(found) == "found"
            hanging.released.set()
    assert results == ["released"]
    assert len(house.sessions) == 1


@ERAS
async def test_progress_grows_while_a_call_runs_and_stops_with_it(serving, house, era: str) -> None:
    hanging = house.hang("bash")
    heard: list[tuple[float, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))
        assert total is None
        if len(heard) == 3:
            hanging.released.set()

    async with Client(serving(), mode=era) as client:
        with anyio.fail_after(5):
            await client.call_tool("bash", {"command": "x"}, progress_callback=listen)
    assert len(heard) >= 3
    assert [progress for progress, _ in heard] == sorted({progress for progress, _ in heard})
    assert all(message is not None and "running for" in message for _, message in heard)


async def test_a_client_that_did_not_ask_hears_no_progress(serving, house) -> None:
    heard = []

    async def listen(message) -> None:
        heard.append(message)

    hanging = house.hang("bash")
    async with (
        Client(serving(), mode="legacy", message_handler=listen) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(client.call_tool, "bash", {"command": "x"})
        with anyio.fail_after(5):
            await hanging.begun.wait()
            await anyio.wait_all_tasks_blocked()
        hanging.released.set()
    assert heard == []


async def call_until_closed(client: Client) -> None:
    with pytest.raises(MCPError):
        await client.call_tool("bash", {"command": "x"})


async def test_a_client_that_leaves_takes_its_running_calls_with_it(serving, house) -> None:
    hanging = house.hang("bash")
    with anyio.fail_after(5):
        async with (
            anyio.create_task_group() as tasks,
            Client(serving(), mode="legacy") as client,
        ):
            tasks.start_soon(call_until_closed, client)
            await hanging.begun.wait()
        await hanging.cancelled.wait()
    assert house.closed == ["session-0"]


@pytest.mark.parametrize("mode", list(PermissionMode))
def test_the_instructions_say_where_and_how_far(mode: PermissionMode) -> None:
    said = instructions(Place(environment="box", workspace="/w", mode=mode))
    assert "/w in 'box'" in said
    assert MODE_SENTENCES[mode] in said
    assert len(said) < 1200
