"""What a backend may leave out: each ability is tried once, and is there or clearly refused."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from moorage.errors import ExecutionError, Refused, ToolFailed
from moorage.host.session import Session
from moorage.testing.conformance.place import OpenSession, Place, names_in
from moorage.testing.conformance.seeing import REFUSALS

TRACE = "attempted"
"""What an attempt makes, so that an effect of one that was refused is seen."""

Attempt = Callable[[Session], Awaitable[object]]


async def _edit(session: Session) -> None:
    await session.write_file("text", "one\n")
    await session.edit_file("text", "one", "two")


async def _publish(session: Session) -> None:
    await session.write_file("text", "one\n")
    await session.present_artifact("text")


async def _git(session: Session) -> None:
    try:
        await session.git("status")
    except ToolFailed as error:
        if (error.result.structured_content or {}).get("error_kind") == "git_missing":
            raise


async def _background(session: Session) -> None:
    words = {"command": f"echo x > {TRACE}", "run_in_background": True}
    await session.call("bash", words)


_MAKE = f"echo x > {TRACE}"


async def _apart(session: Session) -> None:
    profile = session._environment.placement.profile  # noqa: SLF001 - what the user declared
    if profile.backend in {"local", "command"} or profile.host_workspace:
        raise Refused("sessions work in the one folder that the profile names.", reason="declared")


ATTEMPTS: Mapping[str, Attempt] = {
    "commands": lambda session: session.run(_MAKE),
    "confinement": lambda session: session.run(_MAKE),
    "unconfined": lambda session: session.run(_MAKE),
    "bytes": lambda session: session.write_bytes(TRACE, b"x"),
    "processes": lambda session: session.processes.start(_MAKE, tty=False),
    "terminals": lambda session: session.processes.start(_MAKE, tty=True),
    "background": _background,
    "editing": _edit,
    "grep": lambda session: session.grep("x"),
    "glob": lambda session: session.glob("*"),
    "git": _git,
    "artifacts": _publish,
    "retention": lambda session: session.list_files(),
    "sharing": lambda session: session.list_files(),
    "separation": _apart,
    "mounts": lambda session: session.list_files(),
}
"""Every ability that a check can need, and how it is tried."""

_MODES = {"unconfined": "unconfined"}

_CHANGES: Mapping[str, dict[str, Any]] = {
    "retention": {"persistent": True},
    "sharing": {"shared": True},
    "mounts": {"host_workspace": tempfile.gettempdir(), "mount_read_only": True},
}


class Declared:
    """What one backend offers, and how it refuses what it does not; kept for all of its checks."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.refusals: dict[str, str] = {}
        self.mode = ""
        self._offered: set[str] = set()

    async def place(self, open_session: OpenSession) -> Place:
        """Return the place of a check, in the narrowest mode in which commands run here."""
        if not self.mode:
            for mode in ("standard", "unconfined"):
                refusal = await _refusal("commands", open_session, mode)
                if not refusal:
                    self._offered.add("commands")
                    self.mode = mode
                    break
                ability = "confinement" if mode == "standard" else "commands"
                self.refusals[ability] = refusal
            self.mode = self.mode or "standard"
        return Place(open_session, self.mode)

    async def missing(self, needs: tuple[str, ...], open_session: OpenSession) -> tuple[str, str]:
        """Return the first of these that is refused and how, or two empty texts.

        Raises:
            AssertionError: one is refused unclearly, or its refusal had an effect.
        """
        place = await self.place(open_session)
        for ability in needs:
            if ability not in self._offered and ability not in self.refusals:
                refusal = await _refusal(ability, open_session, place.mode)
                if refusal:
                    self.refusals[ability] = refusal
                else:
                    self._offered.add(ability)
            if ability in self.refusals:
                return ability, self.refusals[ability]
        return "", ""


async def _refusal(ability: str, open_session: OpenSession, mode: str) -> str:
    """Try an ability and return the sentence that refuses it, or nothing when it is there.

    Raises:
        AssertionError: it was refused with an effect, or without a sentence.
    """
    try:
        async with open_session(
            dict(_CHANGES.get(ability, {})), mode=_MODES.get(ability, mode)
        ) as session:
            return await _tried(ability, session)
    except ExecutionError as error:
        if ability not in _CHANGES or not isinstance(error, REFUSALS):
            raise
        return error.message


async def _tried(ability: str, session: Session) -> str:
    if ability not in _CHANGES:
        await session.list_files()  # An environment that cannot be had refuses nothing.
    try:
        await ATTEMPTS[ability](session)
    except REFUSALS as error:
        if not error.message.strip():
            raise AssertionError(f"{ability} is refused without a sentence") from error
        if ability not in _CHANGES and TRACE in await names_in(session):
            raise AssertionError(f"{ability} is refused, and yet it had an effect") from error
        return error.message
    return ""
