"""What the program prints; that it finds what ripgrep finds is proven by ``test_engines``."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from moorage.workspace.scanning import program
from moorage.workspace.scanning.program import Request, run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.py").write_bytes(b"one\ntwo \xff\none\r\nlast\n")
    (tmp_path / "b.txt").write_text("one\n")
    (tmp_path / "c.bin").write_bytes(b"one\n" + b"x" * 2**20 + b"\n\0")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(action: str, pattern: str = "", *paths: str, **fields: Any) -> tuple[int, str, bytes]:
    usual: dict[str, Any] = {
        "is_file": False,
        "absolute": "",
        "excluded": (),
        "name_glob": "",
        "ignore_case": False,
        "before": 0,
        "after": 0,
        "most": None,
    }
    output = BytesIO()
    code, complaint = run(Request(action=action, **usual | fields), pattern, paths, output)
    return code, complaint, output.getvalue()


def test_it_lists_files_that_are_wanted_by_name() -> None:
    assert ask("files") == (0, "", b"./a.py\0./b.txt\0./c.bin\0")
    assert ask("files", name_glob="*.py", excluded=("b.txt",)) == (0, "", b"./a.py\0")


def test_it_counts_the_matches_of_each_file_that_is_text() -> None:
    assert ask("count", "one") == (0, "", b"./a.py\x002\n./b.txt\x001\n")


def test_it_prints_lines_as_messages() -> None:
    code, _, output = ask("lines", "two|t$", "a.py", before=1)
    messages = [json.loads(line) for line in output.splitlines()]
    assert code == 0
    kinds = [message["type"] for message in messages]
    assert kinds == ["begin", "context", "match", "context", "match", "end"]
    assert messages[1]["data"]["lines"] == {"text": "one\n"}
    assert messages[2]["data"]["lines"] == {"bytes": "dHdvIP8K"}
    assert messages[2]["data"]["submatches"] == [{"start": 0}]
    assert messages[-1]["data"] == {"path": {"text": "./a.py"}, "binary_offset": None}


def test_it_prints_no_more_matches_of_a_file_than_asked_for() -> None:
    _, _, output = ask("lines", "one", "a.py", most=1)
    assert output.count(b'"type":"match"') == 1


def test_a_file_that_turns_out_to_be_binary_says_so_at_its_end() -> None:
    _, _, output = ask("lines", "one", "c.bin")
    assert output.endswith(b'{"path":{"text":"./c.bin"},"binary_offset":0}}\n')


def test_what_cannot_be_read_is_told_by_the_exit_code() -> None:
    assert ask("lines", "one", "gone") == (2, "", b"")


def test_a_pattern_that_is_none_is_a_complaint() -> None:
    code, complaint, output = ask("count", "(")
    assert (code, output) == (2, b"")
    assert "unclosed group" in complaint


@pytest.mark.parametrize("error", [MemoryError, RecursionError, OverflowError])
def test_what_needs_too_much_memory_is_a_complaint(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(program, "parse", fail)
    assert ask("count", "x") == (3, "the pattern, or a line, needs too much memory", b"")
