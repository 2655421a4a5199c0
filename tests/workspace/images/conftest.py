"""Images that no format makes small, and a supervisor for the program that copies them."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from PIL import Image

from moorage.confine.nursery import Nursery, start_nursery
from moorage.process.spec import SupervisorLimits
from moorage.process.supervisor import Supervisor

Noise = Callable[..., bytes]


@pytest.fixture
def noise() -> Noise:
    """Return a function that makes a PNG of noise."""

    def make(size: tuple[int, int], mode: str = "RGB") -> bytes:
        target = io.BytesIO()
        data = os.urandom(size[0] * size[1] * len(mode))
        Image.frombytes(mode, size, data).save(target, "PNG")
        return target.getvalue()

    return make


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = start_nursery()
    yield nursery
    nursery.close()


@pytest.fixture
async def supervisor(nursery: Nursery) -> AsyncIterator[Supervisor]:
    async with Supervisor(nursery, limits=SupervisorLimits(end_grace_seconds=0.3)) as supervisor:
        yield supervisor
