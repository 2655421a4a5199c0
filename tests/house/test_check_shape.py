from __future__ import annotations

from pathlib import Path

import pytest

import check_shape

PACKAGE = Path("src/moorage")


def sized(path: str, source: str) -> list[str]:
    return list(check_shape.size_findings(Path(path), source))


def test_a_module_that_is_too_long_is_named_with_its_length() -> None:
    assert sized("src/moorage/long.py", "x = 1\n" * 500) == []
    (finding,) = sized("src/moorage/long.py", "x = 1\n" * 501)
    assert finding.startswith("src/moorage/long.py: 501 lines, at most 500")


@pytest.mark.parametrize(
    ("head", "limit"), [("def f():", 60), ("async def f():", 60), ("class f:", 300)]
)
def test_a_definition_that_is_too_long_is_named_with_its_line(head: str, limit: int) -> None:
    body = "    x = 1\n"
    assert sized("m.py", f"{head}\n{body * (limit - 1)}") == []
    (finding,) = sized("m.py", f"{head}\n{body * limit}")
    assert finding == f"m.py:1: f has {limit + 1} lines, at most {limit}."


@pytest.mark.parametrize(
    "name",
    ["src/moorage/utils.py", "src/moorage/helpers/paths.py", "tests/host/test_session_manager.py"],
)
def test_a_name_that_says_nothing_is_found(name: str) -> None:
    assert len(list(check_shape.name_findings([Path(name)]))) == 1


def test_a_name_that_only_contains_such_a_word_is_fine() -> None:
    names = [Path("src/moorage/tools/shared_folder.py"), Path("src/moorage/host/database.py")]
    assert list(check_shape.name_findings(names)) == []


def test_a_full_folder_is_found_unless_it_is_a_catalogue() -> None:
    def full(room: str) -> list[Path]:
        return [PACKAGE / room / f"m{number}.py" for number in range(14)]

    assert list(check_shape.folder_findings(full("tools"), PACKAGE)) == []
    (finding,) = check_shape.folder_findings(full("host"), PACKAGE)
    assert finding.startswith("src/moorage/host: 14 modules")


def test_the_special_modules_of_a_folder_are_not_counted() -> None:
    paths = [PACKAGE / "host" / f"m{number}.py" for number in range(13)]
    paths += [PACKAGE / "host/__init__.py", PACKAGE / "host/__main__.py"]
    assert list(check_shape.folder_findings(paths, PACKAGE)) == []


def test_a_folder_that_lies_too_deep_is_found() -> None:
    (finding,) = check_shape.folder_findings([PACKAGE / "a/b/c/d.py"], PACKAGE)
    assert "3 folders deep" in finding
