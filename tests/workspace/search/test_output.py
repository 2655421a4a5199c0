"""How the output of a search is read, in whatever pieces it comes, and whatever it is."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.workspace.search import output as output_module
from moorage.workspace.search.hits import SearchLimits, Sheet, Slice
from moorage.workspace.search.output import (
    MAX_RECORD_BYTES,
    CountStream,
    Garbled,
    JsonStream,
    PathStream,
    file_counts,
)


def message(kind: str, **data: Any) -> bytes:
    return json.dumps({"type": kind, "data": data}, separators=(",", ":")).encode() + b"\n"


def file_of(path: str, *lines: bytes, binary_offset: int | None = None) -> bytes:
    where = {"path": {"text": path}}
    return b"".join(
        (message("begin", **where), *lines, message("end", **where, binary_offset=binary_offset))
    )


def line(number: int, text: str, *, kind: str = "match", starts: tuple[int, ...] = (0,)) -> bytes:
    return message(
        kind,
        path={"text": "./f"},
        lines={"text": text},
        line_number=number,
        absolute_offset=0,
        submatches=[{"match": {"text": "x"}, "start": at, "end": at + 1} for at in starts],
    )


def read(output: bytes, step: int = 10**9, *, sheet: Sheet | None = None) -> Sheet:
    sheet = sheet or Sheet(Slice(b"f", 9, 0, 9), SearchLimits())
    stream = JsonStream({b"f": sheet})
    for at in range(0, len(output), step):
        stream.feed(output[at : at + step])
    return sheet


OUTPUT = b"".join(
    (
        file_of("./other", line(1, "other\n")),
        file_of(
            "./f",
            line(2, "before\n", kind="context", starts=()),
            line(3, "caf\u00e9 x\r\n", starts=(6,)),
        ),
        message("summary", stats={}),
    )
)


@given(st.integers(1, 400))
def test_lines_survive_any_split(step: int) -> None:
    (record,) = read(OUTPUT, step).records(before=1, after=0)
    assert record.line is not None
    assert (record.line.number, record.line.text.decode(), record.line.match_at) == (
        3,
        "caf\u00e9 x",
        6,
    )
    assert [near.text for near in record.before] == [b"before"]


def test_paths_and_lines_that_are_no_utf_8_come_as_base64() -> None:
    where = {"path": {"bytes": base64.b64encode(b"./b\xff").decode()}}
    body = message(
        "match",
        **where,
        lines={"bytes": base64.b64encode(b"\xfe\n").decode()},
        line_number=1,
        absolute_offset=0,
        submatches=[],
    )
    sheet = Sheet(Slice(b"b\xff", 1, 0, 1), SearchLimits())
    JsonStream({b"b\xff": sheet}).feed(message("begin", **where) + body)
    (record,) = sheet.records(before=0, after=0)
    assert record.line is not None
    assert record.line.text == b"\xfe"


def test_a_binary_file_is_known_by_its_end() -> None:
    assert read(file_of("./f", line(1, "x\n"), binary_offset=7)).is_binary
    assert not read(file_of("./f", line(1, "x\n"))).is_binary


@pytest.mark.parametrize("step", [7, 50, 1000, 10**9])
def test_a_line_whose_matches_are_too_many_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(output_module, "_MAX_JSON_LINE", 300)
    long_line = line(4, "some x text\n", starts=tuple(range(5, 100)))
    sheet = read(file_of("./f", long_line, line(5, "next\n")), step)
    first, second = sheet.records(before=0, after=0)
    assert first.line is not None
    assert (first.line.number, first.line.text, first.line.match_at) == (4, b"some x text", 5)
    assert second.line is not None
    assert second.line.number == 5


@pytest.mark.parametrize("step", [7, 50, 299])
def test_a_line_too_long_to_be_held_keeps_its_number(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(output_module, "_MAX_JSON_LINE", 300)
    sheet = read(file_of("./f", line(123, "y" * 5000 + "\n"), line(124, "next\n")), step)
    first, second = sheet.records(before=0, after=0)
    assert first.line is not None
    assert (first.line.number, first.line.is_too_long, first.line.text) == (123, True, b"")
    assert second.line is not None
    assert second.line.text == b"next"


def test_a_whole_answer_is_counted_by_file_without_binary_ones() -> None:
    output = file_of("./a", line(1, "x\n"), line(2, "y\n", kind="context"), line(3, "x\n"))
    output += file_of("./b", line(1, "x\n"), binary_offset=9) + message("summary", stats={})
    assert file_counts(output, with_binary=False) == [(b"a", 2)]
    assert file_counts(output, with_binary=True) == [(b"a", 2), (b"b", 1)]


@given(st.integers(1, 30))
def test_counts_survive_any_split(step: int) -> None:
    output = b"./a\x0012\n./b\nc\x003\n<stdin>\x007\n"
    stream = CountStream()
    counts = [
        count for at in range(0, len(output), step) for count in stream.feed(output[at : at + step])
    ]
    assert counts == [(b"a", 12), (b"b\nc", 3), (b"<stdin>", 7)]


@given(st.integers(1, 30))
def test_paths_survive_any_split(step: int) -> None:
    output = b"./a\0./b c/\xff\0"
    stream = PathStream()
    paths = [
        path for at in range(0, len(output), step) for path in stream.feed(output[at : at + step])
    ]
    assert paths == [b"a", b"b c/\xff"]


@pytest.mark.parametrize("stream", [CountStream, PathStream])
def test_a_record_that_never_ends_is_garbled_before_it_grows(
    stream: type[CountStream | PathStream],
) -> None:
    reader = stream()
    for _ in range(MAX_RECORD_BYTES // 1024):
        reader.feed(b"x" * 1024)
    with pytest.raises(Garbled):
        reader.feed(b"x")


@pytest.mark.parametrize(
    "output", [b"a\0b\n", b"a\0\n", b"a\0-1\n", b"a\0" + b"9" * 30 + b"\n", b"a\0\xb2\n"]
)
def test_what_is_no_count_is_garbled(output: bytes) -> None:
    with pytest.raises(Garbled):
        CountStream().feed(output)


@pytest.mark.parametrize(
    "body",
    [
        b"no message\n",
        b"\n",
        b'{"type":"match","data":{}}\n',
        b'{"type":"match","data":{"lines":{"text":"\xff"},"line_number":1,"submatches":[]}}\n',
        line(-1, "x"),
        line(10**30, "x"),
        line(1, "x", starts=(10**30,)),
        b"[" * 100_000 + b"\n",
        b"x" * 5000,
    ],
)
def test_what_is_no_message_is_garbled(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "_MAX_JSON_LINE", 3000)
    with pytest.raises(Garbled):
        read(message("begin", path={"text": "./f"}) + body)


def test_a_file_whose_name_is_no_message_is_garbled() -> None:
    with pytest.raises(Garbled):
        file_counts(b'{"type":"begin","data":7}\n', with_binary=False)


def test_lines_around_no_match_do_not_pile_up() -> None:
    sheet = Sheet(Slice(b"f", 9, 5, 9), SearchLimits(max_context_lines=2))
    around = b"".join(line(number, "", kind="context", starts=()) for number in range(1, 100))
    read(file_of("./f", around, line(100, "x")), sheet=sheet)
    assert len(sheet._lines) <= 5
