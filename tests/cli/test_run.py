from __future__ import annotations

import os
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from moorage.cli.command_output import write_output
from moorage.errors import (
    ConfinementUnavailable,
    EnvironmentDied,
    ExecutionError,
    NotFound,
    OutcomeUnknown,
    Refused,
    ShutdownIncomplete,
)
from moorage.host.results import command_result

LONG = {
    "stdout_truncated": True,
    "full_log_ref": "/log",
    "full_log_sections": {
        "stdout_start": 2,
        "stdout_end": 5,
        "stderr_start": 5,
        "stderr_end": 6,
    },
}


def test_a_command_gives_its_own_output_and_exit_code(command_line: Any, session: Any) -> None:
    session.ends(exit_code=7, stdout="out\n", stderr="err\n")
    ended = command_line("run", "--", "pytest", "-q")
    assert ended.code == 7
    assert ended.out == b"out\n"
    assert ended.err == b"err\n"


def test_one_argument_with_spaces_stays_one_argument(command_line: Any, session: Any) -> None:
    command_line("run", "--", "grep", "a b; rm -rf $HOME", "it's")
    [(command, _)] = session.asked
    assert command == """grep 'a b; rm -rf $HOME' 'it'"'"'s'"""


def test_options_of_the_command_need_no_separator(command_line: Any, session: Any) -> None:
    command_line("run", "--timeout", "5", "pytest", "-q", "--json")
    [(command, options)] = session.asked
    assert command == "pytest -q --json"
    assert options["timeout_seconds"] == 5


def test_shell_text_is_passed_as_it_is(command_line: Any, session: Any) -> None:
    command_line("run", "-c", "ls | wc -l", "--cwd", "src")
    [(command, options)] = session.asked
    assert command == "ls | wc -l"
    assert options["cwd"] == "src"


def test_what_was_chosen_reaches_the_session_and_nothing_else(
    command_line: Any, session: Any
) -> None:
    arguments = ("-e", "local", "-m", "read_only", "-w", "/w", "--writable", "/x")
    command_line("run", *arguments, "--", "true")
    assert session.opened_with == {
        "environment": "local",
        "mode": "read_only",
        "workspace": "/w",
        "writable_roots": ("/x",),
    }


def test_a_saved_session_is_opened_by_its_id(command_line: Any, session: Any) -> None:
    command_line("run", "--session", "s-1", "--", "true")
    assert session.opened_with == {"environment": None, "session_id": "s-1"}


def test_bytes_that_are_no_text_come_out_untouched(command_line: Any, session: Any) -> None:
    session.ends(stdout="��", stdout_base64="//4=", stdout_bytes=2)
    assert command_line("run", "--", "printf", r"\377\376").out == b"\xff\xfe"


def test_standard_input_is_passed_on_only_when_asked_for(command_line: Any, session: Any) -> None:
    command_line("run", "--", "cat", stdin=b"data")
    command_line("run", "-i", "--", "cat", stdin=b"data")
    assert [options["input"] for _, options in session.asked] == [None, b"data"]


def test_an_inherited_pipe_that_never_ends_is_not_waited_for(
    command_line: Any, session: Any
) -> None:
    reader, writer = os.pipe()
    saved = os.dup(0)
    os.dup2(reader, 0)
    try:
        assert command_line("run", "--", "true").code == 0
    finally:
        os.dup2(saved, 0)
        for descriptor in (reader, writer, saved):
            os.close(descriptor)


def test_a_timeout_exits_with_124_and_says_what_was_ended(command_line: Any, session: Any) -> None:
    session.ends(outcome="timed_out", exit_code=-1, duration_ms=5000, stdout="so far\n")
    ended = command_line("run", "--timeout", "5", "--", "sleep", "9")
    assert ended.code == 124
    assert ended.out == b"so far\n"
    assert ended.err == (
        b"moorage: timed out after 5.0 s and ended with all it started; --timeout gives longer.\n"
    )


def test_a_signal_is_128_and_its_number(command_line: Any, session: Any) -> None:
    session.ends(outcome="signalled", exit_code=143)
    assert command_line("run", "--", "x").code == 143


def test_what_was_left_running_is_told(command_line: Any, session: Any) -> None:
    session.ends(left_running=2)
    ended = command_line("run", "-c", "sleep 5 & sleep 5 &")
    assert ended.err == b"moorage: 2 background processes ended with this session.\n"


def test_output_beyond_the_result_comes_from_the_full_log(command_line: Any, session: Any) -> None:
    session.ends(stdout="out", **LONG)
    session.files["/log"] = b"h\nOUTE\nend"
    for session.piece_bytes in (1, 3, 4, 100):
        ended = command_line("run", "--", "x")
        assert (ended.out, ended.err) == (b"OUT", b"E")


def test_output_that_cannot_be_had_whole_is_called_cut(command_line: Any, session: Any) -> None:
    session.ends(stdout="out", stdout_truncated=True, stdout_bytes=9000)
    ended = command_line("run", "--", "x")
    assert ended.out == b"out"
    assert b"the output was cut; the command wrote 9,000 and 0 bytes." in ended.err


def test_a_log_that_cannot_be_read_is_named(command_line: Any, session: Any) -> None:
    session.reading_error = Refused("not this.")
    session.ends(stdout="out", **LONG)
    ended = command_line("run", "--", "x")
    assert ended.out == b"out"
    assert b"The full log /log cannot be read: not this." in ended.err


def test_a_log_without_its_offsets_is_named(command_line: Any, session: Any) -> None:
    session.ends(stdout="out", stdout_truncated=True, full_log_ref="/log", full_log_sections={})
    ended = command_line("run", "--", "x")
    assert ended.out == b"out"
    assert b"The full log is /log." in ended.err


def test_a_log_that_breaks_off_gives_what_was_read_once(command_line: Any, session: Any) -> None:
    session.files["/log"] = b"h\nOU"
    session.ends(stdout="out", **LONG)
    ended = command_line("run", "--", "x")
    assert ended.out == b"OU"
    assert b"The full log /log has lost its end." in ended.err
    session.reading_error = OutcomeUnknown("gone.")
    ended = command_line("run", "--", "x")
    assert ended.out == b"OU"
    assert b"the output was cut" in ended.err


def test_output_beyond_the_bound_of_the_log_is_called_cut(command_line: Any, session: Any) -> None:
    session.files["/log"] = b"h\nOUTE\nend"
    session.ends(full_log_omitted_bytes=5000, stdout_bytes=5003, **LONG)
    ended = command_line("run", "--", "x")
    assert (ended.code, ended.out) == (0, b"OUT")
    assert ended.err == (
        b"Emoorage: the output was cut; the command wrote 5,003 and 0 bytes. "
        b"The full log is bounded and lacks 5,000 of them.\n"
    )
    document = command_line("run", "--json", "--", "x").document
    assert document["full_log_omitted_bytes"] == 5000


def test_why_the_log_could_not_be_kept_is_said(command_line: Any, session: Any) -> None:
    reason = "the full log could not be written: No space left on device"
    session.ends(stdout="out", stdout_truncated=True, full_log_error=reason)
    ended = command_line("run", "--", "x")
    assert ended.out == b"out"
    assert f"There is no full log: {reason}.\n".encode() in ended.err
    assert command_line("run", "--json", "--", "x").document["full_log_error"] == reason


@pytest.fixture
def null() -> Iterator[TextIO]:
    with Path(os.devnull).open("w") as stream:
        yield stream


async def test_long_output_needs_no_memory(
    session: Any, monkeypatch: pytest.MonkeyPatch, null: TextIO
) -> None:
    mebibyte, count = 1024 * 1024, 32

    async def read_pieces(path: str) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield bytes(mebibyte)

    session.read_pieces = read_pieces
    sections = {"stdout_start": 1, "stdout_end": count * mebibyte}
    sections |= {"stderr_start": count * mebibyte, "stderr_end": count * mebibyte}
    session.ends(stdout_truncated=True, full_log_ref="/log", full_log_sections=sections)
    monkeypatch.setattr(sys, "stdout", null)
    tracemalloc.start()
    written = await write_output(session, session.result)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written.is_whole
    assert peak_bytes < 8 * mebibyte


@pytest.mark.parametrize(
    ("mode", "ways"),
    [
        ("standard", ("--writable DIR", "--mode unconfined")),
        ("read_only", ("--writable DIR", "--mode standard")),
    ],
)
def test_after_a_denial_both_ways_out_are_named_on_one_line(
    command_line: Any, session: Any, mode: str, ways: tuple[str, ...]
) -> None:
    session.ends(exit_code=1, sandbox={"mode": mode, "denied": True})
    ended = command_line("run", "--", "touch", "/x")
    assert ended.code == 1
    assert ended.err.startswith(b"moorage: denied by the confinement, as it seems: ")
    assert ended.err.count(b"\n") == 1
    for way in ways:
        assert way in ended.err.decode()
    session.ends(exit_code=1, sandbox={"mode": mode, "denied": False})
    assert command_line("run", "--", "touch", "/x").err == b""


def test_a_sentence_given_as_one_word_is_explained(command_line: Any, session: Any) -> None:
    session.ends(exit_code=127, stderr="bash: ls | wc: command not found\n")
    ended = command_line("run", "--", "ls | wc")
    assert ended.code == 127
    assert b"for shell text use: moorage run -c 'ls | wc'" in ended.err


def test_json_has_the_same_keys_for_every_outcome(command_line: Any, session: Any) -> None:
    session.ends(stdout="��", stdout_base64="//4=", exit_code=3)
    ended = command_line("run", "--json", "--", "x")
    assert ended.code == 3
    assert ended.err == b""
    assert ended.document["outcome"] == "exited"
    assert ended.document["stdout_base64"] == "//4="
    assert ended.document["session"] == "s-scripted"
    assert ended.document["error"] is None
    session.error = OutcomeUnknown("gone.", result=command_result({"stdout": "so far"}))
    broken = command_line("run", "--json", "--", "x")
    assert broken.code == 125
    assert broken.document.keys() == ended.document.keys()
    assert broken.document["outcome"] == "unknown"
    assert broken.document["error"] == {"code": "outcome_unknown", "message": "gone.", "hint": ""}


def test_a_session_that_fails_to_close_adds_no_second_document(
    command_line: Any, session: Any
) -> None:
    session.ends(stdout="kept\n", exit_code=3)
    session.closing_error = ShutdownIncomplete("something is left.", hint="Look.")
    ended = command_line("run", "--json", "--", "x")
    assert (ended.code, ended.document["stdout"], ended.document["exit_code"]) == (125, "kept\n", 3)
    assert ended.document["error"] == {
        "code": "shutdown_incomplete",
        "message": "something is left.",
        "hint": "Look.",
    }
    session.error = OutcomeUnknown("gone.", result=command_result({"stdout": "so far"}))
    broken = command_line("run", "--json", "--", "x")
    assert broken.document["error"]["code"] == "outcome_unknown"
    session.error = Refused("not this.")
    session.closing_error = ExceptionGroup("both", [Refused("no."), ShutdownIncomplete("left.")])
    assert command_line("run", "--json", "--", "x").document["error"]["message"] == "no. left."


def test_what_was_printed_before_the_environment_died_is_shown(
    command_line: Any, session: Any
) -> None:
    so_far = command_result({"outcome": "environment_died", "stdout": "so far\n"})
    session.error = EnvironmentDied("the environment ended.", result=so_far, hint="Run it again.")
    ended = command_line("run", "--", "x")
    assert ended.code == 125
    assert ended.out == b"so far\n"
    assert ended.err == b"moorage: the environment ended. Run it again.\n"
    document = command_line("run", "--json", "--", "x").document
    assert (document["outcome"], document["stdout"]) == ("environment_died", "so far\n")
    assert document["session"] == "s-scripted"
    assert document["error"]["code"] == "environment_died"


def test_an_unknown_end_without_any_result_is_an_error(command_line: Any, session: Any) -> None:
    session.error = OutcomeUnknown("the worker went away.")
    assert command_line("run", "--", "x").code == 125


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("not this."), 126),
        (ConfinementUnavailable("no Landlock.", hint="Use Linux 6.2."), 126),
        (NotFound("no environment."), 127),
        (ExecutionError("odd."), 125),
    ],
)
def test_moorages_own_failures_use_125_to_127(
    command_line: Any, session: Any, error: ExecutionError, code: int
) -> None:
    session.error = error
    ended = command_line("run", "--", "x")
    assert ended.code == code
    assert ended.err.decode() == f"moorage: {error}\n"


def test_a_failure_is_json_when_json_was_asked_for(command_line: Any, session: Any) -> None:
    session.error = ConfinementUnavailable("no Landlock.", hint="Use Linux 6.2.")
    ended = command_line("run", "--json", "--", "x")
    assert ended.err == b""
    assert ended.document == {
        "error": {
            "code": "confinement_unavailable",
            "message": "no Landlock.",
            "hint": "Use Linux 6.2.",
        }
    }


def test_json_of_the_command_itself_is_not_taken_for_ours(command_line: Any, session: Any) -> None:
    session.error = ExecutionError("odd.")
    assert command_line("run", "--", "x", "--json").out == b""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--timout", "x"), "No such option '--timout'. Did you mean '--timeout'?"),
        (("--mode", "open", "--", "x"), "'open' is not one of"),
        (("--timeout", "soon", "--", "x"), "'soon' is not a whole number from 1 to 3600."),
        (("--timeout", "0", "--", "x"), "'0' is not a whole number from 1 to 3600."),
        ((), "Name a command, such as: moorage run -- ls -l."),
        (("-c", "x", "--", "y"), "Give either -c TEXT or COMMAND, not both."),
    ],
)
def test_a_wrong_command_line_exits_with_125_and_one_sentence(
    command_line: Any, session: Any, arguments: tuple[str, ...], sentence: str
) -> None:
    ended = command_line("run", *arguments)
    assert ended.code == 125
    assert sentence in ended.err.decode()
    assert ended.err.decode().endswith("See moorage run --help.\n")
    assert ended.err.count(b"\n") == 1
    assert session.asked == []


def test_an_interrupt_ends_the_command_with_130(command_line: Any, session: Any) -> None:
    session.error = KeyboardInterrupt()
    ended = command_line("run", "--", "x")
    assert ended.code == 130
    assert b"Traceback" not in ended.err


def test_the_help_says_when_output_is_printed_and_what_is_masked(command_line: Any) -> None:
    told = " ".join(command_line("run", "--help").out.decode().split())
    assert "Its output is printed when it ends, byte for byte except for masked secrets." in told
