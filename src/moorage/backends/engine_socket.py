"""A Docker engine's own interface, where it listens here: what its command line does, sooner.

The command line takes longer to start than the engine to answer, and each byte of a connection
would pass through it. Whatever else has to be done is still said by the command line.
"""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, Unpack
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec

from moorage.errors import BackendUnavailable
from moorage.transports.multiplexed import MultiplexedTransport
from moorage.transports.unix_socket import UnixSocketTransport

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

USUAL_SOCKET = "/var/run/docker.sock"
_PREFIX = "unix://"
_FOUND, _NOT_FOUND = 200, 404
_UPGRADED = 101
_CREATED = 201
_STARTED = frozenset({204, 304})
_LOOK_SECONDS = 0.02


class NotHere(Exception):
    """The engine cannot be spoken to in this way; its command line says why, or can."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("engine", timeout=seconds)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self.path)
        except OSError as error:
            raise NotHere(str(error)) from error


class _Refusal(msgspec.Struct, frozen=True):
    """What the engine says when it does not do what it is told."""

    message: str = ""


class _Made(msgspec.Struct, frozen=True, rename="pascal"):
    """The id of what was made."""

    id: str


class _Ended(msgspec.Struct, frozen=True, rename="pascal"):
    """What is known of a program in a container."""

    running: bool = False
    exit_code: int | None = None


class EngineSocket:
    """Speaks to the engine behind one socket."""

    def __init__(self, path: str, *, diagnosis_seconds: float = 1.0) -> None:
        """Speak to whoever listens there, a connection for each thing asked.

        ``diagnosis_seconds`` bounds the wait for how a program ended.
        """
        self.path = path
        self._diagnosis_seconds = diagnosis_seconds

    async def inspect(self, kind: str, name: str, seconds: float) -> dict[str, Any] | None:
        """Return what the engine knows of a container, image or volume, or ``None``: no such.

        Raises:
            NotHere: the engine cannot be asked in this way.
        """
        named = quote(name, safe="/:@")
        target = f"/volumes/{named}" if kind == "volume" else f"/{kind}s/{named}/json"
        status, answer = await self._ask("GET", target, seconds)
        if status == _NOT_FOUND:
            return None
        if status != _FOUND:
            raise NotHere(_message(answer))
        found: dict[str, Any] = msgspec.json.decode(answer)
        return found

    async def create(self, name: str, body: dict[str, Any], seconds: float) -> str:
        """Make a container; return what the engine complains of, nothing when it is there.

        Raises:
            NotHere: the engine cannot be asked in this way; nothing happened.
        """
        target = f"/containers/create?name={quote(name)}"
        status, answer = await self._ask("POST", target, seconds, msgspec.json.encode(body))
        return "" if status == _CREATED else _message(answer)

    async def start(self, container: str, seconds: float) -> str:
        """Start a container; return what the engine complains of, nothing when it runs.

        Raises:
            NotHere: the engine cannot be asked in this way; nothing happened.
        """
        status, answer = await self._ask("POST", f"/containers/{quote(container)}/start", seconds)
        return "" if status in _STARTED else _message(answer)

    async def attach(
        self, container: str, argv: tuple[str, ...], seconds: float, grace_seconds: float
    ) -> MultiplexedTransport:
        """Start a program in a container, and return the way to its standard streams.

        Raises:
            NotHere: the engine cannot be asked in this way; nothing happened.
            BackendUnavailable: the program cannot be started, or the engine does not answer.
        """
        streams = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True}
        order = msgspec.json.encode({**streams, "Cmd": argv})
        target = f"/containers/{quote(container)}/exec"
        status, answer = await self._ask("POST", target, seconds, order)
        if status != _CREATED:
            raise BackendUnavailable(
                f"the worker cannot be reached in {container}: {_message(answer)}"
            )
        made = msgspec.json.decode(answer, type=_Made).id
        connected, first = await self._in_thread(_upgrade, self.path, made, seconds)

        async def diagnose() -> str:
            return await self._diagnose(made)

        return MultiplexedTransport(
            UnixSocketTransport(connected, grace_seconds=grace_seconds), first, diagnose
        )

    async def _diagnose(self, made: str) -> str:
        """Return how a program ended, as far as the engine tells in time."""
        with anyio.move_on_after(self._diagnosis_seconds):
            ended = await self._look(made)
            while ended.running:
                await anyio.sleep(_LOOK_SECONDS)  # No event tells of it.
                ended = await self._look(made)
            if ended.exit_code is None:
                return "the engine does not say how the worker process ended"
            return f"the worker process exited with {ended.exit_code}"
        return "the worker process still runs"

    async def _look(self, made: str) -> _Ended:
        try:
            _, answer = await self._ask("GET", f"/exec/{made}/json", self._diagnosis_seconds)
            return msgspec.json.decode(answer, type=_Ended)
        except (NotHere, BackendUnavailable, msgspec.DecodeError):
            return _Ended()

    async def _ask(
        self, method: str, target: str, seconds: float, body: bytes = b""
    ) -> tuple[int, bytes]:
        return await self._in_thread(_ask, self.path, method, target, seconds, body)

    async def _in_thread(
        self, function: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments
    ) -> Result:
        try:
            return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
        except TimeoutError as error:
            raise BackendUnavailable(
                f"the engine at {self.path} did not answer in time.",
                hint="See whether the engine is well; what was ordered may still happen.",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise BackendUnavailable(f"the engine at {self.path} went away: {error}.") from error


def socket_of(program: str) -> EngineSocket | None:
    """Return the socket behind which the command line would find the engine, if it is one here."""
    if program != "docker":
        return None
    host = os.environ.get("DOCKER_HOST", "")
    if host:
        return EngineSocket(host.removeprefix(_PREFIX)) if host.startswith(_PREFIX) else None
    if os.environ.get("DOCKER_CONTEXT") or _has_chosen_context():
        return None
    return EngineSocket(USUAL_SOCKET)


def _has_chosen_context() -> bool:
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    try:
        found = msgspec.json.decode((Path(folder) / "config.json").read_bytes())
        return found.get("currentContext", "default") not in {"", "default"}
    except FileNotFoundError:
        return False
    except (OSError, msgspec.DecodeError, AttributeError):
        return True  # Let the command line say what is wrong with it.


def _ask(path: str, method: str, target: str, seconds: float, body: bytes) -> tuple[int, bytes]:
    connection = _Connection(path, seconds)
    try:
        connection.request(method, target, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _upgrade(path: str, made: str, seconds: float) -> tuple[socket.socket, bytes]:
    """Start a program; return the connection that is now its streams, and what came already."""
    connection = _Connection(path, seconds)
    headers = {
        "Content-Type": "application/json", "Connection": "Upgrade", "Upgrade": "tcp"
    }  # fmt: skip
    try:
        connection.request("POST", f"/exec/{made}/start", b'{"Detach":false,"Tty":false}', headers)
        answer = connection.getresponse()
        if answer.status != _UPGRADED:
            raise BackendUnavailable(f"the worker cannot be started: {_message(answer.read())}")
        connected = connection.sock.dup()
        connection.sock.setblocking(False)
        first = answer.fp.peek()
    finally:
        connection.close()
    return connected, first


def _message(answer: bytes) -> str:
    try:
        return msgspec.json.decode(answer, type=_Refusal).message or "it did not say why."
    except msgspec.DecodeError:
        return answer.decode("utf-8", "replace").strip() or "it did not say why."
