"""Bytes and artifacts: of any size, of every value, and home unchanged."""

from __future__ import annotations

import secrets

import anyio

from moorage.errors import Refused, ToolFailed
from moorage.testing.conformance.place import Place
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import fails, holds, nothing_there, same

EVERY_BYTE = bytes(range(256)) * 16
LARGE_BYTES = 9 * 1024 * 1024 + 17
PIECE_BYTES = 1024 * 1024


@check("bytes", "bytes")
async def every_byte_survives(place: Place) -> None:
    """A file of all byte values comes back as it was written."""
    async with place.session() as session:
        await session.write_bytes("all.bin", EVERY_BYTE)
        same(await session.read_bytes("all.bin"), EVERY_BYTE, "the bytes")


@check("bytes", "bytes")
async def megabytes_survive(place: Place) -> None:
    """A file of 9 MiB and some bytes makes the way there and back."""
    data = secrets.token_bytes(LARGE_BYTES)
    async with place.session() as session:
        await session.write_bytes("large.bin", data)
        same(await session.read_bytes("large.bin"), data, "the bytes")


@check("bytes", "bytes")
async def pieces_are_small_and_whole_together(place: Place) -> None:
    """A file that is read in pieces has none above 1 MiB, and together they are the file."""
    data = secrets.token_bytes(3 * PIECE_BYTES + 5)
    async with place.session() as session:
        await session.write_bytes("large.bin", data)
        pieces = [piece async for piece in session.read_pieces("large.bin")]
        holds(max(map(len, pieces)) <= PIECE_BYTES, "a piece is larger than 1 MiB")
        same(b"".join(pieces), data, "the pieces together")


@check("bytes", "bytes")
async def no_bytes_are_a_file_too(place: Place) -> None:
    """An empty file is written and read."""
    async with place.session() as session:
        await session.write_bytes("empty", b"")
        same(await session.read_bytes("empty"), b"", "the bytes")


@check("bytes", "bytes")
async def bytes_replace_a_whole_file(place: Place) -> None:
    """Fewer bytes than before leave nothing of the old ones."""
    async with place.session() as session:
        await session.write_bytes("a.bin", b"x" * 100_000)
        await session.write_bytes("a.bin", b"short")
        same(await session.read_bytes("a.bin"), b"short", "the bytes")


@check("bytes", "bytes")
async def bytes_and_text_are_the_same_file(place: Place) -> None:
    """What is written as bytes is read as text, and the other way round."""
    async with place.session() as session:
        await session.write_bytes("a.txt", "zäh\r\n".encode())
        same((await session.read_file("a.txt")).text, "zäh\r\n", "the text")
        await session.write_file("b.txt", "weich\r\n")
        same(await session.read_bytes("b.txt"), b"weich\r\n", "the bytes")


@check("bytes", "bytes")
async def bytes_of_a_missing_file_are_an_error(place: Place) -> None:
    """What is not there has no bytes, not even none."""
    async with place.session() as session:
        with fails(ToolFailed, what="a missing file"):
            await session.read_bytes("nowhere")


@check("bytes", "bytes")
async def bytes_stay_inside(place: Place) -> None:
    """Neither reading nor writing bytes leaves the workspace."""
    async with place.session(mode="standard") as session:
        with fails(Refused, what="writing ../x"):
            await session.write_bytes("../x", b"x")
        with fails(Refused, what="reading /etc/passwd"):
            await session.read_bytes("/etc/passwd")


@check("bytes", "bytes")
async def bytes_are_not_written_in_read_only(place: Place) -> None:
    """The mode for reading holds for bytes as well."""
    async with place.session(mode="read_only") as session:
        with fails(Refused, what="writing bytes"):
            await session.write_bytes("a.bin", b"x")
        await nothing_there(session, "a.bin")


@check("exports", "artifacts")
async def an_artifact_is_the_file(place: Place) -> None:
    """A published file arrives with its name, its size and its bytes."""
    async with place.session() as session:
        await session.write_file("out/a.txt", "zäh\n")
        artifact = await session.present_artifact("out/a.txt")
        same((artifact.name, artifact.size_bytes), ("a.txt", 5), "the artifact")
        same(await anyio.Path(artifact.path).read_bytes(), "zäh\n".encode(), "the bytes")


@check("exports", "artifacts")
async def an_artifact_does_not_change(place: Place) -> None:
    """Changing the source afterwards changes nothing of the copy."""
    async with place.session() as session:
        await session.write_file("a.txt", "one\n")
        artifact = await session.present_artifact("a.txt")
        await session.write_file("a.txt", "two\n")
        same(await anyio.Path(artifact.path).read_bytes(), b"one\n", "the copy")


@check("exports", "artifacts", "bytes")
async def an_artifact_of_megabytes_arrives(place: Place) -> None:
    """A binary file of 9 MiB and some bytes arrives whole."""
    data = secrets.token_bytes(LARGE_BYTES)
    async with place.session() as session:
        await session.write_bytes("large.bin", data)
        artifact = await session.present_artifact("large.bin")
        same(artifact.size_bytes, LARGE_BYTES, "the size")
        same(await anyio.Path(artifact.path).read_bytes(), data, "the bytes")


@check("exports", "artifacts")
async def an_artifact_of_nothing_arrives(place: Place) -> None:
    """An empty file can be published."""
    async with place.session() as session:
        await session.write_file("empty", "")
        artifact = await session.present_artifact("empty")
        same(artifact.size_bytes, 0, "the size")
        same(await anyio.Path(artifact.path).read_bytes(), b"", "the bytes")


@check("exports", "artifacts")
async def what_is_no_file_is_not_published(place: Place) -> None:
    """A missing file, a folder and a file outside are errors."""
    async with place.session(mode="standard") as session:
        await session.write_file("folder/a.txt", "x")
        for path in ("nowhere", "folder"):
            with fails(ToolFailed, what=f"publishing {path}"):
                await session.present_artifact(path)
        with fails(Refused, what="publishing /etc/passwd"):
            await session.present_artifact("/etc/passwd")
