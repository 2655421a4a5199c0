"""Mounted folders of the host: the same files on both sides, and as wide as the profile says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio

from moorage.errors import ExecutionError
from moorage.testing.conformance.place import Place, names_in
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import holds, same


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="moorage-check-") as folder:
        yield Path(folder)


@check("mounts", "mounts")
async def a_mounted_folder_is_the_same_on_both_sides(place: Place) -> None:
    """What the host has put there is read inside, and what is written inside the host has."""
    with _folder() as folder:
        await anyio.Path(folder / "a.txt").write_text("by the host\n")
        async with place.session({"host_workspace": str(folder)}) as session:
            same((await session.read_file("a.txt")).text, "by the host\n", "what is read inside")
            await session.write_file("b.txt", "from inside\n")
        seen = await anyio.Path(folder / "b.txt").read_text()
        same(seen, "from inside\n", "what the host reads")


@check("mounts", "mounts", "commands")
async def a_mounted_folder_keeps_its_owner(place: Place) -> None:
    """Files that tools and commands make in a mounted folder belong to its owner."""
    with _folder() as folder:
        async with place.session({"host_workspace": str(folder)}) as session:
            await session.write_file("a.txt", "x")
            await session.run("echo x > b.txt")
        owners = {
            name: (await anyio.Path(folder / name).stat()).st_uid for name in ("a.txt", "b.txt")
        }
        wanted = (await anyio.Path(folder).stat()).st_uid
        same(owners, dict.fromkeys(owners, wanted), "the owners")


@check("mounts", "mounts")
async def a_mounted_folder_is_shared_whatever_is_said(place: Place) -> None:
    """Two sessions with the same mount see the same files, also when the profile shares nothing."""
    with _folder() as folder:
        changes = {"host_workspace": str(folder)}
        async with place.session(changes) as one, place.session(changes) as other:
            await one.write_file("a.txt", "one\n")
            same((await other.read_file("a.txt")).text, "one\n", "what the other reads")


@check("mounts", "mounts", "commands", "unconfined")
async def a_mount_for_reading_is_not_written(place: Place) -> None:
    """With ``mount_read_only`` nothing is written there, in unconfined mode as well."""
    with _folder() as folder:
        await anyio.Path(folder / "a.txt").write_text("one\n")
        changes = {"host_workspace": str(folder), "mount_read_only": True}
        async with place.session(changes, mode="unconfined") as session:
            same((await session.run("cat a.txt")).stdout, "one\n", "what is read")
            ran = await session.run("echo two > a.txt")
            holds(ran.exit_code != 0, "a command wrote the mount")
            with suppress(ExecutionError):
                await session.write_file("b.txt", "x")
            same(await names_in(session), ["a.txt"], "the listing")
        same(await anyio.Path(folder / "a.txt").read_text(), "one\n", "what the host has")
