from __future__ import annotations

import os

import pytest

pytest_plugins = ["pytester"]

CONFTEST_HEAD = "tests/conftest.py"
NEEDY_TEST = """
import pytest

@pytest.mark.needs({service!r})
def test_it():
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> pytest.Pytester:
    conftest = (request.config.rootpath / CONFTEST_HEAD).read_text()
    pytester.makeconftest(
        conftest + "\nSERVICES = {'there': lambda: True, 'gone': lambda: False}\n"
    )
    pytester.makeini("[pytest]\nmarkers = needs(*services): services of this machine\n")
    return pytester


def outcomes(project: pytest.Pytester, service: str) -> dict[str, int]:
    project.makepyfile(NEEDY_TEST.format(service=service))
    return project.runpytest_inprocess("-p", "no:cacheprovider").parseoutcomes()


def test_a_service_that_is_there_lets_the_test_run(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    assert outcomes(project, "there") == {"passed": 1}


def test_a_missing_service_skips_the_test(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert outcomes(project, "gone") == {"skipped": 1}


def test_a_missing_service_is_a_failure_under_ci(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    assert outcomes(project, "gone") == {"errors": 1}


def test_a_circumstance_that_is_not_given_skips_even_under_ci(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    absent = "not root" if os.geteuid() == 0 else "root"
    assert outcomes(project, absent) == {"skipped": 1}


def test_an_unknown_service_is_an_error_of_the_test(project: pytest.Pytester) -> None:
    assert "errors" in outcomes(project, "typo")
