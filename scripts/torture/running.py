"""The torture itself: actors, deliverers and a killer of workers at work until time is up."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import anyio

from moorage.errors import ConnectionLost, EnvironmentDied, ExecutionError, OutcomeUnknown
from moorage.host.session import Session
from torture.actions import Actor, choose, is_excused
from torture.delivering import deliver
from torture.impostors import plant
from torture.proofs import Deliveries
from torture.stage import Place
from torture.strangers import Stranger
from torture.subjects import Chronicle

ACTORS_PER_HANDLE = 3
PAUSES = {"act": (0.0, 0.25), "deliver": (0.2, 0.8), "crash": (3.0, 9.0)}
"""Seconds between two deeds, at least and at most."""

LONGEST_ACTION_SECONDS = 15.0
"""One that takes longer hangs; the torture goes on without it and tells."""

LOSSES = (ConnectionLost, EnvironmentDied, OutcomeUnknown)


class Torture:
    """Everything that happens between the opening of the sessions and their winding down."""

    def __init__(
        self,
        seed: int,
        token: str,
        chronicle: Chronicle,
        deliveries: Deliveries,
        strangers: Sequence[Stranger],
    ) -> None:
        """Do nothing yet; the same seed makes the same choices, though not the same timing."""
        self._seed = seed
        self._token = token
        self._chronicle = chronicle
        self._deliveries = deliveries
        self._strangers = strangers
        self._ends_at = 0.0

    async def run(self, places: Sequence[Place], seconds: float) -> None:
        """Torture for so long; whatever is under way then is finished."""
        self._ends_at = anyio.current_time() + seconds
        async with anyio.create_task_group() as tasks:
            for place in places:
                tasks.start_soon(self._kill_workers, place)
                for number, session in enumerate(place.handles):
                    tasks.start_soon(self._deliver, place, session)
                    for at in range(ACTORS_PER_HANDLE):
                        tasks.start_soon(self._act, place, session, f"{number}.{at}")

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self._seed} {name}")  # noqa: S311 - to be had again, not secret

    async def _pauses(self, kind: str, rng: random.Random) -> bool:
        """Wait a little; return whether there is time left."""
        await anyio.sleep(rng.uniform(*PAUSES[kind]))
        return anyio.current_time() < self._ends_at

    async def _act(self, place: Place, session: Session, name: str) -> None:
        rng = self._rng(f"{place.name} actor {name}")
        actor = Actor(rng, place, session, self._chronicle, self._deliveries, self._token)
        while await self._pauses("act", rng):
            action = choose(actor)
            await self._attempt(
                place,
                action.__name__,
                lambda action=action: action(actor),  # type: ignore[misc]
                lambda error, action=action: is_excused(action, error),  # type: ignore[misc]
            )

    async def _deliver(self, place: Place, session: Session) -> None:
        rng = self._rng(f"{place.name} deliverer")
        while await self._pauses("deliver", rng):
            await self._attempt(place, "deliver", lambda: deliver(session, self._deliveries))

    async def _kill_workers(self, place: Place) -> None:
        rng = self._rng(f"{place.name} killer")
        while await self._pauses("crash", rng):
            if rng.random() < 0.5:
                plant(place, self._chronicle, rng.choice(self._strangers), rng)
            if place.crash():
                self._chronicle.note_crash(place.name)

    async def _attempt(
        self,
        place: Place,
        name: str,
        work: Callable[[], Awaitable[object]],
        is_excused: Callable[[ExecutionError], bool] = lambda _: False,
    ) -> None:
        begun = anyio.current_time()
        try:
            with anyio.fail_after(LONGEST_ACTION_SECONDS):
                await work()
        except TimeoutError:
            self._surprise(f"{place.name}: {name} took more than {LONGEST_ACTION_SECONDS:g} s")
        except LOSSES as error:
            self._chronicle.counts["call that lost its worker"] += 1
            if not place.was_crashed_since(begun):
                self._surprise(f"{place.name}: {name} lost a worker that nobody killed: {error}")
        except ExecutionError as error:
            if not is_excused(error):
                self._surprise(f"{place.name}: {name} failed: {type(error).__name__}: {error}")

    def _surprise(self, text: str) -> None:
        self._chronicle.surprises.append(text)
