"""Every conversation is held three times: frames whole, byte by byte, and in sevens."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from moorage.testing.playbook import Playbook, Stage

Scene = Callable[..., Playbook]


@pytest.fixture(params=[0, 1, 7], ids=["whole", "bytes", "sevens"])
def scene(request: pytest.FixtureRequest) -> Scene:
    """Return a maker of playbooks; its arguments are fields of the stage."""

    def make(**fields: object) -> Playbook:
        return Playbook(msgspec.structs.replace(Stage(piece_bytes=request.param), **fields))

    return make


@pytest.fixture
def book(scene: Scene) -> Playbook:
    """Return a playbook whose host has not said anything."""
    return scene()
