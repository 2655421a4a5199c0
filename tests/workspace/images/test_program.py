from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

import msgspec
import pytest

from moorage.workspace.images import program
from moorage.workspace.images.headers import inspect_image
from moorage.workspace.images.picture import MIB, UnusableImage
from moorage.workspace.images.program import CopyRequest, Explanation, main, smaller_copy

Noise = Callable[..., bytes]


def asked(passed_bytes: int, *sides: int) -> CopyRequest:
    return CopyRequest(passed_bytes=passed_bytes, sides=sides, memory_bytes=256 * MIB)


def test_a_large_image_is_made_smaller(noise: Noise) -> None:
    copy = smaller_copy(noise((400, 200)), asked(20_000, 300, 100))
    assert len(copy) <= 20_000
    info = inspect_image(copy)
    assert info.media_type == "image/jpeg"
    assert info.width == info.height * 2


def test_a_large_image_that_can_be_seen_through_stays_so(noise: Noise) -> None:
    info = inspect_image(smaller_copy(noise((200, 200), "RGBA"), asked(50_000, 100)))
    assert (info.media_type, info.width, info.height) == ("image/png", 100, 100)


def test_an_image_that_stays_too_large_is_refused(noise: Noise) -> None:
    with pytest.raises(UnusableImage) as caught:
        smaller_copy(noise((200, 200)), asked(100, 150))
    assert caught.value.kind == "image_too_large"


def test_without_pillow_a_large_image_names_what_to_install(
    noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = noise((50, 50))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnusableImage) as caught:
        smaller_copy(data, asked(100))
    assert caught.value.kind == "image_needs_pillow"
    assert "moorage[images]" in caught.value.sentence


def test_an_image_that_cannot_be_decoded_is_told(noise: Noise) -> None:
    with pytest.raises(UnusableImage) as caught:
        smaller_copy(noise((50, 50))[:4000], asked(100))
    assert caught.value.kind == "broken_image"


class Ended(Exception):
    """The program would have ended here."""


class Stage:
    """The standard streams of the program, and its end, without a process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.limits: list[int] = []
        self.complaint = b""
        self.output = io.BytesIO()

    def run(self, data: bytes, request: CopyRequest) -> int:
        """Run the program, and return its exit code."""
        arguments = ["-c", msgspec.json.encode(request).decode()]
        self._patch.setattr(sys, "argv", arguments)
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        self._patch.setattr(program.resource, "setrlimit", lambda kind, _: self.limits.append(kind))
        self._patch.setattr(program, "open", lambda *_, **__: self, raising=False)
        self._patch.setattr(os, "write", self._complain)
        self._patch.setattr(os, "_exit", self._end)
        with pytest.raises(Ended) as caught:
            main()
        code: int = caught.value.args[0]
        return code

    def __enter__(self) -> io.BytesIO:
        return self.output

    def __exit__(self, *_: object) -> None:
        pass

    def _complain(self, fd: int, text: bytes) -> int:
        assert fd == 2
        self.complaint += text
        return len(text)

    def _end(self, code: int) -> None:
        raise Ended(code)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_the_program_limits_its_memory_and_prints_the_copy(stage: Stage, noise: Noise) -> None:
    assert stage.run(noise((200, 100)), asked(20_000, 100)) == 0
    assert program.resource.RLIMIT_AS in stage.limits
    assert inspect_image(stage.output.getvalue()).width == 100


def test_the_program_explains_in_one_line_why_there_is_no_copy(stage: Stage, noise: Noise) -> None:
    assert stage.run(noise((50, 50)), asked(10, 40)) == program.EXPLAINED
    last = stage.complaint.rpartition(b"\n")[2]
    assert msgspec.json.decode(last, type=Explanation).kind == "image_too_large"


def test_the_program_says_so_when_memory_runs_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(program, "smaller_copy", fail)
    assert stage.run(b"", asked(10)) == program.EXPLAINED
    assert b"more than 256 MiB of memory" in stage.complaint
