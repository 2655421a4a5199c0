"""What every answer is held to: honesty about commands, and the rules of calls."""

from __future__ import annotations

import anyio

from moorage.errors import InvalidArguments, UnknownTool
from moorage.testing.conformance.place import Place, names_in
from moorage.testing.conformance.registry import Body, check
from moorage.testing.conformance.seeing import fails, same
from moorage.testing.honesty import PROBES, Probe

_KNOWN = frozenset({"moorage.bytes.v1", "process.start.v1"})


def _honest(name: str, probe: Probe) -> Body:
    async def run(place: Place) -> None:
        async with place.session() as session:
            await probe(session)

    run.__name__, run.__doc__ = name, probe.__doc__
    return run


_MORE_NEEDS = {"raw_bytes_survive": ("bytes",), "text_like_a_marker_is_harmless": ("bytes",)}

for _name, _probe in PROBES.items():
    check("honesty", "commands", *_MORE_NEEDS.get(_name, ()))(_honest(_name, _probe))


@check("calls")
async def many_calls_at_once_get_their_own_answers(place: Place) -> None:
    """Of 16 writes and reads at once each gets the answer to what it asked."""
    async with place.session() as session:
        texts: dict[int, str] = {}

        async def one(number: int) -> None:
            await session.write_file(f"{number}.txt", f"{number}\n")
            texts[number] = (await session.read_file(f"{number}.txt")).text

        async with anyio.create_task_group() as tasks:
            for number in range(16):
                tasks.start_soon(one, number)
        same(texts, {number: f"{number}\n" for number in range(16)}, "the answers")


@check("calls")
async def what_is_no_tool_is_refused(place: Place) -> None:
    """Tools that belong to the host, and those that are none, are refused by name."""
    async with place.session() as session:
        for name in ("notes", "apply_patch", "run_code"):
            with fails(UnknownTool, what=f"the tool {name}"):
                await session.call(name, {})
        same(await names_in(session), [], "the listing afterwards")


@check("calls")
async def malformed_arguments_change_nothing(place: Place) -> None:
    """A path that is a number, and no content at all, are errors that make nothing."""
    async with place.session() as session:
        for arguments in (
            {"path": 7, "content": "x"},
            {"path": "a.txt"},
            {"path": "a.txt", "content": 7},
        ):
            with fails(InvalidArguments, what=f"write_file with {arguments}"):
                await session.call("write_file", arguments)
        same(await names_in(session), [], "the listing afterwards")


@check("calls")
async def only_known_promises_are_made(place: Place) -> None:
    """The capabilities are those of the protocol, and stay the same."""
    async with place.session() as session:
        promised = await session.capabilities()
        same(promised - _KNOWN, frozenset(), "promises that nobody knows")
        same(await session.capabilities(), promised, "the capabilities when asked again")


@check("calls")
async def the_root_is_empty_at_first(place: Place) -> None:
    """A new environment starts with an empty workspace; nothing was copied into it."""
    async with place.session() as session:
        same(await names_in(session), [], "the listing")


@check("calls")
async def an_absolute_path_is_the_same_file(place: Place) -> None:
    """The path of the workspace in front of a name leads to the same file."""
    async with place.session() as session:
        await session.write_file(f"{session.workspace}/a.txt", "one\n")
        same((await session.read_file("a.txt")).text, "one\n", "the text")
