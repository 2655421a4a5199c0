from __future__ import annotations

import anyio

from moorage.workspace.opening.turns import FileTurns


async def test_a_second_writer_waits_for_the_first_and_others_do_not() -> None:
    turns = FileTurns()
    order: list[str] = []

    async def second() -> None:
        await turns.wait("/a")
        order.append("second")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            with turns.hold("/a"):
                group.start_soon(second)
                await anyio.lowlevel.checkpoint()
                await turns.wait("/b")
                order.append("first")
    assert order == ["first", "second"]


async def test_of_many_that_wait_each_gets_its_own_turn() -> None:
    turns = FileTurns()
    inside = 0
    most = 0

    async def work() -> None:
        nonlocal inside, most
        await turns.wait("/a")
        with turns.hold("/a"):
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(work)
    assert most == 1
