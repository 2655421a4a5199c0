from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("landlock")


def test_files_are_written_read_edited_and_found(terminal: Any) -> None:
    assert terminal("tool", "write_file", "path=a.py", "content@-", stdin=b"x = 1\n").code == 0
    assert b"x = 1" in terminal("tool", "read_file", "path=a.py").out
    edited = terminal("tool", "edit_file", "path=a.py", "old_text=1", "new_text=2", "--json")
    assert edited.document["structured_content"]["replacements"] == 1
    assert (terminal.project / "a.py").read_text() == "x = 2\n"
    assert b"a.py" in terminal("tool", "grep", "pattern=x = \\d").out
    assert b"a.py" in terminal("tool", "glob", "pattern=**/*.py").out
    assert b"a.py" in terminal("tool", "list_files").out


def test_a_match_that_is_not_there_fails_and_changes_nothing(terminal: Any) -> None:
    (terminal.project / "a.py").write_text("x = 1\n")
    ended = terminal("tool", "edit_file", "path=a.py", "old_text=y", "new_text=2")
    assert (ended.code, ended.out) == (1, b"")
    assert (terminal.project / "a.py").read_text() == "x = 1\n"


def test_an_artifact_is_copied_home(terminal: Any) -> None:
    (terminal.project / "report.txt").write_text("done\n")
    ended = terminal("tool", "present_artifact", "path=report.txt", "--json")
    assert ended.code == 0
    kept = Path(ended.document["structured_content"]["path"])
    assert kept.read_text() == "done\n"
    assert terminal.home in kept.parents


@pytest.mark.needs("git")
def test_the_repository_is_read(terminal: Any) -> None:
    assert terminal("run", "--", "git", "init", "-q").code == 0
    ended = terminal("tool", "git", '{"subcommand": "status"}')
    assert ended.code == 0


def test_a_command_is_read_as_a_model_reads_it(terminal: Any) -> None:
    ended = terminal("tool", "bash", "command=echo out; exit 4")
    assert ended.code == 0
    assert ended.out == b"out\nExit code 4\n"


def test_an_environment_is_checked_by_using_it(terminal: Any) -> None:
    ended = terminal("env", "check", "local", "--json")
    assert ended.code == 0
    assert ended.document["is_fine"]
    names = [finding["name"] for finding in ended.document["findings"]]
    assert names[0] == "profile"
    assert {"open", "capabilities", "files", "command", "confinement"} <= set(names)
    assert names[-1] == "close"


def test_a_check_speaks_to_people_and_says_what_fails(terminal: Any) -> None:
    fine = terminal("env", "check", "--workspace", str(terminal.project))
    assert fine.code == 0
    assert fine.out.endswith(b"local works.\n")
    broken = terminal.without_landlock()("env", "check")
    assert broken.code == 1
    assert b"Landlock" in broken.err
    assert b"works" not in broken.out


def test_the_worker_says_how_it_is_started(terminal: Any) -> None:
    ended = terminal("worker", "--help")
    assert ended.code == 0
    assert b"--token-fd" in ended.out
