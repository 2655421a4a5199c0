from __future__ import annotations

import hashlib
import os
import socket
import threading

import anyio
import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.protocol.workspace_tools import ReadFileArguments
from moorage.tools.file_limits import FileLimits
from moorage.tools.read_file import ReadFile

UNCONFINED = PermissionMode.UNCONFINED


def error_kind(result) -> str:
    assert result.is_error
    return result.structured_content["error_kind"]


async def test_the_first_line_and_every_tenth_carry_their_number(desk) -> None:
    (desk.path / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 22)))
    result = await desk.call("read_file", path="a.txt", offset=8, limit=5)
    assert result.text.splitlines()[:5] == [
        "8|line 8",
        "|line 9",
        "10|line 10",
        "|line 11",
        "|line 12",
    ]


async def test_a_whole_file_is_described_in_full(desk) -> None:
    content = b"one\ntwo\n"
    (desk.path / "a.txt").write_bytes(content)
    result = await desk.call("read_file", path="a.txt")
    assert result.text == "1|one\n|two"
    assert result.structured_content == {
        "action": "read",
        "path": "a.txt",
        "workspace_revision": "",
        "content_sha256": hashlib.sha256(content).hexdigest(),
        "text": "one\ntwo\n",
        "num_lines": 2,
        "start_line": 1,
        "total_lines": 2,
        "range": {"start_line": 1, "end_line": 2},
        "omitted_ranges": [],
        "truncated": False,
        "continuation": {"has_more": False, "next": ""},
        "next_suggestions": [],
        "projection": {
            "projected": False,
            "budget_tokens": 8192,
            "artifact_ref": "",
            "recover": {},
            "omitted_lines": 0,
            "shown_lines": 2,
        },
    }


async def test_rereading_an_unchanged_file_returns_its_content_again(desk) -> None:
    (desk.path / "a.txt").write_text("same\n")
    first = await desk.call("read_file", path="a.txt")
    second = await desk.call("read_file", path="a.txt")
    assert first == second
    assert second.structured_content["text"] == "same\n"


async def test_a_range_says_what_it_leaves_out(desk) -> None:
    (desk.path / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 11)))
    result = await desk.call("read_file", path="a.txt", offset=4, limit=2)
    structured = result.structured_content
    assert structured["text"] == "4\n5\n"
    assert structured["omitted_ranges"] == [
        {"start_line": 1, "end_line": 3},
        {"start_line": 6, "end_line": 10},
    ]
    assert structured["continuation"]["has_more"]
    assert not structured["truncated"]
    assert "lines 6 to 10 of 10 are not shown" in result.text


@pytest.mark.parametrize("name", ["offset", "limit"])
async def test_negative_numbers_are_errors_and_zero_counts_as_absent(desk, name: str) -> None:
    (desk.path / "a.txt").write_text("1\n2\n")
    with pytest.raises(InvalidArguments, match=f"argument {name} is -1"):
        await desk.call("read_file", path="a.txt", **{name: -1})
    result = await desk.call("read_file", path="a.txt", **{name: 0})
    assert result.structured_content["num_lines"] == 2


async def test_a_path_or_a_continuation_is_needed(desk) -> None:
    with pytest.raises(InvalidArguments, match="needs a path"):
        await desk.call("read_file")


async def test_an_empty_file_is_said_to_be_empty(desk) -> None:
    (desk.path / "a.txt").touch()
    result = await desk.call("read_file", path="a.txt")
    assert result.text == "(a.txt is empty)"
    assert result.structured_content["num_lines"] == 0
    assert result.structured_content["total_lines"] == 0
    assert not result.structured_content["continuation"]["has_more"]


async def test_an_offset_past_the_end_tells_how_many_lines_there_are(desk) -> None:
    (desk.path / "a.txt").write_text("1\n2")
    result = await desk.call("read_file", path="a.txt", offset=3)
    assert error_kind(result) == "offset_past_end"
    assert "has 2 lines" in result.text


async def test_256_kib_are_read_without_a_limit_and_more_are_not(desk) -> None:
    line = b"x" * 63 + b"\n"
    (desk.path / "fits.txt").write_bytes(line * 4096)
    (desk.path / "above.txt").write_bytes(line * 4096 + b"y")
    fits = await desk.call("read_file", path="fits.txt")
    assert fits.structured_content["num_lines"] == 4096
    above = await desk.call("read_file", path="above.txt")
    assert error_kind(above) == "too_large"
    assert "offset and limit" in above.text
    tail = await desk.call("read_file", path="above.txt", offset=4097)
    assert tail.structured_content["text"] == "y"


async def test_a_range_beyond_256_kib_ends_at_a_line_and_goes_on(desk) -> None:
    line = b"x" * 99 + b"\n"
    (desk.path / "a.txt").write_bytes(line * 5000)
    first = await desk.call("read_file", path="a.txt", limit=5000)
    structured = first.structured_content
    assert structured["truncated"]
    assert len(structured["text"]) == 262_100
    assert structured["num_lines"] == 2621
    rest = await desk.call("read_file", continuation=structured["continuation"]["next"])
    assert rest.structured_content["start_line"] == 2622
    assert rest.structured_content["num_lines"] == 2379


async def test_a_single_line_beyond_256_kib_is_named(desk) -> None:
    (desk.path / "a.js").write_bytes(b"x" * 300_000 + b"\nrest\n")
    result = await desk.call("read_file", path="a.js", limit=1)
    assert error_kind(result) == "line_too_long"
    assert "cut -c" in result.text


async def test_the_view_keeps_its_budget_and_says_how_to_see_the_rest(desk) -> None:
    lines = [f"{number:04d} " + "x" * 60 for number in range(1, 2001)]
    (desk.path / "a.txt").write_text("\n".join(lines) + "\n")
    result = await desk.call("read_file", path="a.txt")
    structured = result.structured_content
    projection = structured["projection"]
    assert len(result.text.encode()) <= 8192 * 4
    assert structured["num_lines"] == 2000
    assert not structured["continuation"]["has_more"]
    assert projection["projected"]
    assert projection["shown_lines"] + projection["omitted_lines"] == 2000
    rest = await desk.call("read_file", **projection["recover"]["arguments"])
    assert rest.structured_content["start_line"] == projection["shown_lines"] + 1
    assert rest.structured_content["num_lines"] == projection["omitted_lines"]
    token = projection["recover"]["arguments"]["continuation"]
    assert result.text.endswith(f"continuation: {token}]")


async def test_a_line_longer_than_the_budget_is_cut_between_characters(desk) -> None:
    (desk.path / "a.txt").write_text("\N{SNOWMAN}" * 30_000)
    result = await desk.call("read_file", path="a.txt")
    assert len(result.text.encode()) <= 8192 * 4
    assert "\N{REPLACEMENT CHARACTER}" not in result.text
    assert "line 1 is longer than shown" in result.text
    assert result.structured_content["projection"]["projected"]
    assert result.structured_content["text"] == "\N{SNOWMAN}" * 30_000


async def test_long_files_are_read_beside_the_event_loop(desk) -> None:
    data = b"".join(b"line %d\r\n" % number for number in range(1, 2001))
    (desk.path / "a.txt").write_bytes(data)
    tool = ReadFile(FileLimits(inline_bytes=1000))
    arguments = ReadFileArguments(path="a.txt", offset=1999, limit=5)
    result = await tool.run(arguments, desk.context())
    assert result.structured_content["text"] == "line 1999\r\nline 2000\r\n"
    assert result.structured_content["content_sha256"] == hashlib.sha256(data).hexdigest()
    assert result.text == "1999|line 1999\n2000|line 2000"


async def test_a_missing_file_names_its_nearest_neighbours(desk) -> None:
    for name in ("settings.py", "setings.txt", "unrelated.py", ".env.local"):
        (desk.path / name).touch()
    result = await desk.call("read_file", path="setings.py")
    assert error_kind(result) == "not_found"
    assert result.structured_content["nearest"] == ["settings.py", "setings.txt"]
    assert "Did you mean settings.py or setings.txt?" in result.text


async def test_a_missing_file_in_a_missing_folder_names_nothing(desk) -> None:
    result = await desk.call("read_file", path="no/such.txt")
    assert error_kind(result) == "not_found"
    assert result.structured_content["nearest"] == []
    assert "list_files" in result.text


async def test_a_neighbour_below_a_folder_is_named_with_it(desk) -> None:
    (desk.path / "src").mkdir()
    (desk.path / "src" / "main.py").touch()
    result = await desk.call("read_file", path="src/mian.py")
    assert result.structured_content["nearest"] == ["src/main.py"]


async def test_a_folder_points_to_list_files(desk) -> None:
    (desk.path / "src").mkdir()
    for path in ("src", ".", "src/"):
        result = await desk.call("read_file", path=path)
        assert error_kind(result) == "is_a_folder"
        assert "list_files" in result.text


async def test_a_part_of_a_path_that_is_a_file_is_told(desk) -> None:
    (desk.path / "a.txt").touch()
    result = await desk.call("read_file", path="a.txt/b.txt")
    assert error_kind(result) == "not_a_folder"


async def test_a_fifo_errors_at_once_and_its_writer_notices_nothing(desk) -> None:
    os.mkfifo(desk.path / "pipe")
    opened = threading.Event()

    def write() -> None:
        with (desk.path / "pipe").open("w") as pipe:
            opened.set()
            pipe.write("x")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with anyio.fail_after(5):
        result = await desk.call("read_file", path="pipe")
    assert error_kind(result) == "not_a_regular_file"
    assert "FIFO" in result.text
    assert not opened.is_set()
    with (desk.path / "pipe").open() as pipe:
        assert pipe.read() == "x"
    writer.join(timeout=5)


async def test_a_socket_is_no_regular_file(desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.path)  # the full path may be too long for a socket
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        result = await desk.call("read_file", path="socket")
    assert error_kind(result) == "not_a_regular_file"


async def test_a_device_errors_at_once(desk) -> None:
    with anyio.fail_after(5):
        result = await desk.call("read_file", mode=UNCONFINED, path="/dev/zero")
    assert error_kind(result) == "not_a_regular_file"
    assert "character device" in result.text


async def test_a_nul_among_the_first_512_bytes_means_binary(desk) -> None:
    (desk.path / "a.bin").write_bytes(b"x" * 511 + b"\0")
    (desk.path / "late.txt").write_bytes(b"x" * 512 + b"\0")
    result = await desk.call("read_file", path="a.bin")
    assert error_kind(result) == "binary_file"
    assert "present_artifact" in result.text
    late = await desk.call("read_file", path="late.txt")
    assert not late.is_error


async def test_a_bom_is_hidden_in_the_view_and_kept_in_the_data(desk) -> None:
    (desk.path / "a.txt").write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    result = await desk.call("read_file", path="a.txt")
    assert result.text == "1|one\n|two"
    assert result.structured_content["text"] == "\ufeffone\ntwo\n"


async def test_bytes_that_are_not_utf8_are_shown_as_replaced_and_said_so(desk) -> None:
    (desk.path / "a.txt").write_bytes(b"caf\xe9\nna\xefve\n")
    result = await desk.call("read_file", path="a.txt")
    assert "1|caf\N{REPLACEMENT CHARACTER}" in result.text
    assert "2 bytes are not UTF-8" in result.text
    assert result.structured_content["invalid_utf8_bytes"] == 2


async def test_crlf_is_kept_in_the_data_and_hidden_in_the_view(desk) -> None:
    (desk.path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    result = await desk.call("read_file", path="a.txt")
    assert result.text == "1|one\n|two"
    assert result.structured_content["text"] == "one\r\ntwo\r\n"


async def test_mixed_line_ends_are_said(desk) -> None:
    (desk.path / "a.txt").write_bytes(b"one\r\ntwo\n")
    result = await desk.call("read_file", path="a.txt")
    assert "1 of 2 lines end in CRLF" in result.text


async def test_only_line_feeds_end_lines(desk) -> None:
    (desk.path / "a.txt").write_text("a\vb\fc\u2028d\x85e\n")
    result = await desk.call("read_file", path="a.txt")
    assert result.structured_content["total_lines"] == 1


async def test_a_text_that_would_burst_the_result_is_refused(desk) -> None:
    (desk.path / "a.txt").write_bytes(b"x" * 512 + b"\x01" * 200_000)
    result = await desk.call("read_file", path="a.txt")
    assert error_kind(result) == "too_large"


async def test_content_in_scope_is_not_masked(desk) -> None:
    (desk.path / "a.txt").write_text("password = hunter2hunter2\n")
    result = await desk.call("read_file", path="a.txt")
    assert "hunter2hunter2" in result.text


@pytest.mark.parametrize("mode", [PermissionMode.STANDARD, PermissionMode.READ_ONLY])
async def test_a_protected_file_is_refused_in_restricted_modes(desk, mode: PermissionMode) -> None:
    (desk.path / ".env").write_text("TOKEN=abcdefgh12345678\n")
    (desk.path / "innocent.txt").symlink_to(".env")
    for path in (".env", "innocent.txt"):
        with pytest.raises(Refused) as caught:
            await desk.call("read_file", mode=mode, path=path)
        assert caught.value.reason == "protected_path"


async def test_a_protected_file_is_masked_as_a_whole_when_unconfined(desk) -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEF\n" * 3
    key += "-----END PRIVATE KEY-----\n"
    (desk.path / ".env").write_text("API_KEY=abcdefgh12345678\n" + key + "PLAIN=1\n")
    result = await desk.call("read_file", mode=UNCONFINED, path=".env")
    assert "abcdefgh12345678" not in result.text
    assert "[REDACTED]" in result.text
    assert "MIIEvQ" not in result.structured_content["text"]
    middle = await desk.call("read_file", mode=UNCONFINED, path=".env", offset=3, limit=1)
    assert "MIIEvQ" not in str(middle.structured_content)


async def test_a_long_protected_file_is_not_shown(desk) -> None:
    (desk.path / ".env").write_text("x" * 2000)
    tool = ReadFile(FileLimits(inline_bytes=1000))
    result = await tool.run(ReadFileArguments(path=".env"), desk.context(UNCONFINED))
    assert error_kind(result) == "too_large"


async def test_the_sessions_own_folder_is_read_by_path_and_by_its_variable(desk) -> None:
    log = desk.own / "tool-results" / "run.log"
    log.parent.mkdir()
    log.write_text("whole log\n")
    for path in (
        str(log),
        "$MOORAGE_SESSION_DIR/tool-results/run.log",
        "${MOORAGE_SESSION_DIR}/tool-results/run.log",
    ):
        result = await desk.call("read_file", path=path)
        assert result.structured_content["text"] == "whole log\n"


async def test_the_rest_of_moorages_home_is_out_of_reach_in_every_mode(desk) -> None:
    (desk.own.parent / "config.json").write_text("{}")
    for mode in (PermissionMode.STANDARD, UNCONFINED):
        with pytest.raises(Refused) as caught:
            await desk.call("read_file", mode=mode, path=str(desk.own.parent / "config.json"))
        assert caught.value.reason == "boundary_denied"


async def test_svg_is_text(desk) -> None:
    (desk.path / "a.svg").write_text("<svg/>\n")
    result = await desk.call("read_file", path="a.svg")
    assert result.structured_content["text"] == "<svg/>\n"


async def test_a_file_that_changes_while_it_is_read_is_an_error(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = desk.path / "a.txt"
    target.write_text("before\n")
    real_pread = os.pread
    reads = []

    def pread(fd: int, count: int, offset: int) -> bytes:
        data = real_pread(fd, count, offset)
        reads.append(offset)
        if len(reads) == 2:  # the first look is for NUL and magic bytes
            target.write_text("after!\n")
        return data

    monkeypatch.setattr(os, "pread", pread)
    result = await desk.call("read_file", path="a.txt")
    assert error_kind(result) == "changed_meanwhile"


async def test_a_long_file_that_changes_while_it_is_read_is_an_error(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = desk.path / "a.txt"
    target.write_bytes(b"x\n" * 1000)
    real_pread = os.pread

    def pread(fd: int, count: int, offset: int) -> bytes:
        data = real_pread(fd, count, offset)
        if count > 512:
            with target.open("ab") as appended:
                appended.write(b"more\n")
        return data

    monkeypatch.setattr(os, "pread", pread)
    tool = ReadFile(FileLimits(inline_bytes=100))
    result = await tool.run(ReadFileArguments(path="a.txt"), desk.context())
    assert error_kind(result) == "changed_meanwhile"


@pytest.mark.needs("not root")
async def test_a_file_without_leave_to_read_is_told(desk) -> None:
    (desk.path / "a.txt").write_text("x")
    (desk.path / "a.txt").chmod(0)
    result = await desk.call("read_file", path="a.txt")
    assert error_kind(result) == "permission_denied"


async def test_a_missing_workspace_is_an_error_and_nothing_else_is_read(desk) -> None:
    (desk.path / "a.txt").write_text("x")
    desk.path.rename(desk.outside / "moved")
    result = await desk.call("read_file", path="a.txt")
    assert error_kind(result) == "workspace_missing"
    assert str(desk.path) in result.text


async def test_files_of_proc_are_read_to_their_end_when_unconfined(desk) -> None:
    result = await desk.call("read_file", mode=UNCONFINED, path="/proc/version")
    assert result.structured_content["text"].startswith("Linux version")
    assert result.structured_content["num_lines"] == 1
