"""The proofs: each takes evidence and returns what speaks against it; nothing means proven."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from hashlib import sha256

from moorage.protocol.processes import UNKNOWN_EXIT_CODE, ProcessRecord
from torture import table
from torture.strangers import Stranger
from torture.subjects import Subject

KEPT_LOG_BYTES = 8 * 1024 * 1024
"""What is promised to be kept of the log of a process that has ended."""


# No orphan.


def orphans(left: Sequence[table.Sighting]) -> list[str]:
    """Return a finding for each marked process that is still there."""
    return [f"process {each.pid} ({each.state}) is left: {each.words[:160]}" for each in left]


# No lost byte.


@dataclasses.dataclass(frozen=True)
class KeptLog:
    """The log of one ended process: its record, its file, and what reads by offset gave."""

    record: ProcessRecord
    on_disk: bytes
    shown: bytes


def owed_lines(subject: Subject, record: ProcessRecord, crashes: int) -> tuple[int, int] | str:
    """Return how many lines an ended process must have printed, at least and at most.

    A text instead of it says why it cannot have ended as its record tells. ``crashes`` counts the
    kills of its session's worker.
    """
    promised = subject.least_lines, subject.most_lines
    if record.terminal_cause == "requested_stop":
        return 0, subject.most_lines
    if record.exit_code == 0:
        return (0, subject.most_lines) if subject.kind == "tree" else promised
    if record.exit_code != UNKNOWN_EXIT_CODE:
        return f"it ended with {record.exit_code}, and nobody asked for that: {record.last_error}"
    if crashes <= subject.crashes_before:
        return f"nobody saw its end, though its worker was there: {record.last_error}"
    if subject.lifecycle == "session" or not subject.is_confirmed:
        return 0, subject.most_lines
    if subject.kind == "tree":
        return "it is managed and never ends, but did not outlive its worker"
    return promised


def lost_bytes(subject: Subject, log: KeptLog, crashes: int) -> list[str]:
    """Return what is wrong with the log of one ended process."""
    record, content = log.record, subject.content
    owed = owed_lines(subject, record, crashes)
    if isinstance(owed, str):
        return [f"{subject}: {owed}"]
    least, most = content.size(owed[0]), content.size(owed[1])
    total, base = record.total_bytes, record.log_base_offset
    found = []
    if not least <= total <= most:
        found.append(f"{total} bytes were logged instead of {least} to {most}")
    if base != max(0, total - KEPT_LOG_BYTES):
        found.append(f"of {total} bytes the first {base} are gone")
    if len(log.on_disk) != total - base:
        found.append(f"the file has {len(log.on_disk)} bytes instead of {total - base}")
    if sha256(log.on_disk).hexdigest() != record.log_sha256:
        found.append("the file has another hash than its receipt")
    if difference := content.difference(base, log.on_disk):
        found.append(f"in the file, {difference}")
    if log.shown != log.on_disk:
        found.append(f"reads by offset gave {len(log.shown)} bytes that are not those of the file")
    told = f"exit code {record.exit_code}, {record.terminal_cause}, {record.last_error!r}"
    return [f"{subject}: {each} ({told})" for each in found]


# No completion twice or lost.


@dataclasses.dataclass
class Deliveries:
    """Who was told of which end."""

    told: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """Process and consumer, for each answer that came."""
    unanswered: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    """The same, where the worker went away before the answer."""

    def consumers(self, process_id: str) -> list[str]:
        """Return everybody who was told of the end of a process."""
        return [consumer for told_id, consumer in self.told if told_id == process_id]


def is_owed(record: ProcessRecord) -> bool:
    """Return whether somebody is to be told of the end of a process."""
    ended_itself = record.is_terminal and record.terminal_cause == "natural_exit"
    return ended_itself and record.completion_mode != "detached"


def misdelivered(records: Sequence[ProcessRecord], deliveries: Deliveries) -> list[str]:
    """Return a finding for each completion that was told twice, to nobody, or without need."""
    found = []
    for record in records:
        told, noted = deliveries.consumers(record.id), record.completion_consumed_by
        name = f"{record.id} ({record.terminal_cause or record.status})"
        if not is_owed(record):
            if told:
                found.append(f"{name}: {told} heard of an end that is no completion")
        elif len(told) > 1:
            found.append(f"{name}: delivered {len(told)} times, to {', '.join(told)}")
        elif told and told[0] != noted:
            found.append(
                f"{name}: delivered to {told[0]}, but its record names {noted or 'nobody'}"
            )
        elif not told and (record.id, noted) not in deliveries.unanswered:
            found.append(f"{name}: lost; its record names {noted or 'nobody'}")
    return found


# No signal to a stranger.


def signalled(strangers: Sequence[Stranger]) -> list[str]:
    """Return a finding for each stranger that got a signal, or is gone."""
    found = []
    for stranger in strangers:
        first = stranger.first_seen
        now = table.look_at(first.pid)
        if now is None or now.started != first.started or not now.is_alive:
            state = "gone" if now is None or now.started != first.started else now.state
            found.append(f"stranger {first.pid} does not live on: {state}")
        signals = stranger.log.read_text().splitlines() if stranger.log.exists() else []
        found += [f"stranger {first.pid} got {line}" for line in signals]
    return found


# The records.


def inconsistent(
    listed: Mapping[str, ProcessRecord], on_disk: Mapping[str, ProcessRecord]
) -> list[str]:
    """Return where the worker's last word and the records on disk differ, or a process goes on."""
    found = [f"{id_}: listed, but without a record on disk" for id_ in listed.keys() - on_disk]
    found += [f"{id_}: a record on disk that was not listed" for id_ in on_disk.keys() - listed]
    for id_ in sorted(listed.keys() & on_disk):
        if listed[id_] != on_disk[id_]:
            found.append(f"{id_}: its record on disk differs from what the worker says")
        if not listed[id_].is_terminal:
            found.append(f"{id_}: its record says that it is {listed[id_].status}")
    return found
