"""An engine's own interface: when it is used, and what is made of what it answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from moorage.backends.engine_socket import EngineSocket, NotHere, socket_of
from moorage.errors import BackendUnavailable

NAMES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


def test_a_socket_here_is_used_and_nothing_else_is(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = socket_of("docker")
    assert usual is not None
    assert usual.path == "/var/run/docker.sock"
    assert socket_of("podman") is None
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere")
    chosen = socket_of("docker")
    assert chosen is not None
    assert chosen.path == "/elsewhere"
    monkeypatch.setenv("DOCKER_HOST", "ssh://far.example")
    assert socket_of("docker") is None


@pytest.mark.parametrize(
    ("text", "is_used"),
    [
        ("{}", True),
        ('{"currentContext": "default"}', True),
        ('{"currentContext": "far"}', False),
        ("[]", False),
        ("{", False),
    ],
)
def test_a_chosen_context_is_left_to_the_command_line(
    config: Path, text: str, is_used: bool
) -> None:
    config.write_text(text)
    assert (socket_of("docker") is not None) is is_used


def test_a_context_of_the_variables_is_left_to_the_command_line(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "far")
    assert socket_of("docker") is None


Serve = Callable[..., EngineSocket]


def _take_request(connected: socket.socket) -> None:
    """Read a request to its end, so that whoever sends it never finds a closed door."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += connected.recv(65536)
    head, _, body = got.partition(b"\r\n\r\n")
    told = [line for line in head.splitlines() if line.lower().startswith(b"content-length:")]
    left = int(told[0].split(b":")[1]) - len(body) if told else 0
    while left > 0:
        left -= len(connected.recv(left))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Answer one request after the other with a status and a text, each on its own connection."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    listening.listen()
    threads = []

    def begin(*answers: tuple[int, object]) -> EngineSocket:
        def answer() -> None:
            for status, said in answers:
                try:
                    connected, _ = listening.accept()
                except OSError:
                    return
                with connected:
                    _take_request(connected)
                    body = said if isinstance(said, bytes) else json.dumps(said).encode()
                    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n"
                    connected.sendall(head.encode() + body)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        threads.append(thread)
        return EngineSocket(str(tmp_path / "socket"), diagnosis_seconds=20)

    yield begin
    with suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)  # Whoever still waits for a request is woken.
    listening.close()
    for thread in threads:
        thread.join(5)


async def test_what_is_known_is_returned_and_what_is_not_there_is_none(serve: Serve) -> None:
    engine = serve((200, {"Id": "a"}), (404, {"message": "no such"}))
    assert await engine.inspect("container", "a", 5) == {"Id": "a"}
    assert await engine.inspect("volume", "b", 5) is None


async def test_an_engine_with_troubles_of_its_own_is_left_to_the_command_line(
    serve: Serve, tmp_path: Path
) -> None:
    with pytest.raises(NotHere, match="full"):
        await serve((500, {"message": "the disk is full"})).inspect("image", "a/b:c", 5)
    with pytest.raises(NotHere):
        await EngineSocket(str(tmp_path / "none")).inspect("image", "a", 5)


async def test_a_start_tells_what_the_engine_complains_of(serve: Serve) -> None:
    engine = serve(
        (204, b""), (304, b""), (500, {"message": "no memory"}), (500, b"oh"), (500, b"")
    )
    said = [await engine.start("a", 5) for _ in range(5)]
    assert said == ["", "", "no memory", "oh", "it did not say why."]


async def test_a_program_that_cannot_be_started_says_why(serve: Serve) -> None:
    with pytest.raises(BackendUnavailable, match="cannot be reached in a: not running"):
        await serve((409, {"message": "not running"})).attach("a", ("x",), 5, 1)


async def test_a_program_without_streams_says_why(serve: Serve) -> None:
    engine = serve((201, {"Id": "e"}), (400, {"message": "no such program"}))
    with pytest.raises(BackendUnavailable, match="cannot be started: no such program"):
        await engine.attach("a", ("x",), 5, 1)


def _hang_up(listening: socket.socket) -> None:
    listening.accept()[0].close()


async def test_an_engine_that_is_silent_or_goes_away_is_told_of(
    serve: Serve, tmp_path: Path
) -> None:
    with pytest.raises(BackendUnavailable, match="did not answer in time"):
        await EngineSocket(str(tmp_path / "socket")).inspect("image", "a", 0.01)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "other"))
    listening.listen()
    thread = threading.Thread(target=_hang_up, args=(listening,), daemon=True)
    thread.start()
    with pytest.raises(BackendUnavailable, match="went away"):
        await EngineSocket(str(tmp_path / "other")).inspect("image", "a", 5)
    thread.join(5)
    listening.close()


async def test_how_a_program_ended_is_asked_until_it_has(serve: Serve) -> None:
    upgraded = (101, b"")
    ended = [(200, {"Running": True}), (200, {"Running": False, "ExitCode": 7})]
    engine = serve((201, {"Id": "e"}), upgraded, *ended, (200, {"ExitCode": None}), (200, b"{"))
    transport = await engine.attach("a", ("x",), 5, 1)
    with anyio.fail_after(5):
        assert await transport.diagnose() == "the worker process exited with 7"
        for _ in range(2):
            assert "does not say how" in await transport.diagnose()
        await transport.aclose()
