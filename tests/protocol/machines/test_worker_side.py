"""The worker's machine holds against any peer."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocol.machines.events import (
    CallbackArrived,
    CancelArrived,
    FrameReady,
    InitializeArrived,
    InputEnded,
    RequestArrived,
)
from moorage.protocol.machines.pin import Pin
from moorage.protocol.machines.state import State
from moorage.protocol.machines.worker_side import WorkerProtocol
from moorage.protocol.methods import METHODS, SERVED_METHODS
from moorage.protocol.tool_calls import ToolCall
from moorage.testing.playbook import BINDING, TOKEN

EVENTS = (
    CallbackArrived | CancelArrived | FrameReady | InitializeArrived | InputEnded | RequestArrived
)

data = st.sampled_from(
    [
        None,
        7,
        [],
        {},
        msgspec.to_builtins(BINDING),
        {"version": 5},
        {"call": {"name": "bash"}, "actor": "a"},
        {"call": {"name": "bash"}},
        {"id": "tool-1", "data": {"content": []}},
        {"id": "tool-1", "error": "no"},
        {"id": "tool-1", "data": 7},
    ]
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "token": st.sampled_from([TOKEN.reveal(), "", "x" * 40, 7]),
        "id": st.sampled_from(["", "1", "2", "tool-1", "x" * 300, None]),
        "method": st.sampled_from([*METHODS, "nothing", "", 3]),
        "data": data,
        "later": st.integers(),
    },
)
lines = st.one_of(requests.map(msgspec.json.encode), st.binary(max_size=30))


def play(worker: WorkerProtocol, event: EVENTS, seen: list[dict[str, Any]]) -> None:
    """Do what a live end would: finish some requests, call a tool for others."""
    match event:
        case FrameReady(frame):
            seen.append(msgspec.json.decode(frame))
        case InitializeArrived(request_id):
            seen.append(msgspec.json.decode(worker.initialized(request_id, "/w")))
        case RequestArrived("1"):
            worker.call_tool("1", ToolCall(name="x"))
        case RequestArrived(request_id):
            seen.append(msgspec.json.decode(worker.reply(request_id, ())))


@given(st.lists(lines, max_size=12), st.integers(1, 60), st.booleans())
def test_no_peer_makes_the_machine_raise_or_answer_outside_the_protocol(
    spoken: list[bytes], step: int, is_open: bool
) -> None:
    worker = WorkerProtocol(Pin(), SERVED_METHODS)
    opening = {
        "token": TOKEN.reveal(),
        "id": "0",
        "method": "initialize",
        "data": msgspec.to_builtins(BINDING),
    }
    wire = b"".join(line + b"\n" for line in [msgspec.json.encode(opening)] * is_open + spoken)
    seen: list[dict[str, Any]] = []
    heard: list[EVENTS] = []
    for start in range(0, len(wire), step):
        for event in worker.receive(wire[start : start + step]):
            heard.append(event)
            play(worker, event, seen)
    heard += worker.receive(b"")
    assert worker.state is State.ENDED
    assert [type(event) for event in heard].count(InputEnded) == 1
    assert isinstance(heard[-1], InputEnded)
    for message in seen:
        assert set(message) in ({"id", "data"}, {"id", "error"})
        assert TOKEN.reveal() not in str(message)
    for request_id in worker.in_flight:
        worker.fail(request_id, ValueError("ended"))
    assert worker.in_flight == ()
