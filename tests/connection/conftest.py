"""Both ends joined in memory, and nothing that waits longer than five seconds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from moorage.connection.provider import Handler, RequestContext
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolResult
from moorage.testing.fakes import FakeProvider, Pair, joined
from moorage.testing.playbook import BINDING

Join = Callable[..., AbstractAsyncContextManager[Pair]]


async def echo(request: ExecuteRequest, context: RequestContext) -> ToolResult:
    text = ContentPart(type="text", text=request.call.arguments)
    return ToolResult(content=(text,))


@pytest.fixture
def join() -> Join:
    """Return a maker of initialized pairs: of a provider, or of an ``execute`` handler."""

    @asynccontextmanager
    async def make(
        served: FakeProvider | Handler = echo, *, is_initialized: bool = True, **options: Any
    ) -> AsyncIterator[Pair]:
        is_provider = isinstance(served, FakeProvider)
        provider = served if is_provider else FakeProvider({"execute": served})
        with anyio.fail_after(5):
            async with joined(provider, **options) as pair:
                if is_initialized:
                    await pair.host.initialize(BINDING)
                yield pair

    return make
