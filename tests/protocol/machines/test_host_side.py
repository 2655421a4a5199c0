"""The host's machine holds against any peer."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocol.machines.events import InputEnded, ReplyArrived, ToolCallArrived
from moorage.protocol.machines.host_side import HostProtocol
from moorage.protocol.machines.state import State
from moorage.protocol.tool_calls import ExecuteRequest, ToolCall, ToolResult
from moorage.testing.playbook import BINDING, TOKEN

REQUEST = ExecuteRequest(call=ToolCall(name="bash"), actor="a")

messages = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["", "1", "2", "3", "99", "x" * 300, None]),
        "method": st.sampled_from(["", "tool", "process", "execute", "later", 3]),
        "parent_id": st.sampled_from(["", "2", "99"]),
        "data": st.sampled_from(
            [
                None,
                7,
                [],
                {},
                {"version": 4, "root": "/w"},
                {"version": 5, "root": "/w"},
                {"content": []},
                {"content": 7},
                {"name": "read_file"},
                {"Type": "started", "Process": {}},
            ]
        ),
        "error": st.sampled_from(["", "broken", "refused/x: no", 7]),
        "sequence": st.sampled_from([0, 1, 5, -1, "x"]),
    },
)
lines = st.one_of(messages.map(msgspec.json.encode), st.binary(max_size=30))


@given(st.lists(lines, max_size=12), st.integers(1, 60), st.booleans())
def test_no_peer_makes_the_machine_raise_or_answer_one_request_twice(
    spoken: list[bytes], step: int, is_open: bool
) -> None:
    host = HostProtocol(TOKEN)
    host.initialize(BINDING)
    if is_open:
        host.receive(b'{"id":"1","data":{"version":4,"root":"/w"}}\n')
        host.request("execute", REQUEST)
        host.request("process/list", None)
    wire = b"".join(line + b"\n" for line in spoken)
    heard = []
    for start in range(0, len(wire), step):
        for event in host.receive(wire[start : start + step]):
            heard.append(event)
            if isinstance(event, ToolCallArrived):
                host.answer(event.callback_id, ToolResult())
    heard += host.receive(b"")
    assert host.state is State.ENDED
    assert isinstance(heard[-1], InputEnded)
    answered = [event.request_id for event in heard if isinstance(event, ReplyArrived)]
    assert len(answered) == len(set(answered))
    assert not set(answered) & set(host.in_flight)
    for request_id in host.in_flight:
        host.cancel(request_id)
    assert host.in_flight == ()
