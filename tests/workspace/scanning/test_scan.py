"""Reading a file block by block: numbers, binary files, long lines, lines around a match."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moorage.workspace.scanning import scan as scan_module
from moorage.workspace.scanning.automaton import Automaton
from moorage.workspace.scanning.pattern import parse
from moorage.workspace.scanning.scan import LineFinder, Scanner
from moorage.workspace.search.hits import Line, SearchLimits, Sheet, Slice


def scan(
    path: Path, content: bytes, pattern: str, *, around: int = 0, wanted: Slice | None = None
) -> tuple[int, Sheet]:
    path.write_bytes(content)
    scanner = Scanner(LineFinder(parse(pattern)), before=around, after=around)
    sheet = Sheet(wanted or Slice(b"f", 99, 0, 99), SearchLimits())
    fd = os.open(path, os.O_RDONLY)
    try:
        count = scanner.count(fd)
        os.lseek(fd, 0, os.SEEK_SET)
        scanner.read(fd, sheet, is_named=True)
    finally:
        os.close(fd)
    return count, sheet


def numbers(sheet: Sheet) -> list[int]:
    return [
        record.line.number for record in sheet.records(before=9, after=9) if record.line is not None
    ]


@pytest.fixture(params=[3, 7, 64])
def block_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(scan_module, "_BLOCK_BYTES", request.param)
    return request.param


@pytest.mark.usefixtures("block_bytes")
def test_lines_keep_their_numbers_however_the_file_is_cut(tmp_path: Path) -> None:
    content = "".join(f"{'hit' if number % 3 else 'miss'} \u00e9{number}\n" for number in range(30))
    count, sheet = scan(tmp_path / "f", content.encode(), "hit")
    expected = [number + 1 for number in range(30) if number % 3]
    assert (count, numbers(sheet)) == (len(expected), expected)


@pytest.mark.usefixtures("block_bytes")
def test_lines_around_a_match_are_found_across_the_cuts(tmp_path: Path) -> None:
    lines = [b"%d" % number for number in range(20)]
    _, sheet = scan(tmp_path / "f", b"\n".join(lines), "^(5|6|12)$", around=2)
    shown = [
        (
            [line.number for line in record.before],
            record.line and record.line.number,
            [line.number for line in record.after],
        )
        for record in sheet.records(before=2, after=2)
    ]
    assert shown == [([4, 5], 6, []), ([], 7, [8, 9]), ([11, 12], 13, [14, 15])]


@pytest.mark.usefixtures("block_bytes")
def test_utf_16_is_read_however_the_file_is_cut(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        content = "\ufeffone \u00e9\nhit \U0001f600\n".encode(encoding)
        count, sheet = scan(tmp_path / "f", content, "hit .$")
        assert (count, numbers(sheet)) == (1, [2])


def test_a_binary_file_has_no_match_unless_it_was_named(tmp_path: Path) -> None:
    count, sheet = scan(tmp_path / "f", b"hit\n\0hit\n", "hit")
    assert count == 0
    assert sheet.is_binary
    assert numbers(sheet) == [1, 3]


def test_reading_ends_with_the_last_line_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "_BLOCK_BYTES", 8)
    _, sheet = scan(tmp_path / "f", b"hit\n" * 1000, "hit", wanted=Slice(b"f", 1000, 2, 3))
    assert sheet.matches < 20
    assert numbers(sheet) == [3, 4, 5]


def test_a_line_longer_than_what_is_held_ends_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "_BLOCK_BYTES", 64)
    monkeypatch.setattr(scan_module, "_MAX_CARRIED_BYTES", 1000)
    count, _ = scan(tmp_path / "f", b"hit\n" + b"x" * 5000 + b"hit\nhit\n", "hit")
    assert count == 1


@pytest.mark.parametrize("pattern", [".*a.*b.*c.*", "(x+x+)+y", "(?:a|ab)(?:c|bcd)(?:d*)"])
def test_a_long_line_is_left_to_the_automaton(tmp_path: Path, pattern: str) -> None:
    hit = "xabcdxxy a b c"
    content = f"{hit}\n{'x' * 100_000}\n{'x' * 50_000}{hit}\n".encode()
    count, sheet = scan(tmp_path / "f", content, pattern)
    assert (count, numbers(sheet)) == (2, [1, 3])


def test_lines_that_a_wider_pattern_leaves_out_are_not_read_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real_find = Automaton.find

    def find(self: Automaton, line: str) -> int:
        read.append(line)
        return real_find(self, line)

    monkeypatch.setattr(Automaton, "find", find)
    content = b"nothing\nfoobarx\nfobarx\nother\n"
    for more in (b"", b"y" * 20_000 + b"x\n"):
        read.clear()
        assert scan(tmp_path / "f", content + more, "(?:foo|bar){2}x")[0] == 1
        assert set(read) == {"foobarx", "fobarx", more.decode().strip()} - {""}


def test_an_empty_match_is_found_on_each_line_and_not_behind_the_last(tmp_path: Path) -> None:
    for content, expected in ((b"a\n\nb\n", 3), (b"a\n\nb", 3), (b"", 0), (b"\n", 1)):
        assert scan(tmp_path / "f", content, "")[0] == expected


def test_the_first_match_in_a_line_is_placed_in_bytes(tmp_path: Path) -> None:
    _, sheet = scan(tmp_path / "f", "\u00e9\u00e9 hit\r\n".encode(), "hit")
    (record,) = sheet.records(before=0, after=0)
    assert record.line == Line(1, "\u00e9\u00e9 hit\r".encode(), is_match=True, match_at=5)
