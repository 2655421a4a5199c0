"""A scripted agent and what ends in the background: told once, whoever is killed or fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import pytest

import moorage
from moorage.app.home import find_home
from moorage.app.sessions import stop_session
from moorage.testing.agent_loop import (
    AgentLoop,
    Call,
    LoopLimits,
    Message,
    Model,
    ProviderError,
    Transcript,
)

pytestmark = pytest.mark.needs("landlock")

NO_PAUSE = LoopLimits(attempts=3, first_pause_seconds=0.0)
Step = Call | str | Exception | Callable[[], Awaitable[Call | str]]


class Script:
    """A model that says one thing after the other, and remembers what it was told."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.requests: list[list[Message]] = []

    async def __call__(self, messages: Sequence[Message]) -> Call | str:
        self.requests.append(list(messages))
        if not self._steps:
            raise AssertionError(f"asked once more: {messages}")
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return await step() if callable(step) else step

    @property
    def told(self) -> list[list[str]]:
        """Return for each request the completions that it tells of."""
        return [[each.id for each in request if each.id] for request in self.requests]


def background(command: str, **options: str) -> Call:
    arguments = {"command": command, "run_in_background": True, **options}
    return Call(tool_name="bash", arguments=arguments)


def waiting_for(command: str) -> Call:
    """Return a call after which a background process has certainly ended."""
    return Call(tool_name="bash", arguments={"command": command})


def held_back(tmp_path: Path) -> tuple[str, Callable[[], Awaitable[str]]]:
    """Return a command, and the step that answers and only then lets the command end."""
    go = tmp_path / "workspace" / "go"

    async def answer() -> str:
        go.touch()
        return "started"

    return "until test -e go; do sleep 0.01; done; echo built", answer


@pytest.fixture
def opened(tmp_path: Path):
    (tmp_path / "workspace").mkdir()

    def open_one(**options):
        return moorage.open_session(
            **({"workspace": tmp_path / "workspace", "home": tmp_path / "home"} | options)
        )

    return open_one


def loop_of(session: moorage.Session, model: Model, tmp_path: Path) -> AgentLoop:
    transcript = Transcript(tmp_path / "transcript.json")
    return AgentLoop(session, model, transcript, limits=NO_PAUSE)


async def ids_of(session: moorage.Session) -> list[str]:
    return [f"moorage-process-completion:{each.id}" for each in await session.processes.list()]


async def until_ended(session: moorage.Session) -> None:
    """Wait until everything in the background has ended."""
    for record in await session.processes.list():
        async for _ in session.processes.follow(record.id):
            pass


async def test_an_end_during_a_turn_is_in_its_next_request_and_in_no_other_turn(
    opened, tmp_path: Path
) -> None:
    async with opened() as session:

        async def wait() -> Call:
            await until_ended(session)
            return waiting_for("echo meanwhile")

        model = Script(background("echo one"), wait, "all done", "a second answer")
        loop = loop_of(session, model, tmp_path)
        await loop.run("go")
        (told,) = await ids_of(session)
        await loop.run("and now?")
    assert model.told[:3] in ([[], [], [told]], [[], [told], [told]])
    assert model.told[3] == [told], "it is in the conversation once"
    assert len(model.requests) == 4


async def test_an_end_while_idle_starts_one_continuation_and_the_run_waits_for_it(
    opened, tmp_path: Path
) -> None:
    async with opened() as session:
        command, started = held_back(tmp_path)
        model = Script(background(command), started, "it is built")
        await loop_of(session, model, tmp_path).run("build")
        (told,) = await ids_of(session)
    assert model.told[-1] == [told]
    answers = Transcript(tmp_path / "transcript.json").messages
    assert [each.text for each in answers if each.role == "assistant"] == ["started", "it is built"]


async def test_what_the_model_has_read_itself_needs_no_continuation(opened, tmp_path) -> None:
    async with opened() as session:

        async def read() -> Call:
            (record,) = await session.processes.list()
            arguments = {"action": "read", "process_id": record.id, "wait_ms": 30_000}
            return Call(tool_name="bash", arguments=arguments)

        model = Script(background("read line"), _after(session, read), "read")
        await loop_of(session, model, tmp_path).run("go")
    assert model.told == [[], [], []]


def _after(session: moorage.Session, read: Callable[[], Awaitable[Call]]):
    """Let a process that waits for a line end right before it is read."""

    async def step() -> Call:
        call = await read()
        await session.processes.write(str(call.arguments["process_id"]), "\n")
        return call

    return step


@pytest.mark.parametrize("how", ["at its start", "by an update"])
async def test_a_detached_process_wakes_nobody_and_is_not_waited_for(
    opened, tmp_path: Path, how: str
) -> None:
    async with opened() as session:
        if how == "at its start":
            steps = [background("sleep 1000", completion_mode="detached"), "served"]
        else:

            async def detach() -> Call:
                (record,) = await session.processes.list()
                arguments = {"action": "update", "process_id": record.id}
                arguments |= {"completion_mode": "detached"}
                return Call(tool_name="bash", arguments=arguments)

            steps = [background("sleep 1000"), detach, "served"]
        model = Script(*steps)
        await loop_of(session, model, tmp_path).run("serve")
        (record,) = await session.processes.list()
        assert record.status == "running"
    assert not any(model.told)


async def test_a_failing_provider_is_asked_a_few_times_and_then_only_after_the_user_spoke(
    opened, tmp_path: Path
) -> None:
    async with opened(name="failing-provider") as session:
        down = [ProviderError("down")] * NO_PAUSE.attempts
        command, started = held_back(tmp_path)
        model = Script(background(command), started, *down)
        await loop_of(session, model, tmp_path).run("go")
        assert len(model.requests) == 2 + NO_PAUSE.attempts
        (told,) = await ids_of(session)

    async with opened(session_id="failing-provider") as session:
        # Neither opening the session again nor the end of another process tries it again.
        other = Script("noted the other")
        loop = loop_of(session, other, tmp_path)
        await loop.reopen()
        assert other.requests == []
        await session.processes.start("echo two", tty=False)
        await loop.reopen()
        assert [told in each for each in other.told] == [False]

        # The next message of the user does.
        last = Script("both are done")
        await loop_of(session, last, tmp_path).run("go on")
        assert last.told[0][-1] == told
        owed = [each for each in await session.processes.list() if each.is_completion_pending]
        assert owed == []


async def test_a_paused_end_holds_no_other_up(opened, tmp_path: Path) -> None:
    async with opened() as session:
        second = await session.processes.start("read line", tty=False)
        first = await session.processes.start("echo one", tty=False)
        released = []

        async def model(messages: Sequence[Message]) -> str:
            if messages[-1].id.endswith(first.id):
                if not released:
                    released.append(await session.processes.write(second.id, "\n"))
                raise ProviderError("down")
            return "heard"

        await loop_of(session, model, tmp_path).reopen()
        assert session.completions().paused == {first.id}
    marks = Transcript(tmp_path / "transcript.json").answered
    assert marks == (f"moorage-process-completion-answer:{second.id}",)


async def test_an_interrupted_turn_is_not_begun_again_by_itself(opened, tmp_path: Path) -> None:
    async with opened() as session:
        record = await session.processes.start("echo one", tty=False)

        async def never(_: Sequence[Message]) -> str:
            interrupt.cancel()
            await anyio.sleep_forever()
            raise AssertionError

        with anyio.CancelScope() as interrupt:
            await loop_of(session, never, tmp_path).reopen()
        assert interrupt.cancelled_caught
        assert session.completions().paused == {record.id}
        model = Script("heard")
        loop = loop_of(session, model, tmp_path)
        await loop.reopen()
        assert model.requests == []
        await loop.run("go on")
        assert model.told == [[f"moorage-process-completion:{record.id}"]]


# Kills. The loop runs in a process of its own, over a session whose worker stays.

PROGRAM = """
import os, signal, sys
from pathlib import Path
import anyio, moorage
from moorage.testing.agent_loop import AgentLoop, Call, Transcript

place, when = Path(sys.argv[1]), sys.argv[2]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class DyingTranscript(Transcript):
    def store(self, *messages):
        super().store(*messages)
        if when == "after" and messages[-1].answers:
            die()

async def main():
    async with moorage.open_session(
        workspace=place / "workspace", home=place / "home", name="killed"
    ) as session:
        steps = iter([
            Call(tool_name="bash", arguments={"command": "echo one", "run_in_background": True}),
            "started",
        ])

        async def model(messages):
            if any(message.id for message in messages):
                if when == "before":
                    die()
                return "it is done"
            return next(steps)

        loop = AgentLoop(session, model, DyingTranscript(place / "transcript.json"))
        await loop.run("go")

anyio.run(main)
"""


@pytest.mark.parametrize(("when", "repeats"), [("before", 1), ("after", 0)])
async def test_a_killed_agent_hears_of_an_end_again_only_when_no_answer_was_stored(
    opened, tmp_path: Path, when: str, repeats: int
) -> None:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    ended = await anyio.run_process(
        [sys.executable, "-c", PROGRAM, str(tmp_path), when], check=False, stderr=subprocess.PIPE
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    try:
        async with opened(session_id="killed") as session:
            (record,) = await session.processes.list()
            assert record.is_completion_pending, "nothing was acknowledged before the kill"
            model = Script(*["heard"] * repeats)
            loop = loop_of(session, model, tmp_path)
            await loop.reopen()
            await loop.reopen()
            assert len(model.requests) == repeats
            (record,) = await session.processes.list()
            assert record.completion_consumed_by == "agent"
        answers = Transcript(tmp_path / "transcript.json").answered
        assert answers == (f"moorage-process-completion-answer:{record.id}",)
    finally:
        stop_session(find_home(tmp_path / "home"), "killed")
