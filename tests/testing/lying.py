"""A session that lies in a chosen way, so that the check that looks for it is seen to fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from moorage.errors import ExecutionError
from moorage.host.results import CommandResult
from moorage.testing.conformance import OpenSession

Lie = Callable[[Any], Any]
"""Takes what the session has under a name (a method, mostly) and returns what is said instead."""

OpenerLie = Callable[[dict[str, Any], dict[str, Any]], None]
"""Changes what a session is opened with: the changes of the profile, and the options."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a backend."""

    lies: Mapping[str, Lie] = {}
    opens: OpenerLie | None = None


class Liar:
    """Answers as the true one does, but for the names that it lies about."""

    def __init__(self, true: Any, lies: Mapping[str, Lie], prefix: str = "") -> None:
        self._true, self._lies, self._prefix = true, lies, prefix

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._true, name)
        if name == "processes":
            return Liar(value, self._lies, "processes.")
        if lie := self._lies.get(self._prefix + name):
            return lie(value)
        if name == "completions":
            return lambda: Liar(value(), self._lies, "completions.")
        return value


def lying(open_session: OpenSession, fault: Fault) -> OpenSession:
    """Return an opener of sessions with the fault."""

    @asynccontextmanager
    async def open_one(changes: dict[str, Any] | None = None, /, **options: Any) -> Any:
        asked = dict(changes or {})
        if fault.opens is not None:
            fault.opens(asked, options)
        async with open_session(asked, **options) as session:
            yield Liar(session, fault.lies)

    return open_one


# Lies about methods.


def answers(**changed: Any) -> Lie:
    """Change fields of the answer; a function is given what is true."""

    def lie(method: Any) -> Any:
        async def say(*args: Any, **options: Any) -> Any:
            return altered(await method(*args, **options), changed)

        return say

    return lie


def altered(true: Any, changed: Mapping[str, Any]) -> Any:
    values = {
        name: change(getattr(true, name)) if callable(change) else change
        for name, change in changed.items()
    }
    return msgspec.structs.replace(true, **values)


def data(**changed: Any) -> Lie:
    """Change the data of a tool's result."""
    return answers(structured_content=lambda true: (true or {}) | changed)


def asks(change: Callable[[list[Any], dict[str, Any]], None]) -> Lie:
    """Change the question."""

    def lie(method: Any) -> Any:
        async def say(*args: Any, **options: Any) -> Any:
            given = list(args)
            change(given, options)
            return await method(*given, **options)

        return say

    return lie


def ignores(*names: str) -> Lie:
    """Leave these options out of the question."""
    return asks(lambda _, options: [options.pop(name, None) for name in names])


def returns(change: Callable[[Any], Any]) -> Lie:
    """Return something else, made of the true answer."""

    def lie(method: Any) -> Any:
        async def say(*args: Any, **options: Any) -> Any:
            return change(await method(*args, **options))

        return say

    return lie


def always(value: Any) -> Lie:
    return lambda _: value


def swallows(value: Any = None) -> Lie:
    """Say that all is well where an error is due."""

    def lie(method: Any) -> Any:
        async def say(*args: Any, **options: Any) -> Any:
            try:
                return await method(*args, **options)
            except ExecutionError:
                return value

        return say

    return lie


def raises(error: ExecutionError, *, after: int = 0) -> Lie:
    """Fail, after some calls that go well."""
    calls = []

    def lie(method: Any) -> Any:
        async def say(*args: Any, **options: Any) -> Any:
            calls.append(args)
            if len(calls) > after:
                raise error
            return await method(*args, **options)

        return say

    return lie


def also(deed: Callable[[Any, Any], Any]) -> Lie:
    """Do something besides, with the true session and the arguments."""

    def lie(method: Any) -> Any:
        async def say(*args: Any, **options: Any) -> Any:
            answer = await method(*args, **options)
            await deed(method.__self__, args)
            return answer

        return say

    return lie


def windows(**changed: Any) -> Lie:
    """Change every window of a process's output."""

    def lie(method: Any) -> Any:
        async def say(*args: Any, **options: Any) -> Any:
            async for window in method(*args, **options):
                yield altered(window, changed)

        return say

    return lie


def one_piece(method: Any) -> Any:
    """Read a file as one piece, however large it is."""

    async def say(path: str) -> Any:
        yield b"".join([piece async for piece in method(path)])

    return say


def events(**changed: Any) -> Lie:
    """Change every event."""

    def lie(method: Any) -> Any:
        @asynccontextmanager
        async def say() -> Any:
            async with method() as true:
                yield _Reader(true, changed)

        return say

    return lie


class _Reader:
    def __init__(self, true: Any, changed: Mapping[str, Any]) -> None:
        self._true, self._changed = true, changed

    async def receive(self) -> Any:
        event = await self._true.receive()
        return altered(
            event, {name: self._changed[name] for name in self._changed if hasattr(event, name)}
        )

    async def __aiter__(self) -> Any:
        while True:
            yield await self.receive()


def goes_on(begins: str = "") -> Lie:
    """Let a command run on after its timeout or its cancellation, and say that it has ended."""

    def lie(method: Any) -> Any:
        async def say(command: Any, **options: Any) -> Any:
            is_meant = "timeout_seconds" in options if not begins else command.startswith(begins)
            if not is_meant:
                return await method(command, **options)
            await method.__self__.processes.start(command, tty=False)
            if begins:
                await anyio.sleep_forever()
            await _appears(method.__self__, command)
            return _timed_out()

        return say

    return lie


async def _appears(session: Any, command: str) -> None:
    """Wait until the command has written something, as it would have before its timeout."""
    await session.run("until test -s beat* ; do sleep 0.02; done")


def _timed_out() -> CommandResult:
    return CommandResult(
        outcome="timed_out",
        exit_code=-1,
        stdout="",
        stderr="",
        stdout_bytes=0,
        stderr_bytes=0,
        duration_ms=1000,
    )


def repeats(method: Any) -> Any:
    """Run a command again when its end was not seen."""

    async def say(*args: Any, **options: Any) -> Any:
        try:
            return await method(*args, **options)
        except ExecutionError:
            return await method(*args, **options | {"timeout_seconds": 1})

    return say


def claims_to_stop(method: Any) -> Any:
    """Say that a process was stopped, and leave it alone."""

    async def say(process_id: str, **_: Any) -> Any:
        record = await method.__self__.get(process_id)
        return altered(record, {"status": "stopped", "terminal_cause": "requested_stop"})

    return say


def itself(method: Any) -> Any:
    """Give the session itself where another view of it was asked for."""
    return lambda *_: method.__self__


@asynccontextmanager
async def _as_context(value: Any) -> Any:
    yield value


def itself_as_fork(method: Any) -> Any:
    return lambda **_: _as_context(method.__self__)
