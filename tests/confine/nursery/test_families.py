"""Which call a process belongs to, and how a family is ended, on tables that are written down."""

from __future__ import annotations

import signal

import pytest

from moorage.confine.nursery.families import EVERYONE, Ending, Families, Sight, of_call
from moorage.confine.nursery.tree import Process, unseen


def process(pid: int, parent: int, group: int = 0, session: int = 0, state: str = "S") -> Process:
    return Process(pid, state, parent, group, session, pid * 10)


class Table:
    """A process table to write down."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.markers: dict[int, bytes] = {}
        self.signals: list[tuple[int, int]] = []
        self.clock = 0.0
        self.sight = Sight(
            snapshot=lambda: {p.pid: p for p in self.processes},
            marker_of=lambda pid: self.markers.get(pid, b""),
            send_signal=self.send_signal,
            children_of=lambda top: {p.pid for p in self.processes if p.parent == top},
            now=lambda: self.clock,
        )

    def send_signal(self, process: Process, number: int) -> bool:
        self.signals.append((process.pid, number))
        return True


TOP = 100


@pytest.fixture
def table() -> Table:
    return Table()


def families(table: Table) -> Families:
    return Families(b"n", sight=table.sight, top=TOP)


def pids(members: dict[int, list[Process]]) -> dict[int, list[int]]:
    return {call: sorted(p.pid for p in family) for call, family in members.items()}


def test_a_family_is_a_program_and_all_beneath_it(table) -> None:
    known = families(table)
    known.add(1, 201)
    known.add(2, 301)
    table.processes = [process(201, TOP), process(202, 201), process(203, 202), process(301, TOP)]
    table.processes.append(process(999, 1))
    assert pids(known.members()) == {1: [201, 202, 203], 2: [301]}


def test_an_orphan_is_known_by_marker_then_session_then_group(table) -> None:
    known = families(table)
    known.add(1, 201)
    known.add(2, 301)
    table.processes = [process(201, TOP), process(301, TOP)]
    table.processes += [
        process(400, TOP),
        process(401, TOP, session=301),
        process(402, TOP, group=201),
    ]
    table.markers = {400: b"n.2"}
    assert pids(known.members()) == {1: [201, 402], 2: [301, 400, 401]}


def test_an_orphan_stays_known_when_it_sheds_its_marker(table) -> None:
    known = families(table)
    known.add(1, 201)
    known.add(2, 301)
    table.processes = [process(201, TOP), process(301, TOP), process(400, TOP)]
    table.markers = {400: b"n.2"}
    known.members()
    table.markers = {}
    assert pids(known.members())[2] == [301, 400]
    table.processes[2] = table.processes[2]._replace(started=1)  # a reused pid is somebody else
    known.add(3, 401)
    table.processes.append(process(401, TOP))
    assert pids(known.members()) == {1: [201], 2: [301], 3: [400, 401]}


@pytest.mark.parametrize("marker", [b"", b"other.1", b"n.x", b"n", b"n.", b"n.9"])
def test_an_orphan_of_nobody_belongs_to_the_newest_call(table, marker) -> None:
    known = families(table)
    table.processes = [process(400, TOP)]
    table.markers = {400: marker}
    assert pids(known.members()) == {EVERYONE: [400]}
    known.add(1, 201)
    table.processes.append(process(201, TOP))
    assert pids(known.members()) == {1: [201, 400]}
    known = families(table)
    known.add(1, 201)
    known.add(2, 301)
    table.processes.append(process(301, TOP))
    members = known.members()
    assert pids(members) == {1: [201], 2: [301, 400]}
    assert len(of_call(members, EVERYONE)) == 3
    assert of_call(members, 7) == []


def test_an_orphan_of_nobody_belongs_to_a_running_program_rather_than_to_what_is_left(
    table,
) -> None:
    known = families(table)
    known.add(1, 201)
    known.add(2, 301)
    known.program_ended(301)
    table.processes = [process(201, TOP), process(302, TOP, session=301), process(400, TOP)]
    assert pids(known.members()) == {1: [201, 400], 2: [302]}
    known.program_ended(201)
    table.processes = [*table.processes[1:], process(401, TOP)]
    assert pids(known.members()) == {1: [400], 2: [302, 401]}


def test_an_orphan_of_nobody_belongs_first_of_all_to_a_call_that_is_ending(table) -> None:
    known = families(table)
    known.add(1, 201)
    known.add(2, 301)
    known.program_ended(201)
    table.processes = [process(301, TOP), process(400, TOP)]
    assert pids(known.members([1])) == {1: [400], 2: [301]}


def test_the_dead_are_no_members_and_a_call_without_members_is_forgotten(table) -> None:
    known = families(table)
    known.add(1, 201)
    table.processes = [process(201, TOP, state="Z"), process(202, TOP, session=201)]
    assert known.pid_of(1) == 201
    assert known.program_ended(201) == 1
    assert known.program_ended(201) is None
    assert known.pid_of(1) is None
    assert known.may_have_orphans()
    assert pids(known.members()) == {1: [202]}
    table.processes = []
    assert known.members() == {}
    assert not known.may_have_orphans()
    assert known._calls == {}


def test_a_newborn_that_a_look_missed_is_looked_for_again(table) -> None:
    known = families(table)
    known.add(1, 201)
    newborn = process(202, TOP, session=201)
    looks = iter([{}, {}, {202: newborn}])
    known.sight = table.sight._replace(snapshot=lambda: next(looks), children_of=lambda _: {202})
    assert pids(known.members()) == {1: [202]}
    known.sight = table.sight._replace(snapshot=dict, children_of=lambda _: {203})
    assert pids(known.members()) == {1: [203]}  # it lives, though no look has seen it


def test_an_ending_asks_once_waits_then_kills_and_gives_up_in_time(table) -> None:
    ending = Ending(1, now=0, grace=2, kill=3)
    family = [process(201, TOP), process(202, 201)]
    assert not ending.is_over(family, table.sight)
    assert not ending.is_over(family, table.sight)
    asked = [
        (201, signal.SIGTERM),
        (201, signal.SIGCONT),
        (202, signal.SIGTERM),
        (202, signal.SIGCONT),
    ]
    assert table.signals == asked
    table.clock = 2
    assert not ending.is_over(family[:1], table.sight)
    assert table.signals[4:] == [(201, signal.SIGKILL)]
    table.clock = 5
    assert ending.is_over(family[:1], table.sight)
    assert ending.is_over([], table.sight)


def test_without_a_grace_an_ending_kills_at_once(table) -> None:
    Ending(1, now=0, grace=0, kill=1).is_over([process(201, TOP)], table.sight)
    assert table.signals == [(201, signal.SIGKILL)]


class Blows:
    """A sight whose blows are counted."""

    def __init__(self, table: Table) -> None:
        self.count = 0
        self.sight = table.sight._replace(kill_all=self.kill_all)

    def kill_all(self) -> None:
        self.count += 1


@pytest.mark.parametrize("grace", [0, 1])
def test_the_end_of_everybody_is_over_at_once_and_without_a_blow_when_nobody_is_left(
    table, grace
) -> None:
    blows = Blows(table)
    assert Ending(EVERYONE, now=0, grace=grace, kill=3).is_over([], blows.sight)
    assert (blows.count, table.signals) == (0, [])


def test_whoever_ends_when_asked_gets_no_blow(table) -> None:
    blows = Blows(table)
    ending = Ending(EVERYONE, now=0, grace=1, kill=3)
    assert not ending.is_over([process(201, TOP)], blows.sight)
    assert ending.is_over([], blows.sight)
    assert blows.count == 0
    assert table.signals == [(201, signal.SIGTERM), (201, signal.SIGCONT)]


def test_the_end_of_everybody_kills_all_at_one_blow_after_the_grace(table) -> None:
    blows = Blows(table)
    ending = Ending(EVERYONE, now=0, grace=1, kill=3)
    table.clock = 1
    assert not ending.is_over([process(201, TOP)], blows.sight)
    assert blows.count == 1
    table.clock = 4
    assert ending.is_over([process(201, TOP)], blows.sight)


def test_the_end_of_one_call_hits_nobody_else_unless_it_grows_for_long(table) -> None:
    blows = Blows(table)
    ending = Ending(1, now=0, grace=0, kill=4)
    for pid in (201, 202, 203):  # it grows, but not for long yet
        assert not ending.is_over([process(pid, TOP)], blows.sight)
    table.clock = 1
    assert not ending.is_over([process(203, TOP)], blows.sight)  # one that the kernel holds
    assert blows.count == 0
    assert not ending.is_over([unseen(204, TOP)], blows.sight)
    assert blows.count == 1
    assert ending.is_over([], blows.sight)


def test_a_child_that_was_last_seen_elsewhere_is_a_child_all_the_same(table) -> None:
    known = families(table)
    known.add(1, 201)
    table.processes = [process(202, 999, session=201)]  # its parent has ended since
    known.sight = table.sight._replace(children_of=lambda _: {202})
    assert pids(known.members()) == {1: [202]}


def test_a_chase_hits_each_newcomer_of_what_is_ending_once_and_nobody_else(table) -> None:
    known = families(table)
    known.add(1, 201)
    known.add(2, 301)
    table.processes = [process(301, TOP), process(400, TOP), process(401, TOP)]
    table.markers = {401: b"n.2"}
    known.chase([1])
    assert table.signals == [(400, signal.SIGKILL)]


def test_where_many_are_missed_another_look_is_not_worth_its_time(table) -> None:
    known = families(table)
    looks: list[int] = []
    known.sight = table.sight._replace(
        snapshot=lambda: looks.append(1) or {}, children_of=lambda _: set(range(500, 600))
    )
    assert len(known.members()[EVERYONE]) == 100
    assert len(looks) == 1
