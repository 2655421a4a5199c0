"""Connections on which nothing is asked lose their place; those that are answered keep theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from anyio.abc import SocketStream

from moorage.mcp_server.http import _HttpServer, listening
from moorage.mcp_server.patience import impatient

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"


class Server:
    """A server of one application that answers when the test lets it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked = anyio.Event()
        self.may_answer = anyio.Event()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.set()
        if scope["path"] == "/slow":
            await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"done"})

    async def connect(self) -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)


@asynccontextmanager
async def serving(head_seconds: float) -> AsyncIterator[Server]:
    with listening("127.0.0.1", 0) as listener:
        site = Server(listener.getsockname()[1])
        config = uvicorn.Config(
            site.app,
            interface="asgi3",
            http=impatient(head_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
        )
        server = _HttpServer(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            with anyio.fail_after(5):
                yield site
            server.should_exit = True


async def until_closed(stream: SocketStream) -> bytes:
    """Return what still arrives until the server closes the connection."""
    heard = b""
    with anyio.fail_after(5):
        while True:
            try:
                heard += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return heard


@pytest.mark.parametrize("begun", [b"", b"G", HEAD])
async def test_a_connection_that_never_finishes_a_head_is_closed(begun: bytes) -> None:
    async with serving(0.02) as site, await site.connect() as stream:
        if begun:
            await stream.send(begun)
        assert await until_closed(stream) == b""
        assert not site.asked.is_set()


async def test_single_bytes_do_not_make_the_time_longer() -> None:
    async with serving(0.02) as site, await site.connect() as stream:

        async def drip() -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    await stream.send(b"a")
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drip)
            await until_closed(stream)


async def test_a_body_that_goes_on_after_its_answer_does_not_keep_the_connection() -> None:
    async with serving(0.02) as site, await site.connect() as stream:
        await stream.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\na")
        assert b"done" in await until_closed(stream)


async def test_an_answer_may_take_longer_than_the_head_of_its_request() -> None:
    async with serving(0.02) as site, await site.connect() as asking:
        await asking.send(HEAD.replace(b"/ ", b"/slow ", 1) + b"\r\n")
        await site.asked.wait()
        async with await site.connect() as idle:
            await until_closed(idle)
        site.may_answer.set()
        assert b"done" in await until_closed(asking)
