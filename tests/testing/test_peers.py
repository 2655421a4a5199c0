"""Hand-written peers say and hear whole frames."""

from __future__ import annotations

import anyio
import pytest

from moorage.testing.peers import ScriptedHost, ScriptedPeer, ScriptedWorker
from moorage.testing.playbook import TOKEN
from moorage.transports.memory import memory_pair


async def test_two_scripted_peers_understand_each_other() -> None:
    one, other = memory_pair()
    host, worker = ScriptedHost(one), ScriptedWorker(other)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.accept, ("a.v1",))
            reply = await host.open()
        assert reply["data"] == {"version": 4, "root": "/workspace", "capabilities": ["a.v1"]}
        await host.ask("1", "process/list")
        assert await worker.hear() == {
            "token": TOKEN.reveal(),
            "id": "1",
            "method": "process/list",
            "data": None,
        }


async def test_the_end_of_the_other_side_is_an_end_of_file() -> None:
    one, other = memory_pair()
    await other.aclose()
    with pytest.raises(EOFError):
        await ScriptedPeer(one).hear()
