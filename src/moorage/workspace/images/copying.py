"""A smaller copy of an image, made by ``program`` in a confined child; nothing is decoded here.

What the child prints is believed only as far as our own reading of headers bears it out.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

import anyio
import msgspec
from anyio import to_thread

from moorage.errors import ConfinementUnavailable, EnvironmentDied, ProvisionError
from moorage.process.reading import read_program
from moorage.process.spec import ProgramSpec
from moorage.workspace.images.headers import inspect_image
from moorage.workspace.images.picture import ImageLimits, Picture, UnusableImage
from moorage.workspace.images.program import EXPLAINED, CopyRequest, Explanation
from moorage.workspace.own_program import loader_variables, own_argv, reading_plan

if TYPE_CHECKING:
    from moorage.confine.plan import Plan
    from moorage.process.reading import ProgramEnd
    from moorage.process.supervisor import Supervisor

_PROGRAM = "moorage.workspace.images.program"
_KINDS = ("image/jpeg", "image/png")


async def smaller_copy(
    data: bytes, limits: ImageLimits, supervisor: Supervisor, plan: Plan
) -> Picture:
    """Return a smaller copy of an image; the child may read what ``plan`` lets, and write nothing.

    Raises:
        UnusableImage: there is no copy; the sentence says why.
        OSError: the system gives no memory or descriptor to hold the image for the child.
    """
    request = CopyRequest(
        passed_bytes=limits.passed_bytes, sides=limits.sides, memory_bytes=limits.copy_memory_bytes
    )
    # The very bytes that were looked at, and not the file, which may have changed since.
    with os.fdopen(os.memfd_create("moorage-image"), "w+b") as held:
        await to_thread.run_sync(_hold, held, data)
        spec = ProgramSpec(
            argv=own_argv(_PROGRAM, msgspec.json.encode(request).decode()),
            plan=reading_plan(plan),
            cwd="/",
            variables=loader_variables(),
            stdin_fd=held.fileno(),
            label="image",
        )
        copy = await _output(supervisor, spec, limits)
    return _checked(copy, limits)


def _hold(held: IO[bytes], data: bytes) -> None:
    held.write(data)
    held.seek(0)


async def _output(supervisor: Supervisor, spec: ProgramSpec, limits: ImageLimits) -> bytes:
    copy = bytearray()

    async def take(chunk: bytes) -> bool:
        copy.extend(chunk)
        return len(copy) > limits.passed_bytes

    try:
        with anyio.move_on_after(limits.copy_seconds):
            end = await read_program(supervisor, spec, take)
            if not end.is_stopped and end.status.exit_code != 0:
                raise _reason(end)
            return bytes(copy)
    except (ConfinementUnavailable, EnvironmentDied, ProvisionError) as error:
        raise UnusableImage(
            "image_not_copied", f"the program that makes a smaller copy could not run: {error}"
        ) from error
    raise UnusableImage(
        "image_not_copied",
        f"making a smaller copy took longer than {limits.copy_seconds:g} s and was ended",
    )


def _reason(end: ProgramEnd) -> UnusableImage:
    """Return why a program that failed made no copy."""
    if end.status.exit_code == EXPLAINED:
        try:
            told = msgspec.json.decode(end.last_words, type=Explanation)
        except msgspec.DecodeError:
            pass  # its exit code is told below
        else:
            return UnusableImage(told.kind, _printable(told.sentence))
    return UnusableImage(
        "image_not_copied", f"the program that makes a smaller copy {_printable(end.description)}"
    )


def _checked(copy: bytes, limits: ImageLimits) -> Picture:
    """Return the copy when it is what was asked for, whatever the child says it is."""
    try:
        info = inspect_image(copy)
    except UnusableImage:
        info = None
    is_fine = info is not None and info.media_type in _KINDS and len(copy) <= limits.passed_bytes
    if info is None or not is_fine or max(info.width, info.height) > max(limits.sides):
        raise UnusableImage(
            "image_not_copied", "what should be a smaller copy of it is not what was asked for"
        )
    return Picture(data=copy, info=info, is_resized=True)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
