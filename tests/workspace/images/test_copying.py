"""The child that copies images: what it can do, how it can fail, and that it ends."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest
from PIL import Image

from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.supervisor import Supervisor
from moorage.workspace.images import copying
from moorage.workspace.images.copying import smaller_copy
from moorage.workspace.images.headers import inspect_image
from moorage.workspace.images.picture import MIB, ImageLimits, Picture, UnusableImage

Noise = Callable[..., bytes]
SMALL = ImageLimits(passed_bytes=20_000, sides=(300, 100))
pytestmark = pytest.mark.needs("landlock")


class Copies:
    """Copies of images, by the real program or by one that only stands where it stood."""

    def __init__(
        self, supervisor: Supervisor, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.supervisor = supervisor
        self._patch = monkeypatch
        self.plan = Plan(
            mode=PermissionMode.UNCONFINED,
            writable_roots=(str(self.folder),),
            hidden_paths=(str(self.folder / "hidden"),),
        )

    def plant(self, body: str) -> None:
        """Let something else run in place of the program, as if its decoder were taken over."""
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        (self.folder / "planted.py").write_text(f"import os, sys, time\ndef main():\n{lines}")
        self._patch.syspath_prepend(self.folder)
        self._patch.setattr(copying, "_PROGRAM", "planted")

    async def make(self, data: bytes = b"", limits: ImageLimits = SMALL) -> Picture:
        with anyio.fail_after(20):
            return await smaller_copy(data, limits, self.supervisor, self.plan)

    async def reason(self, data: bytes = b"", limits: ImageLimits = SMALL) -> tuple[str, str]:
        """Return why there is no copy."""
        with pytest.raises(UnusableImage) as caught:
            await self.make(data, limits)
        return caught.value.kind, caught.value.sentence


@pytest.fixture
def copies(supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copies:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "token").write_text("the token")
    return Copies(supervisor, tmp_path, monkeypatch)


async def test_a_copy_is_made_without_a_decoder_in_this_process(
    copies: Copies, noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = noise((400, 200))
    monkeypatch.setitem(sys.modules, "PIL", None)
    picture = await copies.make(data)
    assert picture.is_resized
    assert len(picture.data) <= SMALL.passed_bytes
    assert inspect_image(picture.data) == picture.info
    assert picture.info.width == picture.info.height * 2


async def test_why_there_is_no_copy_comes_from_the_child(copies: Copies, noise: Noise) -> None:
    kind, sentence = await copies.reason(noise((200, 200))[:30_000])
    assert kind == "broken_image"
    assert "cannot be decoded" in sentence


async def test_an_image_that_needs_too_much_memory_is_told(copies: Copies) -> None:
    sheet = io.BytesIO()
    Image.new("L", (8000, 5000)).save(sheet, "PNG", compress_level=1)
    limits = msgspec.structs.replace(SMALL, copy_memory_bytes=128 * MIB)
    kind, sentence = await copies.reason(sheet.getvalue(), limits)
    assert (kind, "128 MiB of memory" in sentence) == ("image_not_copied", True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("sys.exit('no\\x1b[2J luck')", "ended with exit code 1 (no [2J luck)"),
        ("sys.stderr.write('{}'); sys.exit(3)", "ended with exit code 3 ({})"),
        ("print('words')", "not what was asked for"),
        ("os.write(1, b'GIF89a' + bytes((1, 0, 1, 0, 0, 0, 0)))", "not what was asked for"),
        ("while True: os.write(1, bytes(65536))", "not what was asked for"),
    ],
)
async def test_a_child_that_fails_or_lies_gives_no_copy(
    copies: Copies, body: str, words: str
) -> None:
    copies.plant(body)
    kind, sentence = await copies.reason()
    assert kind == "image_not_copied"
    assert words in sentence
    assert sentence.isprintable()


async def test_a_copy_that_takes_too_long_is_ended(copies: Copies) -> None:
    copies.plant("time.sleep(60)")
    limits = msgspec.structs.replace(SMALL, copy_seconds=0.2)
    assert "longer than 0.2 s" in (await copies.reason(limits=limits))[1]


@pytest.mark.parametrize(
    ("body", "name"),
    [("open('{}/written', 'w')", "written"), ("open('{}/hidden/token').read()", "token")],
)
async def test_even_without_confinement_for_commands_the_child_is_confined(
    copies: Copies, body: str, name: str
) -> None:
    copies.plant(body.format(copies.folder))
    kind, sentence = await copies.reason()
    assert kind == "image_not_copied"
    assert "PermissionError" in sentence
    assert name in sentence
    assert not (copies.folder / "written").exists()


async def test_the_child_gets_no_variables_of_the_session(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "the secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/no/libraries")
    copies.plant("sys.exit(','.join(sorted(os.environ)))")
    sentence = (await copies.reason())[1]
    assert "SECRET" not in sentence
    assert "LD_LIBRARY_PATH" in sentence


async def test_cancelling_a_copy_ends_the_child(copies: Copies) -> None:
    pipe = copies.folder / "pipe"
    os.mkfifo(pipe)
    copies.plant(f"open({str(pipe)!r}, 'rb').read()")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(copies.make)
            end = await _writing_end(pipe)
            tasks.cancel_scope.cancel()
    try:
        with pytest.raises(BrokenPipeError):
            os.write(end, b"x")
    finally:
        os.close(end)


async def _writing_end(pipe: Path) -> int:
    """Return a descriptor to write to a pipe, once somebody reads it."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            await anyio.lowlevel.checkpoint()


async def test_without_confinement_there_is_no_copy(copies: Copies, nursery) -> None:
    async with Supervisor(nursery, found_abi=0) as supervisor:
        copies.supervisor = supervisor
        kind, sentence = await copies.reason()
    assert kind == "image_not_copied"
    assert "could not run" in sentence
