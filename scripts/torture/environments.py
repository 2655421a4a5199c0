"""Kill hosts, workers, transports, containers and the engine at random, in real Docker.

Each round opens a session, lets it do something once, and kills one of them in the middle. Then it
looks: every effect happened at most once, and exactly once where its host was told so; files of a
container that is kept are there, or the error says that they are gone. In the end nothing is left
that ``moorage env prune`` does not find. Exits with 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

import moorage
from moorage.errors import ExecutionError, RetainedStateMissing

DEFAULT_SEED = 20_260_201
ROUNDS = 200
QUICK_ROUNDS = 20
LONGEST_DELAY = 1.2
ROUND_SECONDS = 120
SETTLE_ATTEMPTS = 5

# A host of its own, so that it can be killed: it says what it was told, a line a call.
HOST = """
import sys, anyio, moorage
home, name, token, is_new = sys.argv[1:]
async def main():
    chosen = {"name": name} if is_new == "new" else {"session_id": name}
    async with moorage.open_session(home=home, **chosen) as session:
        print("open", flush=True)
        ended = await session.run(f"echo {token} >> effects; sleep 0.3; echo {token}")
        print("told" if ended.stdout.strip() == token else "other", flush=True)
anyio.run(main)
"""

FAULTS = ("host", "worker", "transport", "container", "engine", "removal", "none")
WEIGHTS = (4, 4, 4, 4, 1, 1, 2)


class Fault(Exception):
    """Something that must hold does not."""


def wrong_effects(tokens: list[tuple[str, bool]], text: str) -> list[str]:
    """Return what is wrong with the effects, given who was told of them."""
    lines = Counter(text.split())
    twice = [f"{token} happened {lines[token]} times" for token, _ in tokens if lines[token] > 1]
    gone = [
        f"{token} was told to have happened, and its effect is gone"
        for token, is_told in tokens
        if is_told and not lines[token]
    ]
    strange = lines.keys() - {token for token, _ in tokens}
    return twice + gone + [f"nobody asked for {token}" for token in sorted(strange)]


class Rounds:
    """The rounds of one run, over sessions whose containers are kept."""

    def __init__(self, engine: Any, home: Path, seed: int) -> None:
        """Begin with no session."""
        self._engine = engine
        self._home = home
        self._choice = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self._sessions = 0
        self._name = ""
        self._tokens: list[tuple[str, bool]] = []
        self.counts: Counter[str] = Counter()

    async def run(self, rounds: int) -> None:
        """Run them one after another.

        Raises:
            Fault: something does not hold.
        """
        for number in range(rounds):
            fault = self._choice.choices(FAULTS, WEIGHTS)[0]
            try:
                with anyio.fail_after(ROUND_SECONDS):
                    await self._round(number, fault)
            except Fault as problem:
                raise Fault(f"round {number} ({fault}): {problem}") from problem
            self.counts[fault] += 1
            print(f"\r{number + 1} of {rounds} rounds", end="", flush=True)
        print()

    async def _round(self, number: int, fault: str) -> None:
        is_new = not self._name
        if is_new:
            self._sessions += 1
            self._name, self._tokens = f"s{self._sessions}", []
        token = f"token-{number}"
        is_told = await self._one_effect(token, fault, is_new=is_new)
        self._tokens.append((token, is_told))
        if fault == "removal":
            await self._expect_missing()
            self._name = ""
        else:
            await self._check_effects()

    async def _one_effect(self, token: str, fault: str, *, is_new: bool) -> bool:
        """Have a host do one thing, with a fault in the middle; return whether it was told so."""
        arguments = [str(self._home), self._name, token, "new" if is_new else "again"]
        process = await anyio.open_process(
            [sys.executable, "-c", HOST, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        said = b""
        async with process:
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            while b"open" not in said:
                try:
                    said += await process.stdout.receive()
                except anyio.EndOfStream:
                    break
            await anyio.sleep(self._choice.uniform(0, LONGEST_DELAY))
            await self._inject(fault, process.pid)
            try:
                while True:
                    said += await process.stdout.receive()
            except anyio.EndOfStream:
                pass
            await process.wait()
        return b"told" in said

    async def _inject(self, fault: str, host: int) -> None:
        container = self._container()
        orders: dict[str, Callable[[], object]] = {
            "host": lambda: _kill(host),
            "transport": lambda: self._order("exec", container, "sh", "-c", _KILL_WAYS),
            "worker": lambda: self._order("exec", container, "sh", "-c", _KILL_WORKER),
            "container": lambda: self._order("kill", container),
            "removal": lambda: self._order("rm", "--force", container),
            "engine": self._restart_engine,
            "none": lambda: None,
        }
        await anyio.to_thread.run_sync(orders[fault])

    def _container(self) -> str:
        found = json.loads(
            (self._home / "state" / "sessions" / self._session_id() / "selection.json").read_text()
        )
        from moorage.backends.profile import Profile  # noqa: PLC0415 - only the torture asks
        from moorage.host.environments import identity_of  # noqa: PLC0415

        profile = Profile(**found["profile"])
        return identity_of(str(self._home / "state"), found["id"], profile)

    def _session_id(self) -> str:
        for folder in (self._home / "state" / "sessions").iterdir():
            selection = json.loads((folder / "selection.json").read_text())
            if selection.get("name") == self._name:
                return folder.name
        raise Fault("the session was not kept")

    def _order(self, *words: str) -> None:
        subprocess.run(
            ["docker", *words],
            env=self._engine.variables, capture_output=True, check=False, timeout=ROUND_SECONDS,
        )  # fmt: skip

    def _restart_engine(self) -> None:
        self._engine.end()
        # It may stand for a while yet until somebody takes note of its end.
        (self._engine.folder / "pid").unlink(missing_ok=True)
        self._engine.start()

    # What must hold.

    async def _check_effects(self) -> None:
        text = await self._settled("cat effects 2>/dev/null; true")
        if found := wrong_effects(self._tokens, text):
            raise Fault("; ".join(found))
        token, is_told = self._tokens[-1]
        if is_told:
            self.counts["told"] += 1
        else:
            self.counts["happened untold" if token in text.split() else "never happened"] += 1

    async def _expect_missing(self) -> None:
        try:
            text = await self._settled("cat effects")
        except RetainedStateMissing:
            return
        raise Fault(f"a container was removed, and something took its place: {text!r}")

    async def _settled(self, command: str) -> str:
        """Run a command that only looks, again while the environment is not itself yet."""
        for attempt in range(SETTLE_ATTEMPTS):
            try:
                async with moorage.open_session(home=self._home, session_id=self._name) as session:
                    return (await session.run(command)).stdout
            except RetainedStateMissing:
                raise
            except ExecutionError:
                if attempt == SETTLE_ATTEMPTS - 1:
                    raise
                await anyio.sleep(1)
        raise AssertionError


_KILL_WORKER = (
    "for each in /proc/[0-9]*; do "
    "tr '\\0' ' ' < $each/cmdline | grep -q 'moorage-worker' && kill -9 ${each#/proc/}; done"
)

# What passes bytes to a worker has the host at its standard input; the worker has nothing there.
_KILL_WAYS = (
    "for each in /proc/[0-9]*; do "
    "tr '\\0' ' ' < $each/cmdline | grep -q 'moorage-worker connect' "
    "&& readlink $each/fd/0 | grep -q '^pipe:' && kill -9 ${each#/proc/}; done"
)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


async def torture(engine: Any, home: Path, seed: int, rounds: int) -> list[str]:
    """Return what does not hold, and print what was done."""
    profile = {
        "backend": "docker",
        "image": "moorage-test/worker",
        "network": "none",
        "persistent": True,
    }
    document = {"execution_environments": {"default": "box", "profiles": {"box": profile}}}
    (home / "config.json").write_text(json.dumps(document))
    running = Rounds(engine, home, seed)
    findings = []
    try:
        await running.run(rounds)
    except Fault as problem:
        findings.append(str(problem))
    print(", ".join(f"{name}: {count}" for name, count in running.counts.most_common()))
    return findings


def main() -> int:
    """Run as the command line says; the exit code is 0 when everything held."""
    parser = argparse.ArgumentParser(prog="torture-environments", description=__doc__)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="of all choices")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS} by default")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    options = parser.parse_args()
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        print("torture-environments: not run; it needs root and a Docker engine to start")
        return 1 if os.environ.get("CI") == "true" else 0
    own_engine = import_module("tests.live.engine").own_engine
    rounds = QUICK_ROUNDS if options.quick else options.rounds
    print(f"torture-environments: seed {options.seed}, {rounds} rounds", flush=True)
    with TemporaryDirectory(prefix="moorage-torture-") as folder, own_engine() as engine:
        engine.make_images()
        home = Path(folder).resolve()
        os.environ["DOCKER_HOST"] = engine.host
        findings = anyio.run(torture, engine, home, options.seed, rounds)
    for finding in findings:
        print(f"FAILED: {finding}")
    if not findings:
        print("torture-environments: all held")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
