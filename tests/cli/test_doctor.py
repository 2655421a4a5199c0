from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import moorage
from moorage.app.config import Configuration, ConfinementChoice
from moorage.cli import doctor
from moorage.cli.machine import Finding, ProbeLimits
from moorage.confine.attacks import ATTACKS
from moorage.confine.report import GAPS
from moorage.confine.selftest import SelfTest
from moorage.errors import ConfigError, ConfinementUnavailable, ProvisionError

ENFORCED = [SelfTest(name="write a file outside", is_enforced=True)]
OWNED = next(attack for attack in ATTACKS if attack.gap)


class Looks:
    """Stands in for a machine that has everything but one program."""

    def __init__(self, *, limits: ProbeLimits) -> None:
        self.limits = limits

    async def look(self) -> list[Finding]:
        return [
            Finding(name="Landlock", state="ok", detail="ABI 7", is_required=True),
            Finding(name="podman", state="missing", detail="optional", fix="get podman"),
        ]


@pytest.fixture(autouse=True)
def _machine(home: Any, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "Machine", Looks)
    monkeypatch.setattr(doctor, "run_self_tests", lambda: ENFORCED)
    monkeypatch.setattr(doctor.landlock, "abi", lambda: 7)
    session.ends(stdout="it works\n")


def attacks_end(monkeypatch: pytest.MonkeyPatch, *tests: SelfTest) -> None:
    monkeypatch.setattr(doctor, "run_self_tests", lambda: list(tests))


def test_a_machine_that_works_exits_with_0_and_shows_gaps_with_their_fix(
    command_line: Any,
) -> None:
    ended = command_line("doctor")
    out = ended.out.decode()
    assert ended.code == 0
    assert "  ok       Landlock    ABI 7\n" in out
    assert "  missing  podman      optional\n           fix         get podman\n" in out
    assert "  refused  write a file outside\n" in out
    assert "  network          The network is open.\n" in out
    assert "docs/not-protected.md" in " ".join(out.split())
    assert "  ok       main path   a confined local session ran a command" in out
    assert out.endswith("Next: moorage demo\n")


def test_everything_is_there_as_json(command_line: Any) -> None:
    report = command_line("doctor", "--json").document
    assert report["is_fine"]
    assert report["main_path"]["state"] == "ok"
    assert [finding["name"] for finding in report["findings"]] == ["Landlock", "podman"]
    assert report["self_tests"][0] == {
        "name": "write a file outside",
        "is_enforced": True,
        "detail": "",
    }
    assert report["not_enforced"]["network"] == GAPS["network"]


def test_a_gap_that_is_owned_up_to_is_shown_and_is_no_failure(
    command_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = f"it came through. {GAPS[OWNED.gap]}"
    attacks_end(monkeypatch, SelfTest(name=OWNED.name, is_enforced=False, detail=detail))
    ended = command_line("doctor")
    assert ended.code == 0
    assert f"  open     {OWNED.name}: it came through.\n" in ended.out.decode()


def test_an_attack_that_should_have_been_stopped_is_a_failure(
    command_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacks_end(monkeypatch, SelfTest(name="write a file outside", is_enforced=False, detail="!"))
    ended = command_line("doctor")
    assert ended.code == 1
    assert "  open     write a file outside: !\n" in ended.out.decode()
    assert b"does not work here" in ended.err


def test_attacks_that_cannot_be_tried_prove_nothing(
    command_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[SelfTest]:
        raise ProvisionError("no answer.")

    monkeypatch.setattr(doctor, "run_self_tests", fail)
    ended = command_line("doctor", "--json")
    assert ended.code == 1
    assert ended.document["self_tests"][0]["detail"] == "no answer."


def test_a_session_that_cannot_be_opened_says_what_helps(command_line: Any, session: Any) -> None:
    session.error = ConfinementUnavailable("no Landlock.", hint="Use Linux 6.2.")
    ended = command_line("doctor", "--json")
    assert ended.code == 1
    main_path = ended.document["main_path"]
    assert (main_path["detail"], main_path["fix"]) == ("no Landlock.", "Use Linux 6.2.")


def test_a_command_that_ends_otherwise_is_a_failure(command_line: Any, session: Any) -> None:
    session.ends(exit_code=1, stderr="no space left")
    main_path = command_line("doctor", "--json").document["main_path"]
    assert main_path["detail"] == "a command ended with 1: no space left"


def test_a_session_that_never_answers_is_not_waited_for(
    command_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def open_session(*_: Any, **__: Any) -> AsyncIterator[None]:
        await doctor.anyio.sleep_forever()
        yield

    monkeypatch.setattr(moorage, "open_session", open_session)
    monkeypatch.setattr(doctor, "LIMITS", ProbeLimits(main_path_seconds=0.01))
    main_path = command_line("doctor", "--json").document["main_path"]
    assert main_path["detail"] == "no answer within 0.01 s"


def test_the_users_configuration_counts(command_line: Any, session: Any, home: Any) -> None:
    (home / "config.json").write_text("{}")
    seen: list[list[str]] = []
    run = session.run

    async def look_and_run(command: str, **options: Any) -> Any:
        seen.append([file.name for file in session.opened_with["home"].iterdir()])
        return await run(command, **options)

    session.run = look_and_run
    assert command_line("doctor").code == 0
    assert seen == [["config.json"]]


def test_where_a_provider_confines_doctor_speaks_of_it_and_not_of_the_kernel(
    command_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacks_end(monkeypatch, SelfTest(name="never tried", is_enforced=False))
    choice = ConfinementChoice(
        argv=("/usr/bin/bwrap",),
        enforcement="full",
        hidden=("--tmpfs", "{path}"),
        writable=("--bind", "{path}", "{path}"),
    )
    monkeypatch.setattr(doctor, "load", lambda _: Configuration(confinement=choice))
    report = command_line("doctor", "--json").document
    assert (report["self_tests"], report["provider"]) == ([], "/usr/bin/bwrap")
    assert report["not_enforced"] == {"provider": GAPS["provider"]}
    out = command_line("doctor").out.decode()
    assert "  none: /usr/bin/bwrap confines commands here" in out


def test_a_broken_configuration_is_for_the_main_path_to_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: Any) -> None:
        raise ConfigError("broken")

    monkeypatch.setattr(doctor, "load", broken)
    assert doctor.configured_provider() == ""
