"""Whatever a worker says, the host answers with a result or with one of Moorage's own errors."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.backends.backend import Placement
from moorage.backends.profile import LOCAL
from moorage.errors import (
    ExecutionError,
    InvalidArguments,
    RemoteProtocolViolation,
    ToolFailed,
    UnknownTool,
)
from moorage.host.environments import Environment
from moorage.host.record import CallLog, read_calls
from moorage.host.session import Session
from moorage.host.session_store import Selection
from moorage.policy.permission import PermissionMode
from moorage.protocol.binding import BYTES
from moorage.testing.peers import ScriptedWorker
from moorage.transports.memory import memory_pair
from moorage.transports.transport import Transport

Replies = dict[str, Any]
Ask = Callable[[Session], Awaitable[Any]]

ASKS: dict[str, Ask] = {
    "run": lambda session: session.run("true", input=b"x"),
    "read_file": lambda session: session.read_file("a"),
    "write_file": lambda session: session.write_file("a", "b"),
    "edit_file": lambda session: session.edit_file("a", "b", "c"),
    "list_files": lambda session: session.list_files(),
    "grep": lambda session: session.grep("a"),
    "glob": lambda session: session.glob("*"),
    "git": lambda session: session.git("status"),
    "present_artifact": lambda session: session.present_artifact("a"),
    "read_bytes": lambda session: session.read_bytes("a"),
    "write_bytes": lambda session: session.write_bytes("a", b"x"),
}


class HostileBackend:
    """Reaches a worker that answers each method with what the test says."""

    name = "local"

    def __init__(self, replies: Replies, tasks: anyio.abc.TaskGroup) -> None:
        self.replies = replies
        self.tasks = tasks
        self.heard: list[str] = []

    def keeps_worker(self, _: Placement) -> bool:
        return False

    def root(self, placement: Placement) -> str:
        return placement.workspace

    async def open_transport(self, _: Placement) -> Transport:
        host_side, worker_side = memory_pair(64 * 1024)
        self.tasks.start_soon(self._answer, ScriptedWorker(worker_side))
        return host_side

    async def end_worker(self, placement: Placement) -> None:
        pass

    async def release(self, placement: Placement) -> None:
        pass

    async def _answer(self, worker: ScriptedWorker) -> None:
        await worker.accept((BYTES,))
        while True:
            try:
                request = await worker.hear()
            except EOFError:
                return await worker.transport.aclose()
            self.heard.append(request["method"])
            reply = self.replies.get(request["method"], {})
            await worker.say(id=request["id"], data=reply)


@asynccontextmanager
async def session_with(replies: Replies) -> AsyncIterator[tuple[Session, HostileBackend, Path]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        selection = Selection(
            id="s-1",
            environment="local",
            workspace="/srv/work",
            mode=PermissionMode.STANDARD,
            created_at=datetime.now(UTC),
        )
        placement = Placement(
            identity="moorage-1",
            session="s-1",
            profile=LOCAL,
            workspace="/srv/work",
            mode=PermissionMode.STANDARD,
            worker_state=folder,
            host_state=folder / "environment",
        )
        log = CallLog(folder / "record.ndjson")
        async with anyio.create_task_group() as tasks:
            backend = HostileBackend(replies, tasks)
            environment = Environment(backend, placement, tasks)
            keeper = SimpleNamespace(regrant=lambda selection, *_: (selection, placement))
            session = Session(selection, environment, log, folder, keeper=keeper, tasks=tasks)
            yield session, backend, folder
            await environment.aclose()
        log.close()


async def outcome(ask: Ask, replies: Replies) -> Any:
    """Return what the session makes of the replies: a value, or one of Moorage's errors."""
    with anyio.fail_after(5):
        async with session_with(replies) as (session, _, folder):
            try:
                found = await ask(session)
            except ExecutionError as error:
                found = error
            assert len(list(read_calls(folder / "record.ndjson"))) == 1
        return found


def told(**structured: Any) -> Replies:
    return {"execute": {"structured_content": structured}}


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(["create", "edit", "read", "exited", "unknown", "environment_died", "AA=="]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = """
    action path outcome exit_code stdout stderr stdout_bytes stderr_bytes duration_ms left_running
    stdout_truncated stdout_base64 full_log_ref full_log_sections truncated classification diff
    old_file_sha replacements text content_sha256 start_line num_lines total_lines continuation
    error_kind workspace_revision data eof size upload written content is_error execution_export
"""
objects = st.dictionaries(st.sampled_from(FIELDS.split()), anything, max_size=8)
offers = st.fixed_dictionaries(
    {"execution_export": st.just("t"), "name": st.text(max_size=300), "size": st.integers()}
)


@given(
    name=st.sampled_from(sorted(ASKS)), structured=objects, reply=objects, is_error=st.booleans()
)
@settings(max_examples=150, deadline=None)
def test_any_structured_content_gives_a_value_or_an_error_of_moorage(
    name: str, structured: dict[str, Any], reply: dict[str, Any], is_error: bool
) -> None:
    uploaded = {"upload": "u", "written": 1}
    replies: Replies = {
        "execute": {"structured_content": structured, "is_error": is_error},
        "file/read": reply,
        "file/write": reply,
        "input/write": uploaded,
        "export/read": reply,
    }
    anyio.run(outcome, ASKS[name], replies)


@given(name=st.sampled_from(sorted(ASKS)), reply=anything)
@settings(max_examples=60, deadline=None)
def test_any_json_in_place_of_a_reply_gives_an_error_of_moorage(name: str, reply: Any) -> None:
    methods = ("execute", "file/read", "file/write", "input/write")
    anyio.run(outcome, ASKS[name], dict.fromkeys(methods, reply))


@given(offer=offers)
@settings(max_examples=60, deadline=None)
def test_any_offer_of_an_artifact_gives_a_copy_or_an_error_of_moorage(offer: Any) -> None:
    text = anyio.run(outcome, ASKS["present_artifact"], offering(offer, b""))
    assert isinstance(text, ExecutionError) or text.name == offer["name"]


def offering(offer: dict[str, Any], data: bytes) -> Replies:
    part = {"type": "text", "text": json.dumps(offer)}
    reply = {"data": base64.b64encode(data).decode(), "eof": True}
    return {"execute": {"content": [part]}, "export/read": reply}


@pytest.mark.parametrize(
    "name", ["n" * 300, "é" * 128, "a/b", "..", "", "a\0b", "\ud800", "a\nb", "\x1b[31m"]
)
async def test_a_name_that_no_file_can_have_is_a_violation(name: str) -> None:
    offer = {"execution_export": "t", "name": name, "size": 1}
    found = await outcome(ASKS["present_artifact"], offering(offer, b"x"))
    assert isinstance(found, RemoteProtocolViolation)


async def test_a_second_artifact_of_the_longest_name_is_kept_beside_the_first() -> None:
    offer = {"execution_export": "t", "name": "é" * 125 + ".text", "size": 1}
    async with session_with(offering(offer, b"x")) as (session, _, _folder):
        first = await session.present_artifact("a")
        second = await session.present_artifact("a")
    assert first.path.name == offer["name"]
    assert second.path.name.endswith("é-1.text")


@pytest.mark.parametrize(
    ("ask", "structured"),
    [
        ("run", {"outcome": "exploded"}),
        ("run", {"outcome": "exited", "exit_code": "0"}),
        ("run", {"outcome": "exited", "exit_code": 0, "stdout_bytes": -1}),
        ("run", {"outcome": "exited", "exit_code": 0, "stdout_base64": "!"}),
        ("run", {"outcome": "exited", "exit_code": 0, "full_log_sections": {"stdout_start": "x"}}),
        ("read_file", {"action": "read", "path": "a"}),
        ("write_file", {"action": "create"}),
        ("write_file", {"action": ["create"]}),
        ("edit_file", {}),
        ("edit_file", {"action": "edit", "path": "a", "replacements": -2}),
    ],
)
async def test_a_malformed_result_is_a_violation(ask: str, structured: dict[str, Any]) -> None:
    replies = told(**structured) | {"input/write": {"upload": "u", "written": 1}}
    assert isinstance(await outcome(ASKS[ask], replies), RemoteProtocolViolation)


async def test_an_image_has_no_text_to_return() -> None:
    found = await outcome(ASKS["read_file"], told(action="read_image", path="a.png"))
    assert isinstance(found, ToolFailed)


@pytest.mark.parametrize("reply", [{"upload": "", "written": 1}, {"upload": "u", "written": -1}])
async def test_an_upload_that_the_worker_counts_wrongly_is_a_violation(reply: Any) -> None:
    for name, method in (("write_bytes", "file/write"), ("run", "input/write")):
        found = await outcome(ASKS[name], {method: reply})
        assert isinstance(found, RemoteProtocolViolation)


async def test_names_that_are_not_unicode_are_refused_before_anything_is_sent() -> None:
    asks: list[Ask] = [
        lambda session: session.read_bytes("a\udcff"),
        lambda session: session.write_bytes("a\udcff", b""),
        lambda session: anext(session.read_pieces("a\udcff")),
        lambda session: session.call("bash", {"command": "true"}, actor="\udcff"),
        lambda session: session.call("\udcff"),
    ]
    with anyio.fail_after(5):
        async with session_with({}) as (session, backend, _):
            for ask in asks:
                with pytest.raises((InvalidArguments, UnknownTool)):
                    await ask(session)
            assert backend.heard == []
