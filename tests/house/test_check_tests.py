from __future__ import annotations

from pathlib import Path

import pytest

import check_tests
import repository


def found(source: str) -> list[str]:
    return list(check_tests.test_findings(Path("tests/test_it.py"), source))


@pytest.mark.parametrize(
    "line",
    ["time.sleep(1)", "await anyio.sleep(0.01)", "sleep(delay)", "await anyio.sleep_until(9)"],
)
def test_a_sleep_is_found(line: str) -> None:
    (finding,) = found(f"async def test_it():\n    {line}\n")
    assert finding.startswith("tests/test_it.py:2: sleep")


@pytest.mark.parametrize("line", ["started = time.monotonic()", "assert perf_counter() < 1"])
def test_reading_a_clock_to_measure_is_found(line: str) -> None:
    assert len(found(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "@pytest.mark.skipif(not has_rg, reason='')",
        "@pytest.mark.skip",
        "@pytest.importorskip('x')",
    ],
)
def test_a_skip_of_the_tests_own_making_is_found(line: str) -> None:
    assert len(found(f"{line}\ndef test_it():\n    pass\n")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "await anyio.sleep(0)",
        "await anyio.sleep_forever()",
        "await session.run('sleep 5 & echo started')",
        "os.utime(path, (time.time(), 0))",
    ],
)
def test_what_waits_for_no_time_is_fine(line: str) -> None:
    assert found(f"async def test_it():\n    {line}\n") == []


def test_only_what_honours_the_needs_of_tests_may_skip() -> None:
    source = "pytest.skip('here')\ntime.sleep(1)\n"
    (finding,) = check_tests.test_findings(Path("tests/conftest.py"), source)
    assert "sleep" in finding
    assert len(list(check_tests.test_findings(Path("tests/tools/conftest.py"), source))) == 2


def test_modules_of_fixtures_are_looked_at_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Path("tests/room/conftest.py")
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text("sleep(1)\n")
    monkeypatch.setattr(repository, "files", lambda _: [module])
    assert len(check_tests.findings(tmp_path)) == 1
