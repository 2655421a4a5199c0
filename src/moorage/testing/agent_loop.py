"""A small agent loop with a scripted model: how an agent deals with what ends in the background.

It shows the contract of :meth:`moorage.Session.completions`, and its tests prove it. A turn takes
what is owed, the model answers, and the answer is stored together with the marks of what it dealt
with; only then are they acknowledged. A loop that is killed in between loses nothing and tells
nothing twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec

from moorage.confine.private_folders import replace_private
from moorage.host.completions import Completion
from moorage.host.session import Session
from moorage.protocol.tool_calls import ToolResult


class ProviderError(Exception):
    """The provider of the model failed; a scripted model raises it."""


class LoopLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often a model is asked again when its provider fails, and after how long."""

    attempts: int = 3
    first_pause_seconds: float = 1.0
    """Doubled before each further attempt."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a conversation.

    ``id`` is set on a completion that was told, ``answers`` on an answer: the marks of the
    completions that its turn dealt with.
    """

    role: Literal["user", "assistant", "tool"]
    text: str
    id: str = ""
    answers: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says to have a tool called; with plain text it answers, which ends the turn."""

    tool_name: str
    arguments: dict[str, Any]


Model = Callable[[Sequence[Message]], Awaitable[Call | str]]


class Transcript:
    """A conversation in a file, of which each turn is stored as a whole."""

    def __init__(self, file: Path) -> None:
        """Read what is there."""
        self._file = file
        self.messages: list[Message] = []
        if file.exists():
            self.messages = msgspec.json.decode(file.read_bytes(), type=list[Message])

    def store(self, *messages: Message) -> None:
        """Add messages for good, all or none of them."""
        added = [*self.messages, *messages]
        replace_private(self._file, msgspec.json.encode(added))
        self.messages = added

    @property
    def answered(self) -> tuple[str, ...]:
        """Return the marks of all completions that an answer was stored for."""
        return tuple(mark for message in self.messages for mark in message.answers)


class AgentLoop:
    """Runs the turns of one conversation in one session."""

    def __init__(
        self,
        session: Session,
        model: Model,
        transcript: Transcript,
        *,
        limits: LoopLimits | None = None,
    ) -> None:
        """Take the conversation up where its transcript ends."""
        self._session = session
        self._completions = session.completions()
        self._model = model
        self._transcript = transcript
        self._limits = limits or LoopLimits()

    async def run(self, text: str) -> None:
        """Deal with a message of the user, and go on until nothing in the background is awaited.

        Raises:
            ProviderError: the model could not be asked. The completions of the turn wait for the
                next message.
        """
        await self._recover()
        self._completions.resume()
        said = Message(role="user", text=text)
        self._transcript.store(said)
        await self._turn(await self._completions.take())
        await self._continue()

    async def reopen(self) -> None:
        """Go on after a restart with what has ended meanwhile, without a message of the user."""
        await self._recover()
        await self._continue()

    async def _recover(self) -> None:
        """Have what was answered before a crash never told again."""
        await self._completions.acknowledge(*self._transcript.answered)

    async def _continue(self) -> None:
        async for completion in self._completions.remaining():
            try:
                await self._turn([completion])
            except ProviderError:
                continue  # It is paused now; what else has ended is not held back by that.

    async def _turn(self, told: list[Completion]) -> None:
        """Ask the model until it answers; store the turn, then acknowledge what it was told."""
        turn = [_message(completion) for completion in told]
        try:
            while isinstance(said := await self._ask(turn), Call):
                result = await self._session.call(said.tool_name, said.arguments)
                turn.append(Message(role="tool", text=_text(result)))
                # What ended meanwhile is merged into the next request of the same turn.
                merged = await self._completions.take()
                told.extend(merged)
                turn.extend(_message(completion) for completion in merged)
        except BaseException:
            self._completions.pause(*told)
            raise
        marks = tuple(completion.answer_id for completion in told)
        self._transcript.store(*turn, Message(role="assistant", text=said, answers=marks))
        await self._completions.acknowledge(*told)

    async def _ask(self, turn: list[Message]) -> Call | str:
        pause = self._limits.first_pause_seconds
        for _ in range(self._limits.attempts - 1):
            try:
                return await self._model([*self._transcript.messages, *turn])
            except ProviderError:
                await anyio.sleep(pause)
                pause *= 2
        return await self._model([*self._transcript.messages, *turn])


def _message(completion: Completion) -> Message:
    return Message(role="user", text=completion.text, id=completion.id)


def _text(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")
