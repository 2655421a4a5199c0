from __future__ import annotations

import anyio
import pytest

from moorage.host import events
from moorage.host.events import EventFeed
from moorage.host.results import FileChange

CHANGE = FileChange(action="create", path="a")


async def test_every_open_reader_gets_every_event_in_order() -> None:
    feed = EventFeed()
    feed.announce_change(CHANGE)
    async with feed.open() as first, feed.open() as second:
        feed.announce_change(CHANGE)
        feed.announce_change(CHANGE)
        for reader in (first, second):
            assert [(await reader.receive()).sequence for _ in range(2)] == [2, 3]


async def test_a_reader_that_lags_too_far_sees_the_gap_in_the_sequence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "BUFFER", 1)
    feed = EventFeed()
    with anyio.fail_after(5):
        async with feed.open() as reader:
            feed.announce_change(CHANGE)
            feed.announce_change(CHANGE)
            assert (await reader.receive()).sequence == 1
            feed.announce_change(CHANGE)
            assert (await reader.receive()).sequence == 3
