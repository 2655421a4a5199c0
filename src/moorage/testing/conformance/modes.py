"""The three permission modes: what each allows, and that nothing else has an effect."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from moorage.errors import ConfigError, ExecutionError, Refused
from moorage.host.session import Session
from moorage.testing.conformance.place import Place, names_in
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import fails, holds, nothing_there, same


@asynccontextmanager
async def _outside(session: Session) -> AsyncIterator[str]:
    """Give a path beside the workspace; what a broken boundary lets be written there is removed."""
    path = f"/tmp/moorage-check-{secrets.token_hex(6)}"  # noqa: S108 - nobody can guess the name
    try:
        yield path
    finally:
        with suppress(ExecutionError):
            await session.run(f"rm -f {path}")


async def _writes(session: Session, path: str) -> bool:
    """Return whether a command can write there; it may be refused, or run and fail."""
    try:
        return (await session.run(f"echo two > {path}")).exit_code == 0
    except Refused:
        return False


@check("modes", "commands", "confinement")
async def a_standard_command_writes_only_inside(place: Place) -> None:
    """A confined command writes the workspace and nothing beside it, whoever it runs as."""
    async with place.session(mode="standard") as session, _outside(session) as outside:
        ran = await session.run(
            f"echo x > in; echo x > {outside}; echo x > ../x; test -e {outside}"
        )
        same((await session.read_file("in")).text, "x\n", "the file inside")
        holds(ran.exit_code != 0, f"{outside} was written")
        beside = await session.run("test -e ../x")
        holds(beside.exit_code != 0, "the file beside the workspace was written")


@check("modes", "commands", "confinement")
async def a_standard_command_changes_nothing_of_the_system(place: Place) -> None:
    """System files can be read by a confined command and not be changed, also not by root."""
    async with place.session(mode="standard") as session:
        ran = await session.run("test -r /etc/passwd && echo readable; : >> /etc/passwd")
        same(ran.stdout, "readable\n", "reading")
        holds(ran.exit_code != 0, "/etc/passwd was changed")


@check("modes", "commands", "confinement", "processes")
async def a_background_command_is_confined_too(place: Place) -> None:
    """What runs in the background is held by the same boundary."""
    async with place.session(mode="standard") as session, _outside(session) as outside:
        command = f"echo x > in; echo x > {outside} || echo refused"
        record = await session.processes.start(command, tty=False)
        windows = [each async for each in session.processes.follow(record.id)]
        text = "".join(each.output for each in windows)
        holds("refused" in text, f"{outside} was written: {text}")
        same((await session.read_file("in")).text, "x\n", "the file inside")


@check("modes")
async def read_only_tools_change_nothing(place: Place) -> None:
    """In read-only mode a write is refused, reads work, and nothing is there afterwards."""
    async with place.session(mode="read_only") as session:
        with fails(Refused, what="writing"):
            await session.write_file("a.txt", "x")
        same(await names_in(session), [], "the listing")


@check("modes", "commands", "confinement")
async def read_only_commands_change_nothing(place: Place) -> None:
    """In read-only mode a command that reads runs, and one that writes has no effect."""
    async with place.session(mode="read_only") as session, _outside(session) as outside:
        same((await session.run("ls")).exit_code, 0, "the exit code of ls")
        for path in ("a", outside):
            holds(not await _writes(session, path), f"a command wrote {path}")
        await nothing_there(session, "a")


@check("modes", "commands", "unconfined")
async def unconfined_commands_are_not_held(place: Place) -> None:
    """In unconfined mode a command writes beside the workspace, and a tool reads it there."""
    async with place.session(mode="unconfined") as session, _outside(session) as outside:
        ran = await session.run(f"echo x > {outside} && cat {outside}")
        same((ran.stdout, ran.exit_code), ("x\n", 0), "the result")
        same((await session.read_file(outside)).text, "x\n", "what the tool reads")


@check("modes", "commands", "unconfined")
async def unconfined_tools_are_not_held(place: Place) -> None:
    """In unconfined mode a tool writes beside the workspace, and a command reads it there."""
    async with place.session(mode="unconfined") as session, _outside(session) as outside:
        await session.write_file(outside, "x\n")
        ran = await session.run(f"cat {outside}")
        same(ran.stdout, "x\n", "what the command reads")


@check("modes")
async def an_unknown_mode_is_refused(place: Place) -> None:
    """A mode that is none opens nothing, and is not taken for another one."""
    with fails(ConfigError, what="the mode 'everything'"):
        async with place.session(mode="everything") as session:
            await session.list_files()


@check("modes", "commands", "confinement")
async def a_conversation_beside_it_changes_nothing(place: Place) -> None:
    """``session.side()`` sees the same files and can write none, with tools or commands."""
    async with place.session(mode="standard") as session:
        await session.write_file("a.txt", "one\n")
        side = session.side()
        same((await side.read_file("a.txt")).text, "one\n", "what it reads")
        with fails(Refused, what="writing beside"):
            await side.write_file("a.txt", "two\n")
        holds(not await _writes(side, "a.txt"), "a command beside wrote")
        same((await session.read_file("a.txt")).text, "one\n", "the file")


@check("modes", "commands", "confinement")
async def the_result_says_how_it_was_confined(place: Place) -> None:
    """The envelope of a confined command says how far the confinement was enforced."""
    async with place.session(mode="standard") as session:
        ran = await session.run("true")
        told = (ran.envelope.get("sandbox") or {}).get("enforcement")
        same(told, "full", "the enforcement that the result tells")
