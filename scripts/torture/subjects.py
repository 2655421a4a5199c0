"""What we know of each process that we started: what it was to print, and what was done to it."""

from __future__ import annotations

import dataclasses
import re
import time
from collections import Counter, deque
from typing import Literal

import anyio

from moorage.protocol.processes import Lifecycle, ProcessRecord
from torture.content import Content

_TAG = re.compile(r" p(\d{5}) ")
Kind = Literal["printer", "echo", "tree"]

REMEMBERED_ACTIONS = 12
"""Per process; a failure tells the last ones."""


@dataclasses.dataclass(eq=False)
class Subject:
    """One process under torture."""

    tag: str
    place: str
    """The name of the session that it belongs to."""
    kind: Kind
    content: Content
    lifecycle: Lifecycle
    most_lines: int
    """What it can have printed at most; grows with what is typed to an echo."""
    least_lines: int = 0
    """What it must have printed when it ends by itself."""
    id: str = ""
    is_confirmed: bool = False
    """Whether its start was answered, so that a managed one must outlive the worker."""
    crashes_before: int = 0
    takes_input: bool = False
    is_away: bool = False
    """Whether it has no record that we know: it runs in the foreground, or its start failed."""
    record: ProcessRecord | None = None
    typing: anyio.Lock = dataclasses.field(default_factory=anyio.Lock)
    history: deque[str] = dataclasses.field(
        default_factory=lambda: deque(maxlen=REMEMBERED_ACTIONS)
    )

    @property
    def is_over(self) -> bool:
        """Return whether it was seen to have ended, or cannot be seen."""
        return self.is_away if self.record is None else self.record.is_terminal

    def __str__(self) -> str:
        """Return what tells it from others, for a finding."""
        words = f"{self.tag} ({self.id or 'no id'}, {self.kind}, {self.lifecycle}, {self.place})"
        return f"{words}; lately: {', '.join(self.history) or 'nothing'}"


class Chronicle:
    """Everything that was done, and everything that went otherwise than it may."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.subjects: list[Subject] = []
        self.counts: Counter[str] = Counter()
        self.surprises: list[str] = []
        self._begun = time.monotonic()

    def note(self, action: str, subject: Subject | None = None) -> None:
        """Count an action, and remember it with the process that it was done to."""
        self.counts[action] += 1
        if subject is not None:
            subject.history.append(f"{action} at {time.monotonic() - self._begun:.2f} s")

    def note_crash(self, place: str) -> None:
        """Remember a kill of the worker with every process that may be concerned."""
        self.counts["kill the worker"] += 1
        for subject in self.living(place):
            subject.history.append(f"worker killed at {time.monotonic() - self._begun:.2f} s")

    def living(self, place: str) -> list[Subject]:
        """Return the processes of a session that are not known to have ended."""
        return [each for each in self.subjects if each.place == place and not each.is_over]

    def find(self, record: ProcessRecord) -> Subject | None:
        """Return whose record it is, by the tag in its command."""
        tag = _TAG.search(record.command)
        number = int(tag[1]) if tag else len(self.subjects)
        return self.subjects[number] if number < len(self.subjects) else None

    def new_tag(self) -> str:
        """Return the tag of the next process, which its command must hold."""
        return f"p{len(self.subjects):05}"
