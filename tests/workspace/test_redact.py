from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.workspace.redact import LONGEST_LINE_BYTES, MASK, Redactor
from moorage.workspace.secrets.private_keys import Verdict, judge_key

SIGNED = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
    ".eyJzdWIiOiIxMjM0NTY3ODkwIn0"
    ".SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
)
KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + ("MIIEpAIBAAKCAQEA7bq5Qq1b0Yk6cD4v1T1w2g8y0mB4o1rJr9m3k2d1s0a9q8w7\n" * 20)
    + "short==\n-----END RSA PRIVATE KEY-----\n"
)

# Words that make and break secrets, so that random text of them is full of near misses.
PIECES = st.sampled_from(
    [
        b"token", b"password", b"secret", b"api_key", b"authorization: ", b"Bearer ", b"sk-",
        b"=", b":", b" = ", b": ", b'"', b"'", b"\\", b"\n", b",", b"(", b")", b".", b"$", b" ",
        b"abc123def", b"abcdefghij", b"[REDACTED]", b"known-secret", b"\xff\xfe", b"\xc3\xa9",
        b"-----BEGIN RSA PRIVATE KEY-----", b"-----END RSA PRIVATE KEY-----", b"MIIE" * 12,
        SIGNED.encode(), b"eyJ", b"x" * 300, b"y" * 5000,
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=40).map(b"".join)


def in_pieces(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    stream = redactor.stream()
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    masked = [stream.feed(data[a:b]) for a, b in pairwise(borders)]
    return b"".join(masked) + stream.finish()


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 200_000), max_size=30))
def test_any_split_of_a_stream_gives_the_same_as_the_whole(data: bytes, cuts: list[int]) -> None:
    redactor = Redactor(["known-secret"])
    assert in_pieces(redactor, data, cuts) == redactor.data(data)


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_bytes_one_by_one_give_the_same_as_the_whole(data: bytes) -> None:
    data = data[:2000]
    redactor = Redactor(["known-secret"])
    assert in_pieces(redactor, data, list(range(len(data)))) == redactor.data(data)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_what_is_masked_stays_as_it_is(data: bytes) -> None:
    redactor = Redactor(["known-secret"])
    masked = redactor.data(data)
    assert redactor.data(masked) == masked


@pytest.mark.parametrize("border", range(1, 40))
def test_a_secret_across_any_border_is_masked(border: int) -> None:
    data = b"x password=hunter2-hunter2 sk-abcdefghijklm\n"
    assert in_pieces(Redactor(), data, [border]) == b"x password=[REDACTED] [REDACTED]\n"


@pytest.mark.parametrize("size", [1, 63, 64, 1000])
def test_a_private_key_over_many_lines_and_reads_is_masked_whole(size: int) -> None:
    data = f"before\n{KEY}after\n".encode()
    cuts = list(range(0, len(data), size))
    assert in_pieces(Redactor(), data, cuts) == b"before\n[REDACTED]\nafter\n"


def test_a_key_that_never_ends_hides_only_key_material() -> None:
    data = KEY.partition("short")[0].encode() + b"ordinary words follow here\n"
    assert Redactor().data(data) == b"[REDACTED]\nordinary words follow here\n"


def test_a_key_without_an_end_that_fills_more_than_the_window_is_masked_to_its_end() -> None:
    data = b"-----BEGIN PRIVATE KEY-----\n" + b"A1b2" * 16_000 + b"\n" + b"the end, of it.\n"
    for cuts in ([], list(range(0, len(data), 777))):
        masked = in_pieces(Redactor(), data, cuts)
        assert masked.startswith(MASK)
        assert b"A1b2" not in masked
        assert masked.endswith(b", of it.\n")


def test_a_secret_longer_than_any_line_that_is_held_is_masked_to_its_end() -> None:
    data = b"token=" + b"a1" * LONGEST_LINE_BYTES + b" rest\n"
    assert (
        in_pieces(Redactor(), data, list(range(0, len(data), 1000))) == b"token=[REDACTED] rest\n"
    )


def test_a_secret_deep_in_an_endless_line_is_masked() -> None:
    data = b"z" * 50_000 + b" password=hunter2 " + b"z" * 50_000
    masked = in_pieces(Redactor(), data, list(range(0, len(data), 4096)))
    assert masked == b"z" * 50_000 + b" password=[REDACTED] " + b"z" * 50_000


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    redactor = Redactor(["p@ss w0rd", "first line of it\nsecond line of it\n"])
    text = "say p@ss w0rd! and xfirst line of itx or\nsecond line of it"
    assert redactor.text(text) == "say [REDACTED]! and x[REDACTED]x or\n[REDACTED]"


def test_known_secrets_that_would_damage_ordinary_text_are_not_looked_for() -> None:
    assert Redactor(["", "a", "abc", "REDACTED"]).text("abc [REDACTED] a") == "abc [REDACTED] a"


def test_a_very_long_known_secret_is_masked_in_any_pieces() -> None:
    secret = "".join(f"Q{number:06d}" for number in range(2500))
    data = f"<{secret}>".encode()
    for cuts in ([], list(range(0, len(data), 100))):
        masked = in_pieces(Redactor([secret]), data, cuts)
        assert masked.replace(MASK, b"") == b"<>"


def test_text_without_a_secret_is_returned_as_it_is() -> None:
    text = "nothing here"
    assert Redactor().text(text) is text
    data = b"nothing: here"
    assert Redactor().data(data) is data


def test_bytes_that_are_no_text_survive() -> None:
    assert Redactor().data(b"\377\376 password=hunter2\n") == b"\377\376 password=[REDACTED]\n"
    assert Redactor().text("lone \ud800 password=hunter2") == "lone \ud800 password=[REDACTED]"


@pytest.mark.parametrize(
    "piece",
    [
        b"token=", b'token="', b"password: x ", b"eyJ", b"eyJaaaaaaaaaa.", b"sk-", b"sk-aaa-bbb ",
        b"bearer ", b"-----BEGIN PRIVATE KEY-----\n", b"-----BEGIN PRIVATE KEY-----\nab cd\n",
        b"\\", b"x:", b"[REDACTED]", b"$", b"-",
    ],
)  # fmt: skip
def test_hostile_text_is_held_in_little_memory(piece: bytes) -> None:
    data = piece * (120_000 // len(piece))
    stream = Redactor().stream()
    tracemalloc.start()
    try:
        for at in range(0, len(data), 16_384):
            stream.feed(data[at : at + 16_384])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    stream.finish()
    assert peak < 4 * 1024 * 1024


def test_a_key_that_arrives_byte_by_byte_is_not_judged_at_every_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = 0

    def counting(window: bytes, *, is_complete: bool) -> Verdict | None:
        nonlocal judged
        judged += 1
        return judge_key(window, is_complete=is_complete)

    monkeypatch.setattr("moorage.workspace.redact.judge_key", counting)
    stream = Redactor().stream()
    text = b"-----BEGIN PRIVATE KEY-----\n" + (b"A" * 40 + b" ") * 200
    shown = b"".join(stream.feed(text[at : at + 1]) for at in range(len(text)))
    assert (shown + stream.finish()).strip() == MASK
    assert judged < 40
