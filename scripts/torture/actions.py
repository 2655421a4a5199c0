"""What an actor does to the processes of a session: each action is one thing that a host may do."""

from __future__ import annotations

import dataclasses
import random
import secrets
from collections.abc import Awaitable, Callable

from moorage.errors import ExecutionError, InvalidArguments
from moorage.host.session import Session
from moorage.protocol.processes import CompletionMode, Lifecycle, OutputSnapshot, ProcessRecord
from torture import commands
from torture.content import Content
from torture.delivering import read_as_model
from torture.proofs import Deliveries
from torture.stage import Place
from torture.subjects import Chronicle, Kind, Subject

MOST_LIVING = 24
"""Processes of one session at a time."""

MOST_BURSTS = 24
"""Processes that print some MB: each of their bytes is looked at in the end."""

MANY_LINES = (100_000, 700_000)
READY_SECONDS = 10.0


@dataclasses.dataclass
class Actor:
    """Somebody who acts on the processes of one session, at random."""

    rng: random.Random
    place: Place
    session: Session
    chronicle: Chronicle
    deliveries: Deliveries
    token: str

    def pick(self, *, ended_too: bool = False) -> Subject | None:
        """Return a process of the session that has an id."""
        known = self.chronicle.subjects if ended_too else self.chronicle.living(self.place.name)
        found = [each for each in known if each.id and each.place == self.place.name]
        return self.rng.choice(found) if found else None

    def new_subject(self, kind: Kind, lines: int, *, is_terminal: bool) -> Subject:
        """Return a process to start, already in the chronicle."""
        tag = self.chronicle.new_tag()
        lifecycle: Lifecycle = self.rng.choice(("session", "session", "managed"))
        subject = Subject(
            tag=tag,
            place=self.place.name,
            kind=kind,
            content=Content(tag, is_terminal),
            lifecycle=lifecycle,
            most_lines=lines,
            least_lines=lines,
            crashes_before=self.place.crashes,
        )
        self.chronicle.subjects.append(subject)
        return subject


def _met(subject: Subject, record: ProcessRecord) -> None:
    subject.id, subject.record = record.id, record


# Starting.


def _some_lines(actor: Actor) -> int:
    chance = actor.rng.random()
    if chance < 0.03 and actor.chronicle.counts["start a flood"] < MOST_BURSTS:
        actor.chronicle.counts["start a flood"] += 1
        return actor.rng.randint(*MANY_LINES)
    return actor.rng.randint(1, 200) if chance < 0.8 else actor.rng.randint(1_000, 20_000)


async def _start(actor: Actor, subject: Subject, command: str) -> None:
    operation = secrets.token_hex(16)
    actor.chronicle.note("start", subject)
    try:
        record = await actor.session.processes.start(
            command,
            tty=subject.content.is_terminal,
            operation_id=operation,
            lifecycle=subject.lifecycle,
            completion_mode=actor.rng.choice(("resume", "resume", "detached")),
            variables={commands.VARIABLE: actor.token},
        )
    except ExecutionError:
        actor.chronicle.note("start unanswered", subject)
        subject.is_away = True
        found = await actor.session.processes.find(operation)
        if found is not None:
            _met(subject, found)
        raise
    subject.is_confirmed = True
    _met(subject, record)


async def start_printer(actor: Actor) -> None:
    """Start something that prints a known number of lines and ends."""
    lines = _some_lines(actor)
    subject = actor.new_subject("printer", lines, is_terminal=actor.rng.random() < 0.5)
    await _start(actor, subject, commands.printer(actor.rng, subject.tag, actor.token, lines))


async def start_tree(actor: Actor) -> None:
    """Start something with stubborn descendants that does not end by itself."""
    subject = actor.new_subject("tree", 1, is_terminal=actor.rng.random() < 0.5)
    await _start(actor, subject, commands.tree(subject.tag, actor.token))


async def start_echo(actor: Actor) -> None:
    """Start something that repeats what it is given, and wait until it listens."""
    is_terminal = actor.rng.random() < 0.5
    subject = actor.new_subject("echo", 1, is_terminal=is_terminal)
    command = commands.echo(subject.tag, actor.token, is_terminal=is_terminal)
    await _start(actor, subject, command)
    window = await actor.session.processes.read(subject.id, offset=0, wait_seconds=READY_SECONDS)
    subject.takes_input = window.end_offset >= subject.content.width


async def hand_over(actor: Actor) -> None:
    """Run a command in the foreground that goes on in the background after a second."""
    seconds = actor.rng.randint(2, 4)
    subject = actor.new_subject("printer", seconds * 10, is_terminal=False)
    actor.chronicle.note("hand over", subject)
    arguments = {
        "command": commands.slow_printer(subject.tag, actor.token, seconds),
        "timeout_seconds": 1,
        "lifecycle": subject.lifecycle,
    }
    subject.is_away = True
    result = await actor.session.call("bash", arguments)
    process_id = (result.structured_content or {}).get("promoted_process_id")
    if process_id:
        subject.is_confirmed = True
        _met(subject, await actor.session.processes.get(process_id))


async def run(actor: Actor) -> None:
    """Run a short command in the foreground and look at all that it printed."""
    lines = actor.rng.randint(1, 200)
    subject = actor.new_subject("printer", lines, is_terminal=False)
    subject.is_away = True
    actor.chronicle.note("run", subject)
    command = commands.printer(actor.rng, subject.tag, actor.token, lines)
    result = await actor.session.run(command, timeout_seconds=60)
    if result.stdout.encode() != subject.content.between(0, subject.content.size(lines)):
        actor.chronicle.surprises.append(f"{subject}: run returned something else: {result}")


# Looking.


async def look_around(actor: Actor) -> None:
    """List everything, and see what has become of it."""
    actor.chronicle.note("list")
    for record in await actor.session.processes.list():
        subject = actor.chronicle.find(record)
        if subject is not None:
            _met(subject, record)


def _check_window(actor: Actor, subject: Subject, window: OutputSnapshot) -> None:
    found = window.output.encode()
    if len(found) != window.end_offset - window.start_offset:
        problem = f"{len(found)} bytes from {window.start_offset} to {window.end_offset}"
    elif window.end_offset > subject.content.size(subject.most_lines):
        problem = f"{window.end_offset} bytes are more than it can have printed"
    else:
        problem = subject.content.difference(window.start_offset, found)
    if problem:
        actor.chronicle.surprises.append(f"{subject}: a read gave {problem}")


async def read(actor: Actor) -> None:
    """Read a window of the output somewhere, perhaps waiting for more."""
    subject = actor.pick(ended_too=True)
    if subject is None:
        return
    actor.chronicle.note("read", subject)
    end = subject.record.total_bytes if subject.record else 0
    offset = actor.rng.choice((None, 0, actor.rng.randint(0, end + 4_096)))
    window = await actor.session.processes.read(
        subject.id,
        offset=offset,
        max_bytes=actor.rng.choice((100, 32_768, 262_144)),
        wait_seconds=actor.rng.choice((0.0, 0.0, 0.5)),
    )
    _met(subject, window.process)
    _check_window(actor, subject, window)


async def read_by_tool(actor: Actor) -> None:
    """Read as a model does."""
    subject = actor.pick(ended_too=True)
    if subject is not None:
        actor.chronicle.note("read by the tool", subject)
        problem = await read_as_model(actor.session, subject.id, actor.deliveries)
        if problem:
            actor.chronicle.surprises.append(f"{subject}: the tool could not read: {problem}")


# Acting.


async def write(actor: Actor) -> None:
    """Type some lines to an echo, or the word that ends it."""
    subject = actor.pick()
    if subject is None or not subject.takes_input:
        return
    async with subject.typing:
        number = actor.rng.randint(0, 20)
        text = subject.content.typed(subject.most_lines + 1, number) or f"{commands.LAST_WORD}\n"
        actor.chronicle.note(f"write {number}", subject)
        actor.chronicle.counts.subtract([f"write {number}"])
        actor.chronicle.counts["write"] += 1
        subject.most_lines += number
        was_open, subject.takes_input = subject.takes_input, False
        if was_open:
            await actor.session.processes.write(subject.id, text)
            subject.least_lines = subject.most_lines
            subject.takes_input = number > 0


async def resize(actor: Actor) -> None:
    """Give a terminal another size."""
    subject = actor.pick()
    if subject is not None and subject.content.is_terminal:
        actor.chronicle.note("resize", subject)
        columns, rows = actor.rng.randint(1, 300), actor.rng.randint(1, 100)
        await actor.session.processes.resize(subject.id, columns=columns, rows=rows)


async def stop(actor: Actor) -> None:
    """Stop a process, softly or by force."""
    subject = actor.pick()
    if subject is not None:
        is_forced = actor.rng.random() < 0.4
        actor.chronicle.note("kill" if is_forced else "stop", subject)
        _met(subject, await actor.session.processes.stop(subject.id, force=is_forced))
        if not subject.is_over:
            actor.chronicle.surprises.append(f"{subject}: goes on after its stop was answered")


async def update(actor: Actor) -> None:
    """Choose anew whether an end is announced."""
    subject = actor.pick()
    if subject is not None:
        actor.chronicle.note("update", subject)
        mode: CompletionMode = actor.rng.choice(("resume", "detached"))
        await actor.session.processes.update(subject.id, completion_mode=mode)


async def clean_up(actor: Actor) -> None:
    """End everything of the session that is not managed."""
    actor.chronicle.note("clean up")
    await actor.session.processes.clean_up()


Action = Callable[[Actor], Awaitable[None]]

STARTS: dict[Action, int] = {start_printer: 12, start_echo: 6, start_tree: 3, hand_over: 4, run: 3}
OTHERS: dict[Action, int] = {
    look_around: 4,
    read: 18,
    read_by_tool: 6,
    write: 24,
    resize: 3,
    stop: 8,
    update: 4,
    clean_up: 1,
}


def choose(actor: Actor) -> Action:
    """Return the next action; nothing is started where enough lives."""
    is_full = len(actor.chronicle.living(actor.place.name)) >= MOST_LIVING
    weights = OTHERS if is_full else {**STARTS, **OTHERS}
    return actor.rng.choices(list(weights), list(weights.values()))[0]


def is_excused(action: Action, error: ExecutionError) -> bool:
    """Return whether an action may be refused because its process has ended meanwhile."""
    is_unknown = "No background process" in error.message
    return (
        isinstance(error, InvalidArguments) and action in {write, resize, update} and not is_unknown
    )
