"""Background processes as an MCP client meets them: listed, read, notified, and told when ended."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from moorage.errors import ConnectionLost

URI = "moorage://processes/proc-00000001"
LONG_ENOUGH = 20


class Heard:
    """What the server said without being asked."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self._more = anyio.Event()

    async def __call__(self, message: object) -> None:
        self.methods.append(getattr(message, "method", repr(message)))
        self._more.set()
        self._more = anyio.Event()

    async def until(self, count: int) -> list[str]:
        with anyio.fail_after(LONG_ENOUGH):
            while len(self.methods) < count:
                await self._more.wait()
        return self.methods


async def test_a_session_that_runs_nothing_lists_nothing_and_opens_nothing(house, serving) -> None:
    async with Client(serving()) as client:
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError, match="runs nothing yet"):
            await client.read_resource(URI)
    assert house.sessions == []


async def test_each_background_process_is_a_resource(house, serving) -> None:
    async with Client(serving()) as client:
        await client.call_tool("bash", {"command": "make"})
        house.sessions[0].start("proc-00000001")
        (resource,) = (await client.list_resources()).resources
        assert (resource.uri, resource.name, resource.title) == (URI, "proc-00000001", "make all")
        (contents,) = (await client.read_resource(URI)).contents
        assert contents.text == (
            "proc-00000001 is running: make all\nOutput, bytes 0 to 16 of 16:\nwhat it printed\n"
        )
        for unknown in ("moorage://processes/proc-99999999", "file:///etc/passwd"):
            with pytest.raises(MCPError, match=r"No background process|no resource"):
                await client.read_resource(unknown)


@pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
async def test_a_client_with_a_handshake_is_notified_of_what_it_subscribed_to(
    house, serving
) -> None:
    heard = Heard()
    async with Client(serving(), mode="legacy", message_handler=heard) as client:
        capabilities = client.server_capabilities.resources
        assert (capabilities.subscribe, capabilities.list_changed) == (True, True)
        await client.call_tool("bash", {"command": "make"})
        session = house.sessions[0]
        session.start("proc-00000001")
        assert await heard.until(1) == ["notifications/resources/list_changed"]
        session.start("proc-00000002")
        await heard.until(2)
        await client.subscribe_resource(URI)
        session.end("proc-00000002")
        session.end("proc-00000001")
        assert (await heard.until(3))[2:] == ["notifications/resources/updated"]
        await client.unsubscribe_resource(URI)


async def test_a_client_of_the_later_revision_listens(house, serving) -> None:
    async with Client(serving(), mode="auto") as client:
        await client.call_tool("bash", {"command": "make"})
        session = house.sessions[0]
        with anyio.fail_after(LONG_ENOUGH):
            async with client.listen(
                resources_list_changed=True, resource_subscriptions=[URI]
            ) as news:
                session.start("proc-00000001")
                session.end("proc-00000001")
                seen = {await anext(news), await anext(news)}
    assert seen == {ResourcesListChanged(), ResourceUpdated(URI)}


async def test_the_next_result_tells_once_how_a_process_ended(house, serving) -> None:
    async with Client(serving()) as client:
        await client.call_tool("bash", {"command": "make"})
        session = house.sessions[0]
        session.start("proc-00000001")
        during = await client.call_tool("bash", {"command": "ls"})
        session.end("proc-00000001")
        told = await client.call_tool("bash", {"command": "ls"})
        after = await client.call_tool("bash", {"command": "ls"})
    assert [len(result.content) for result in (during, told, after)] == [1, 2, 1]
    text = told.content[1].text
    assert text.startswith("[Background process proc-00000001 has ended with exit code 0.]")
    assert told.structured_content["completions"] == [text]
    assert session.processes.acknowledged == ["proc-00000001"]


async def test_a_result_is_not_lost_when_ends_cannot_be_looked_for(house, serving) -> None:
    async with Client(serving()) as client:
        await client.call_tool("bash", {"command": "make"})
        session = house.sessions[0]
        session.start("proc-00000001")
        session.processes.refusal = ConnectionLost("the worker is gone.")
        result = await client.call_tool("bash", {"command": "ls"})
        assert [part.text for part in result.content] == ["ran ls"]
        session.processes.refusal = None
        session.end("proc-00000001")
        told = await client.call_tool("bash", {"command": "ls"})
        assert len(told.content) == 2
