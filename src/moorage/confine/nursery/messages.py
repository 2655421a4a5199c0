"""What worker, nursery and launcher say to each other, as bytes.

A private vocabulary of one build of Moorage, spoken over socket pairs between processes that one
worker forked; it needs the standard library only and is no part of the wire protocol.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Iterable

Texts = tuple[bytes, ...]


class Kind(IntEnum):
    """What a message is about; the comments name numbers, texts and descriptors."""

    # Worker to nursery.
    LAUNCH = 1
    """(abi); (nonce), then the plan; channel and tombstone. ``call`` is the launcher's number."""
    KILL = 2
    """``call`` is the launcher's number."""
    REMOVE = 3
    """(); (path of a folder that is to go with the worker)."""
    SPARE = 4
    """``call`` is the number of a launcher that ends by itself should the worker be lost."""

    # Worker to launcher.
    BASE = 10
    """(); variables as ``NAME=value``."""
    SPAWN = 11
    """(has cwd, has stdin); argv, variables, (cwd); stdout, stderr, then cwd and stdin.

    With the path of a terminal beside cwd, stdout is that terminal, and the program's own.
    """
    END = 12
    """(grace in ms, kill in ms)."""
    COUNT = 13
    SIGNAL = 14
    """(signal)."""
    CLOSE = 15
    """(grace in ms, kill in ms)."""
    KEEP = 16
    """A call that outlives a lost worker; its log, then what it is printed to."""

    # Launcher to worker.
    READY = 20
    """(pid of who ends last, then device and inode of each granted path)."""
    UNAVAILABLE = 21
    """(); (message, hint)."""
    STARTED = 22
    """(pid)."""
    NOT_STARTED = 23
    """(errno); (what)."""
    EXITED = 24
    """(wait status, whether other descendants may be left)."""
    ENDED = 25
    """(left)."""
    COUNTED = 26
    """(left)."""
    CLOSED = 27
    """(left)."""


class Message(NamedTuple):
    """One message; ``call`` is the number of the call it is about."""

    kind: Kind
    call: int = 0
    numbers: tuple[int, ...] = ()
    texts: tuple[Texts, ...] = ()


_HEADER = struct.Struct("=BQBB")


def encode(message: Message) -> bytes:
    """Return the message as bytes.

    Raises:
        ValueError: a text holds a NUL byte, which no argument, variable or path can.
    """
    numbers, texts = message.numbers, message.texts
    counts = [len(group) for group in texts]
    joined = b"\0".join([text for group in texts for text in group])
    if joined.count(b"\0") != max(sum(counts) - 1, 0):
        raise ValueError("a text holds a NUL byte")
    return b"".join(
        (
            _HEADER.pack(message.kind, message.call, len(numbers), len(counts)),
            struct.pack(f"={len(numbers)}Q{len(counts)}I", *numbers, *counts),
            joined,
        )
    )


def decode(data: bytes) -> Message:
    """Return the message that ``encode`` made."""
    kind, call, number_count, text_count = _HEADER.unpack_from(data)
    layout = f"={number_count}Q{text_count}I"
    fields = struct.unpack_from(layout, data, _HEADER.size)
    numbers, counts = fields[:number_count], fields[number_count:]
    joined = data[_HEADER.size + struct.calcsize(layout) :]
    flat = joined.split(b"\0") if any(counts) else []
    texts: list[Texts] = []
    start = 0
    for count in counts:
        texts.append(tuple(flat[start : start + count]))
        start += count
    return Message(Kind(kind), call, numbers, tuple(texts))


def encode_texts(texts: Iterable[str]) -> Texts:
    """Return texts as the operating system spells them."""
    return tuple(text.encode("utf-8", "surrogateescape") for text in texts)


def decode_texts(texts: Texts) -> tuple[str, ...]:
    """Return texts as Python spells them."""
    return tuple(text.decode("utf-8", "surrogateescape") for text in texts)


def plan_to_texts(plan: Plan) -> tuple[Texts, ...]:
    """Return a plan as the texts of a message."""
    return (encode_texts([plan.mode.value]), *(encode_texts(paths) for paths in plan[1:]))


def plan_from_texts(texts: tuple[Texts, ...]) -> Plan:
    """Return the plan that ``plan_to_texts`` spelled."""
    (mode,), *paths = (decode_texts(group) for group in texts)
    return Plan(PermissionMode(mode), *paths)
