"""Environments against their own command lines: Docker and SSH, where they can be had.

``MOORAGE_E2E_IMAGE`` names an image, and ``MOORAGE_E2E_SSH`` is a profile as JSON; without them the
rows say so.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

import moorage
from benchmarks.memory import own_growth, proportional_bytes
from benchmarks.place import Place, timed
from benchmarks.rows import MS, Row, at_most, mebibytes, median_ms, ratio
from moorage.backends.bundle import find_bundle
from moorage.host.session import Session

OPENINGS = 7
CALLS = 100
BYTES = 10_000_000
BYTE_ROUNDS = 5
ARTIFACT_BYTES = 256 * 2**20
CROWD = 20
MULTIPLEXED = ("-o", "ControlMaster=auto", "-o", "ControlPersist=60")

Opener = Callable[..., AbstractAsyncContextManager[Session]]


async def rows(place: Place) -> AsyncIterator[Row]:
    """Measure what can be reached, or say why not."""
    yield _bundle()
    image = os.environ.get("MOORAGE_E2E_IMAGE", "")
    if image:
        async for row in _docker(place, image):
            yield row
    else:
        yield Row(figure="Docker", measured="not measured: MOORAGE_E2E_IMAGE names no image")
    profile = os.environ.get("MOORAGE_E2E_SSH", "")
    if profile:
        async for row in _ssh(place, json.loads(profile)):
            yield row
    else:
        yield Row(figure="SSH", measured="not measured: MOORAGE_E2E_SSH is no profile")


def opener(place: Place, name: str, profile: dict[str, Any]) -> Opener:
    """Return what opens sessions of a profile in a home of their own."""
    home = place.root / f"home-{name}"
    home.mkdir()
    document = {"execution_environments": {"default": "there", "profiles": {"there": profile}}}
    (home / "config.json").write_text(json.dumps(document))

    @asynccontextmanager
    async def open_one(**options: Any) -> AsyncIterator[Session]:
        async with moorage.open_session(home=home, **options) as session:
            yield session

    return open_one


# Docker.


async def _docker(place: Place, image: str) -> AsyncIterator[Row]:
    profile = {"backend": "docker", "image": image, "network": "none"}
    once = opener(place, "once", profile)
    async with once() as session:
        await session.run("true")
    opened, bare = [], []
    for _ in range(OPENINGS):
        opened.append(await _first_result(once))
        bare.append(_timed_program("docker", "run", "--rm", "--network=none", image, "true"))
    yield ratio("open in Docker to first result, over docker run --rm", opened, bare, 1.5)
    async for row in _kept(place, profile):
        yield row
    async with once() as session:
        async for row in _one_container(session, place.root):
            yield row
    yield await _crowd(once)


async def _kept(place: Place, profile: dict[str, Any]) -> AsyncIterator[Row]:
    kept = opener(place, "kept", profile | {"shared": True})
    try:
        async with kept(name="first") as first:
            await first.run("true")
            container = first._environment.placement.identity  # noqa: SLF001 - to be removed
            again = [await _first_result(kept, session_id="first") for _ in range(OPENINGS)]
            yield at_most("open in Docker, its worker is there", again, 400)
            second = [await _first_result(kept) for _ in range(OPENINGS)]
            yield at_most("a second session on a kept container", second, 300)
    finally:
        _timed_program("docker", "rm", "--force", container)


async def _one_container(session: Session, folder: Path) -> AsyncIterator[Row]:
    await session.run("true")
    container = session._environment.placement.identity  # noqa: SLF001 - the bare thing needs it
    ours = [await timed(lambda: session.run("true")) for _ in range(CALLS)]
    bare = [_timed_program("docker", "exec", container, "true") for _ in range(OPENINGS)]
    yield ratio("run in Docker, over docker exec", ours, bare, 0.05)
    yield at_most("run in Docker", ours, 5)
    async for row in _bytes(session):
        yield row
    await session.run(f"head -c {ARTIFACT_BYTES} /dev/urandom > artifact")
    growth = own_growth()
    seconds = await timed(lambda: session.present_artifact("artifact"))
    yield _speed("256 MiB artifact home from a container", ARTIFACT_BYTES, [seconds], 100)
    yield mebibytes("256 MiB artifact, growth of the host", growth.peak_bytes(), 64)


async def _bytes(session: Session) -> AsyncIterator[Row]:
    data = os.urandom(BYTES)
    written = [await timed(lambda: session.write_bytes("blob", data)) for _ in range(BYTE_ROUNDS)]
    read = [await timed(lambda: session.read_bytes("blob")) for _ in range(BYTE_ROUNDS)]
    if await session.read_bytes("blob") != data:
        raise RuntimeError("other bytes came back")
    yield _speed("write_bytes of 10 MB", BYTES, written, 80)
    yield _speed("read_bytes of 10 MB", BYTES, read, 80)


async def _crowd(once: Opener) -> Row:
    answers: set[str] = set()
    sizes: list[int] = []
    there = anyio.Event()

    async def use(number: int) -> None:
        async with once() as session:
            answers.add((await session.run(f"echo {number}")).stdout)
            if len(answers) == CROWD:
                sizes.append(proportional_bytes(os.getpid()))
                there.set()
            await there.wait()

    async with anyio.create_task_group() as tasks:
        for number in range(CROWD):
            tasks.start_soon(use, number)
    return mebibytes(f"{CROWD} Docker sessions at once, the host (PSS)", sizes[0], 150)


# SSH.


async def _ssh(place: Place, profile: dict[str, Any]) -> AsyncIterator[Row]:
    there = opener(place, "ssh", profile)
    argv = ["ssh", "-T", *MULTIPLEXED, "-o", f"ControlPath={place.root}/%C"]
    argv += ["-p", str(profile["port"])] if profile.get("port") else []
    argv += ["-i", profile["identity_file"]] if profile.get("identity_file") else []
    if profile.get("known_hosts_file"):
        argv += ["-o", f"UserKnownHostsFile={profile['known_hosts_file']}"]
    argv += [profile["host"], "true"]
    async with there() as session:
        await session.run("true")
        ours = [await timed(lambda: session.run("true")) for _ in range(CALLS)]
        _timed_program(*argv)
        bare = [_timed_program(*argv) for _ in range(OPENINGS)]
        yield ratio("run over SSH, over ssh that is multiplexed", ours, bare, 0.05)
        yield at_most("run over SSH", ours, 6)


# What both need.


async def _first_result(open_one: Opener, **options: Any) -> float:
    """Return how long it takes from the opening to the first result; closing is not counted."""
    started = time.perf_counter()
    async with open_one(**options) as session:
        await session.run("true")
        return time.perf_counter() - started


def _timed_program(*argv: str) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - started


def _speed(figure: str, size: int, seconds: list[float], bar: float) -> Row:
    speed = size / 1e6 / (median_ms(seconds) / MS)
    return Row(
        figure=figure,
        measured=f"{speed:.0f} MB/s",
        bar=f">= {bar:g} MB/s",
        is_met=speed >= bar,
        values={"mb_per_s": speed},
    )


def _bundle() -> Row:
    size = find_bundle().archive.stat().st_size
    return mebibytes("portable worker, packed", size, 25)
