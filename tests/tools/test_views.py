from __future__ import annotations

import pytest

from moorage.process.capture import CaptureLimits, StreamCapture
from moorage.tools.views import (
    Combined,
    OutputView,
    ViewLimits,
    combine,
    duration,
    render,
    view_output,
)
from moorage.workspace.redact import Redactor

LIMITS = ViewLimits(
    excerpt_head_bytes=10, excerpt_tail_bytes=20, combined_bytes=60, budget_tokens=30
)


def captured(data: bytes) -> StreamCapture:
    spilt: list[bytes] = []
    stream = StreamCapture(Redactor(), CaptureLimits(), spilt.append)
    stream.feed(data)
    stream.finish()
    return stream


def test_streams_that_are_small_together_are_shown_whole_however_long_either_is() -> None:
    combined = combine(captured(b"x" * 59), captured(b"y"), LIMITS)
    assert combined.join() == b"x" * 59 + b"\ny"
    assert not combined.is_cut


def test_streams_that_are_long_together_are_shown_as_excerpts() -> None:
    combined = combine(captured(b"x" * 58), captured(b"end"), LIMITS)
    assert combined.is_cut
    assert combined.stdout == b"x" * 10 + b"\n[... 28 bytes omitted ...]\n" + b"x" * 20
    assert combined.stderr == b"end"


def test_two_excerpts_that_cut_nothing_are_whole() -> None:
    limits = ViewLimits(excerpt_head_bytes=10, excerpt_tail_bytes=20, combined_bytes=20)
    assert not combine(captured(b"x" * 25), captured(b"y" * 25), limits).is_cut


def test_stderr_begins_on_a_line_of_its_own() -> None:
    assert Combined(b"a\n", b"b\n", is_cut=False).join() == b"a\nb\n"
    assert Combined(b"a", b"b", is_cut=False).join() == b"a\nb"
    assert Combined(b"", b"b", is_cut=False).join() == b"b"


def test_redraws_of_both_streams_are_counted() -> None:
    output = view_output(Combined(b"1%\r2%\n", b"x\ry\rz", is_cut=False))
    assert (output.stdout, output.stderr, output.redraws) == ("2%", "z", 3)


def test_nothing_at_all_is_shown_as_a_placeholder() -> None:
    assert render(OutputView("", "", is_cut=False, redraws=0), [], LIMITS) == "(no output)"


def test_notes_stand_below_the_output() -> None:
    output = OutputView("out", "err", is_cut=False, redraws=0)
    assert render(output, ["Exit code 1", ""], LIMITS) == "out\nerr\nExit code 1"
    assert render(OutputView("", "", is_cut=False, redraws=0), ["n"], LIMITS) == "n"


def test_stdout_is_clipped_before_stderr() -> None:
    output = OutputView("\n".join("out" for _ in range(60)), "err\nerr", is_cut=False, redraws=0)
    text = render(output, [], LIMITS, "/log")
    assert text.endswith("out\nerr\nerr")
    assert "full log: /log" in text


def test_stderr_is_clipped_too_when_it_alone_is_too_long() -> None:
    err = "\n".join(f"e{number}" for number in range(200))
    output = OutputView("out", err, is_cut=False, redraws=0)
    text = render(output, [], LIMITS)
    assert text.startswith("out\ne0\n")
    assert text.endswith("\ne199")
    assert text.count("omitted or shortened") == 1


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_940, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_000, "59 min 59 s"),
    ],
)
def test_durations_are_said_as_people_say_them(milliseconds: int, said: str) -> None:
    assert duration(milliseconds) == said
