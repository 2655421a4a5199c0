from __future__ import annotations

from collections.abc import Iterator

import pytest

from moorage.confine.nursery import Nursery, start_nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = start_nursery()
    yield nursery
    nursery.close()
