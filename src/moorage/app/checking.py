"""Checks that an environment really works, by a round trip through all of it, step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from moorage.app.application import open_session
from moorage.app.config import load
from moorage.app.environments import home_override
from moorage.app.home import Home
from moorage.backends.care.caretaker import load_caretaker
from moorage.backends.profile import Profile
from moorage.backends.steps import Step, listening
from moorage.errors import ExecutionError, Refused, UnknownTool
from moorage.host.session import Session


class CheckLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long the parts of a check may take."""

    open_seconds: float = 900.0
    """An image may have to be pulled."""

    step_seconds: float = 60.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a check: what was tried, whether it worked, what was seen, how long it took."""

    name: str
    is_fine: bool
    detail: str
    milliseconds: float = 0.0


Report = Callable[[Finding], None]


async def check_environment(
    home: Home, name: str, *, workspace: Path | None = None, report: Report = lambda _: None
) -> list[Finding]:
    """Open the environment and use it; tell each finding, and stop at the first failure.

    Nothing in the workspace is changed.

    Raises:
        NotFound: there is no such environment.
        ConfigError: its profile is impossible.
    """
    check = _Check(report)
    profile = load(home).profile(name)
    check.note("profile", _described(profile))
    with suppress(_Stopped):
        await _reach(check, profile)
        await _use(check, home, name, workspace)
    return check.findings


class _Stopped(Exception):
    """A step has failed and was told; nothing more is tried."""


class _Check:
    """The findings so far."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._limits = CheckLimits()
        self.findings: list[Finding] = []

    def note(self, name: str, detail: str, seconds: float = 0.0, *, is_fine: bool = True) -> None:
        """Tell a finding."""
        finding = Finding(
            name=name, is_fine=is_fine, detail=detail, milliseconds=round(seconds * 1000, 1)
        )
        self.findings.append(finding)
        self._report(finding)

    def on_step(self, step: Step) -> None:
        """Tell a step of getting the environment when it has ended."""
        if step.seconds is not None:
            self.note(step.name, step.doing or "ready", step.seconds)

    @asynccontextmanager
    async def step(self, name: str, seconds: float = 0.0) -> AsyncIterator[list[str]]:
        """Try one step, whose block says what it saw.

        Raises:
            _Stopped: it failed.
        """
        started = anyio.current_time()
        said: list[str] = []
        try:
            with anyio.fail_after(seconds or self._limits.step_seconds):
                yield said
        except (ExecutionError, TimeoutError) as error:
            detail = str(error) or "no answer in time"
            self.note(name, detail, anyio.current_time() - started, is_fine=False)
            raise _Stopped from error
        self.note(name, "; ".join(said), anyio.current_time() - started)

    @property
    def open_seconds(self) -> float:
        """Return how long the environment may take to be there."""
        return self._limits.open_seconds


def _described(profile: Profile) -> str:
    fields = {key: value for key, value in msgspec.to_builtins(profile).items() if key != "backend"}
    return ", ".join([profile.backend, *(f"{key}={_brief(fields[key])}" for key in fields)])


def _brief(value: Any) -> str:
    return " ".join(value) if isinstance(value, list | tuple) else str(value)


async def _reach(check: _Check, profile: Profile) -> None:
    caretaker = load_caretaker(profile.backend)
    if caretaker is None:
        return
    async with check.step(caretaker.place) as said:
        said.append(await caretaker.reach(profile))


async def _use(check: _Check, home: Home, name: str, workspace: Path | None) -> None:
    closes_since: float | None = None
    try:
        with listening(check.on_step):
            async with open_session(name, workspace=workspace, home=home_override(home)) as session:
                with suppress(_Stopped):
                    await _use_session(check, session, load(home).profile(name))
                closes_since = anyio.current_time()
    except ExecutionError as error:
        check.note("open" if closes_since is None else "close", str(error), is_fine=False)
        return
    if all(finding.is_fine for finding in check.findings):
        check.note("close", "let go of in good order", anyio.current_time() - closes_since)


async def _use_session(check: _Check, session: Session, profile: Profile) -> None:
    async with check.step("open", check.open_seconds) as said:
        promised = await session.capabilities()
        said.append("a worker answers")
    check.note("capabilities", ", ".join(sorted(promised)) or "none")
    await _use_tools(check, session, is_adapter=profile.backend == "command")


async def _use_tools(check: _Check, session: Session, *, is_adapter: bool) -> None:
    async with check.step("files") as said:
        listing = await session.list_files()
        said.append(f"{(listing.structured_content or {}).get('total', 0)} entries in the root")
    sandbox: dict[str, Any] | None = None
    async with check.step("command") as said:
        try:
            ended = await session.run("exit 7")
        except (Refused, UnknownTool) as error:
            if not is_adapter:
                raise
            # An adapter need not offer commands, as long as it says so and runs nothing.
            said.append(f"not offered: {error.message}")
        else:
            said.append(f"outcome {ended.outcome}, exit code {ended.exit_code}")
            sandbox = ended.envelope.get("sandbox") or {}
            if ended.exit_code != 7:
                raise ExecutionError(f"exit code 7 was asked for, and {ended.exit_code} came.")
    if sandbox is not None:
        enforced = sandbox.get("enforcement", "none")
        check.note("confinement", f"enforcement {enforced}", is_fine=enforced == "full")
