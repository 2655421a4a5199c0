"""Conversations about the token and the binding."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from moorage.errors import (
    InvalidArguments,
    LocalProtocolViolation,
    ProtocolMismatch,
    ProtocolViolation,
    Refused,
    RemoteProtocolViolation,
    RequestCancelled,
    WorkerFailure,
)
from moorage.protocol.binding import BYTES, Binding, InitializeReply
from moorage.protocol.machines.events import (
    CancelArrived,
    InitializeArrived,
    ReplyArrived,
    RequestArrived,
)
from moorage.protocol.machines.pin import Pin
from moorage.protocol.machines.state import State
from moorage.protocol.secret import Secret
from moorage.testing.playbook import BINDING, TOKEN, Playbook

Scene = Callable[..., Playbook]

OTHER_TOKEN = "f" * 64
EXECUTE = {"call": {"name": "bash"}, "actor": "agent"}


def frame(**fields: object) -> bytes:
    return msgspec.json.encode({"token": TOKEN.reveal(), **fields}) + b"\n"


def changed(**fields: object) -> Binding:
    return msgspec.structs.replace(BINDING, **fields)


def last_error(book: Playbook) -> str:
    error = book.said("worker")[-1]["error"]
    assert isinstance(error, str)
    return error


# ---------------------------------------------------------------- the token


def test_the_first_initialize_pins_its_token_and_another_token_is_an_error_that_ends_nothing(
    book: Playbook,
) -> None:
    book.open()
    book.host_says(frame(id="7", method="execute", data=EXECUTE, token=OTHER_TOKEN))
    assert book.at_worker() == []
    assert book.said("worker")[-1]["id"] == "7"
    assert last_error(book).startswith("refused/token: ")
    book.host_says(frame(id="8", method="execute", data=EXECUTE))
    [arrived] = book.at_worker()
    assert isinstance(arrived, RequestArrived)


@pytest.mark.parametrize("token", ["", "x" * 31])
@pytest.mark.parametrize("preset", [True, False])
def test_an_absent_or_short_token_never_authorizes(scene: Scene, token: str, preset: bool) -> None:
    book = scene(pin=Pin(TOKEN if preset else None))
    book.host_says(
        frame(id="1", method="initialize", data=msgspec.to_builtins(BINDING), token=token)
    )
    assert book.at_worker() == []
    assert last_error(book).startswith("refused/token: ")
    assert book.worker.state is State.OPENED


def test_a_request_without_a_token_is_refused_also_before_anything_is_pinned(
    book: Playbook,
) -> None:
    book.host_says(frame(id="1", method="execute", data=EXECUTE, token=""))
    assert last_error(book).startswith("refused/token: ")


def test_a_token_given_at_start_refuses_every_other_one_from_the_first_request(
    scene: Scene,
) -> None:
    book = scene(pin=Pin(Secret(OTHER_TOKEN)))
    request_id = book.initialize()
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert reply.request_id == request_id
    assert isinstance(reply.error, Refused)
    assert reply.error.reason == "token"
    assert book.host.state is State.DEAD


def test_a_failed_initialize_pins_no_token(scene: Scene) -> None:
    pin = Pin()
    stranger = scene(pin=pin, token=Secret(OTHER_TOKEN))
    stranger.fail(stranger.initialize(), WorkerFailure("no disk."))
    owner = scene(pin=pin)
    owner.open()
    assert owner.host.state is State.READY
    assert pin.token == TOKEN


def test_while_an_initialize_runs_only_its_own_token_counts(book: Playbook) -> None:
    request_id = book.initialize()
    assert len(book.at_worker()) == 1
    book.host_says(frame(id=request_id, method="cancel", token=OTHER_TOKEN))
    assert book.at_worker() == []
    book.host_says(frame(id=request_id, method="cancel"))
    assert book.at_worker() == [CancelArrived(request_id)]


def test_a_cancel_with_a_wrong_token_does_not_cancel_and_its_error_reaches_no_caller(
    book: Playbook,
) -> None:
    book.open()
    book.host_says(frame(id="7", method="execute", data=EXECUTE))
    book.at_worker()
    book.host_says(frame(id="7", method="cancel", token=OTHER_TOKEN))
    assert book.at_worker() == []
    assert book.said("worker")[-1]["id"] == ""
    assert "cancel '7'" in last_error(book)
    assert book.worker.in_flight == ("7",)


def test_a_callback_with_a_wrong_token_answers_nothing(book: Playbook) -> None:
    book.open()
    book.host_says(frame(id="7", method="callback", data={"data": {}}, token=OTHER_TOKEN))
    assert book.said("worker")[-1]["id"] == ""


# ---------------------------------------------------------------- the checks


@pytest.mark.parametrize("version", [3, 5])
def test_another_version_is_refused_before_the_provider_hears_of_it(
    book: Playbook, version: int
) -> None:
    data = {"version": version, "root": 7, "shape": "of another version"}
    book.host_says(frame(id="1", method="initialize", data=data))
    assert book.at_worker() == []
    assert last_error(book).startswith(
        f"protocol_mismatch: the other side speaks execution protocol {version}"
    )
    assert book.worker.state is State.OPENED


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"root": "relative"}, "root"),
        ({"session": ""}, "session"),
        ({"session": "."}, "session"),
        ({"session": ".."}, "session"),
        ({"session": "a/b"}, "session"),
        ({"identity": "a/b"}, "identity"),
        ({"environment": {"A": 1}}, "environment"),
        ({"require_existing_workspace": "yes"}, "require_existing_workspace"),
        ({"version": "4"}, "version"),
    ],
)
def test_a_malformed_binding_is_refused_before_the_provider_hears_of_it(
    book: Playbook, fields: dict[str, object], told: str
) -> None:
    data = {**msgspec.to_builtins(BINDING), **fields}
    book.host_says(frame(id="1", method="initialize", data=data))
    assert book.at_worker() == []
    assert last_error(book).startswith("invalid_arguments: ")
    assert told in last_error(book)


@pytest.mark.parametrize("data", [None, [], "x", {}])
def test_a_binding_that_is_no_object_of_its_keys_is_an_error(book: Playbook, data: object) -> None:
    book.host_says(frame(id="1", method="initialize", data=data))
    assert last_error(book).startswith("invalid_arguments: initialize: ")


def test_a_host_does_not_send_a_malformed_binding(book: Playbook) -> None:
    with pytest.raises(InvalidArguments, match=r"^root: "):
        book.initialize(changed(root="relative"))
    with pytest.raises(ProtocolMismatch):
        book.initialize(changed(version=5))
    assert book.transcript == []


def test_the_provider_gets_the_whole_binding(book: Playbook) -> None:
    binding = changed(
        identity="env",
        environment={"CI": "1"},
        require_existing_workspace=True,
        remove_workspace_on_exit=True,
    )
    request_id = book.initialize(binding)
    assert book.at_worker() == [InitializeArrived(request_id, binding)]


def test_a_missing_workspace_that_must_exist_fails_the_initialization(book: Playbook) -> None:
    request_id = book.initialize(changed(require_existing_workspace=True))
    [arrived] = book.at_worker()
    assert isinstance(arrived, InitializeArrived)
    assert arrived.binding.require_existing_workspace
    book.fail(request_id, WorkerFailure("the retained workspace is gone."))
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert str(reply.error) == "the retained workspace is gone."
    assert book.host.state is State.DEAD


def test_the_reply_names_the_resolved_root_and_the_capabilities(scene: Scene) -> None:
    book = scene(capabilities=frozenset({BYTES}))
    request_id = book.initialize()
    book.worker_says(book.worker.initialized(request_id, "/real"))
    assert book.said("worker") == [
        {"id": request_id, "data": {"version": 4, "root": "/real", "capabilities": [BYTES]}}
    ]
    expected = InitializeReply(version=4, root="/real", capabilities=(BYTES,))
    assert book.at_host() == [ReplyArrived(request_id, expected)]
    assert book.host.capabilities == {BYTES}


@pytest.mark.parametrize("version", [3, 5])
def test_a_worker_of_another_version_is_not_used(book: Playbook, version: int) -> None:
    request_id = book.initialize()
    book.worker_says(
        b'{"id":"%s","data":{"version":%d,"root":"/w"}}\n' % (request_id.encode(), version)
    )
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert isinstance(reply.error, ProtocolMismatch)
    assert book.host.state is State.DEAD
    with pytest.raises(LocalProtocolViolation, match="open a new connection"):
        book.ask("process/list")


def test_an_initialize_reply_of_another_shape_kills_the_connection(book: Playbook) -> None:
    request_id = book.initialize()
    book.worker_says(b'{"id":"%s","data":{"root":"/w"}}\n' % request_id.encode())
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert isinstance(reply.error, RemoteProtocolViolation)
    assert book.host.state is State.DEAD


# ---------------------------------------------------------------- once and for good


def test_repeating_the_identical_binding_succeeds_with_the_same_reply(book: Playbook) -> None:
    book.open(root="/real")
    first = book.said("worker")[-1]["data"]
    request_id = book.initialize()
    assert book.at_worker() == []
    assert book.said("worker")[-1] == {"id": request_id, "data": first}
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert reply.error is None
    assert book.host.state is book.worker.state is State.READY


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("root", "/other"),
        ("session", "other"),
        ("identity", "other"),
        ("environment", {"CI": "1"}),
        ("require_existing_workspace", True),
        ("remove_workspace_on_exit", True),
    ],
)
def test_changing_any_one_field_fails_and_leaves_the_first_binding_working(
    book: Playbook, field: str, value: object
) -> None:
    book.open()
    book.initialize(changed(**{field: value}))
    assert book.at_worker() == []
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert isinstance(reply.error, InvalidArguments)
    assert f"{field} would" in str(reply.error)
    book.ask("process/list")
    assert len(book.at_worker()) == 1


def test_a_second_connection_of_the_same_worker_joins_the_same_binding_only(
    scene: Scene,
) -> None:
    pin = Pin()
    first, second, third = scene(pin=pin), scene(pin=pin), scene(pin=pin)
    first.open()
    request_id = second.initialize()
    assert second.at_worker() == []
    assert second.said("worker")[-1] == {
        "id": request_id,
        "data": {"version": 4, "root": "/workspace"},
    }
    second.ask("process/list")
    assert len(second.at_worker()) == 1
    third.initialize(changed(session="other"))
    assert "session would" in last_error(third)
    assert third.worker.state is State.OPENED


def test_only_one_initialization_runs_at_a_time(scene: Scene) -> None:
    pin = Pin()
    first, second = scene(pin=pin), scene(pin=pin)
    request_id = first.initialize()
    second.initialize()
    assert last_error(second).startswith("refused/initializing: ")
    first.host_says(frame(id="x", method="initialize", data=msgspec.to_builtins(BINDING)))
    assert last_error(first).startswith("refused/initializing: ")
    first.worker_says(first.worker.initialized(request_id, "/w"))
    assert first.host.state is State.READY


# ---------------------------------------------------------------- before and without it


@pytest.mark.parametrize("is_running", [False, True])
def test_nothing_runs_before_a_successful_initialization(book: Playbook, is_running: bool) -> None:
    if is_running:
        book.initialize()
        book.at_worker()
    book.host_says(frame(id="7", method="execute", data=EXECUTE))
    assert book.at_worker() == []
    assert last_error(book) == ("protocol_violation: nothing runs before a successful initialize.")
    with pytest.raises(LocalProtocolViolation, match="before a successful initialize"):
        book.ask("process/list")


@pytest.mark.parametrize("error", [WorkerFailure("no disk."), RequestCancelled("cancelled.")])
def test_after_a_failed_or_cancelled_initialization_only_a_new_connection_works(
    scene: Scene, error: Exception
) -> None:
    pin = Pin()
    book = scene(pin=pin)
    book.fail(book.initialize(), error)
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert type(reply.error) is type(error)
    book.at_worker()
    initialize = {"method": "initialize", "data": msgspec.to_builtins(BINDING)}
    for fields in (initialize, {"method": "execute", "data": EXECUTE}):
        book.host_says(frame(id="7", **fields))
        assert book.at_worker() == []
        assert "open a new connection" in last_error(book)
    with pytest.raises(LocalProtocolViolation, match="open a new connection"):
        book.initialize()
    fresh = scene(pin=pin)
    fresh.open()
    fresh.ask("process/list")
    assert len(fresh.at_worker()) == 1


def test_an_initialization_may_end_after_the_input_did(book: Playbook) -> None:
    request_id = book.initialize()
    book.host_ends()
    book.worker_says(book.worker.initialized(request_id, "/w"))
    assert book.worker.state is State.ENDED
    assert book.host.state is State.READY
    other = Playbook()
    failing = other.initialize()
    other.host_ends()
    other.fail(failing, ProtocolViolation("x"))
    assert other.worker.state is State.ENDED
