"""One service for a whole test run, and nothing left of a run that was killed."""

from __future__ import annotations

import secrets
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import TEST_CACHE
from tests.live.lending import State, lent

SECONDS = 20
# Another process of a run, which uses the service until it is killed.
USER = """
import sys
from tests.live.lending import lent
with lent(sys.argv[1], "run-0001", lambda folder: {}, lambda folder, state: None):
    print("in use", flush=True)
    sys.stdin.read()
"""


class Service:
    """A service that only writes down what is done with it."""

    def __init__(self) -> None:
        self.name = f"nothing-{secrets.token_hex(6)}"
        self.done: list[str] = []

    def start(self, folder: Path) -> State:
        self.done.append("start")
        return {"folder": str(folder)}

    def end(self, _folder: Path, _state: State) -> None:
        self.done.append("end")

    def lent(self, run: str):
        return lent(self.name, run, self.start, self.end)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    (TEST_CACHE / f"live-{made.name}.lock").unlink()


def test_the_first_user_starts_a_service_and_the_last_one_ends_it(service: Service) -> None:
    with service.lent("run-0001") as first:
        with service.lent("run-0001") as second:
            assert first == second
        assert service.done == ["start"]
        with service.lent("run-0001"):
            pass
        assert Path(first["folder"]).is_dir()
    assert service.done == ["start", "end"]
    assert not Path(first["folder"]).exists()


def test_each_run_has_its_own(service: Service) -> None:
    with service.lent("run-0001") as one, service.lent("run-0002") as other:
        assert one != other
    assert service.done == ["start", "start", "end", "end"]


def test_a_service_that_does_not_start_leaves_nothing(service: Service) -> None:

    def refuse(folder: Path) -> State:
        service.start(folder)
        raise RuntimeError("it does not start")

    with (
        pytest.raises(RuntimeError, match="it does not start"),
        lent(service.name, "run-0001", refuse, service.end),
    ):
        pass
    assert service.done == ["start", "end"]
    assert not list(Path("/tmp").glob(f"*{service.name}*"))  # noqa: S108 - where they lie


def test_what_a_killed_run_has_left_is_ended_by_the_next(service: Service) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", USER, service.name],
        cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as user:  # fmt: skip
        try:
            assert select.select([user.stdout], [], [], SECONDS)[0]
            assert user.stdout.readline() == b"in use\n"
            with service.lent("run-0002"):
                assert service.done == ["start"]
        finally:
            user.kill()
    assert service.done == ["start", "end"]
    with service.lent("run-0003"):
        assert service.done == ["start", "end", "end", "start"]
