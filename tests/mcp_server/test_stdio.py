from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from moorage.errors import ConfigError
from moorage.mcp_server.stdio import (
    check_standard_streams,
    claimed_standard_streams,
    serve_stream,
)
from moorage.protocol.framing import MAX_FRAME_BYTES
from moorage.transports.memory import MemoryTransport, memory_pair

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


class Wire:
    """The client's end of a byte stream."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        self._unread = b""

    async def say(self, *messages: Any) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            await self._transport.send(line)

    async def hear(self) -> Any:
        while b"\n" not in self._unread:
            data = await self._transport.receive()
            assert data, "the server ended"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    async def hear_the_end(self) -> None:
        assert await self._transport.receive() == b""

    async def leave(self) -> None:
        await self._transport.close_sending()

    def stop_reading(self) -> None:
        self._transport.close_receiving()


@pytest.fixture
def wire(serving) -> Callable[[], Any]:
    @asynccontextmanager
    async def open_wire() -> AsyncIterator[Wire]:
        ours, theirs = memory_pair()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_stream, serving(), theirs)
                yield Wire(ours)
                await ours.close_sending()

    return open_wire


def called(name: str, arguments: Any, call_id: int = 2) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": call_id, "method": "tools/call", "params": params}


async def test_a_conversation_is_one_message_a_line(wire, house) -> None:
    async with wire() as client:
        await client.say(INITIALIZE)
        greeting = await client.hear()
        assert greeting["result"]["serverInfo"]["name"] == "moorage"
        await client.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await client.say(called("bash", {"command": "make"}))
        assert (await client.hear())["result"]["structuredContent"]["outcome"] == "exited"
    assert house.closed == ["session-0"]


async def test_messages_may_arrive_in_any_pieces(wire) -> None:
    text = json.dumps(INITIALIZE).encode() + b"\r\n\n  \n"
    async with wire() as client:
        for index in range(len(text)):
            await client.say(text[index : index + 1])
        assert (await client.hear())["id"] == 1


async def test_a_last_message_without_a_newline_is_read(wire) -> None:
    async with wire() as client:
        await client.say(json.dumps(INITIALIZE).encode())
        await client.leave()
        assert (await client.hear())["id"] == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{\n", -32700),
        (b"\xff\xfe\x00\n", -32700),
        (b"[]\n", -32600),
        (b'"text"\n', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}\n', -32600),
    ],
)
async def test_a_line_that_is_no_message_is_answered_and_the_next_one_works(
    wire, line: bytes, code: int
) -> None:
    async with wire() as client:
        await client.say(line)
        answer = await client.hear()
        assert answer["id"] is None
        assert answer["error"]["code"] == code
        await client.say(INITIALIZE)
        assert (await client.hear())["id"] == 1


async def test_a_line_above_the_bound_ends_the_server_in_order(
    wire, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire() as client:
        await client.say(b"x" * MAX_FRAME_BYTES)
        await client.hear_the_end()
    assert "more than" in caplog.text


async def test_a_client_that_no_longer_reads_ends_the_server(wire, house) -> None:
    hanging = house.hang("bash")
    async with wire() as client:
        await client.say(INITIALIZE)
        await client.hear()
        await client.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await client.say(called("bash", {"command": "x"}))
        await hanging.begun.wait()
        client.stop_reading()
        hanging.released.set()
        await house.until_closed(1)


async def test_a_client_that_leaves_ends_the_server_and_the_running_call(wire, house) -> None:
    hanging = house.hang("bash")
    async with wire() as client:
        await client.say(INITIALIZE, called("bash", {"command": "x"}))
        await hanging.begun.wait()
        await client.leave()
        await hanging.cancelled.wait()


async def test_a_cancelled_call_is_not_answered_and_the_next_one_is(wire, house) -> None:
    hanging = house.hang("bash")
    async with wire() as client:
        await client.say(INITIALIZE, called("bash", {"command": "x"}, call_id=7))
        await client.hear()
        await hanging.begun.wait()
        params = {"requestId": 7, "reason": "the user pressed escape"}
        await client.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        await hanging.cancelled.wait()
        await client.say(called("no_such_tool", {}, call_id=8))
        assert (await client.hear())["id"] == 8


async def test_while_the_streams_are_claimed_prints_go_to_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with claimed_standard_streams() as transport:
        os.write(1, b"a stray print\n")
        await transport.send(b"the protocol\n")
        assert os.read(0, 10) == b""
        await transport.aclose()
    os.write(1, b"printed again\n")
    said = capfd.readouterr()
    assert said.out == "the protocol\nprinted again\n"
    assert said.err == "a stray print\n"


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_closed_standard_stream_is_one_clear_sentence(
    monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    monkeypatch.setattr(sys, stream, None)
    with pytest.raises(ConfigError, match="MCP needs both"):
        check_standard_streams()
