from __future__ import annotations

import base64
import json

import pytest

from moorage.errors import InvalidArguments, Refused


def error_kind(result) -> str:
    assert result.is_error
    return result.structured_content["error_kind"]


async def test_a_continuation_carries_on_after_what_was_shown(desk) -> None:
    (desk.path / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 8)))
    texts = []
    arguments = {"path": "a.txt", "limit": 3}
    while True:
        structured = (await desk.call("read_file", **arguments)).structured_content
        texts.append(structured["text"])
        if not structured["continuation"]["has_more"]:
            break
        arguments = {"continuation": structured["continuation"]["next"]}
    assert texts == ["1\n2\n3\n", "4\n5\n6\n", "7\n"]


@pytest.mark.parametrize("last_end", ["\r\n", ""])
async def test_a_continuation_over_crlf_loses_and_repeats_nothing(desk, last_end: str) -> None:
    whole = "".join(f"{number}\r\n" for number in range(1, 8)) + f"mixed\nlast{last_end}"
    (desk.path / "a.txt").write_bytes(whole.encode())
    read, starts = "", []
    arguments = {"path": "a.txt", "limit": 3}
    while True:
        structured = (await desk.call("read_file", **arguments)).structured_content
        read += structured["text"]
        starts.append(structured["start_line"])
        if not structured["continuation"]["has_more"]:
            break
        arguments = {"continuation": structured["continuation"]["next"]}
    assert read == whole
    assert starts == [1, 4, 7]


async def test_a_continuation_is_stale_when_only_the_line_ends_changed(desk) -> None:
    (desk.path / "a.txt").write_bytes(b"1\r\n2\r\n")
    first = await desk.call("read_file", path="a.txt", limit=1)
    (desk.path / "a.txt").write_bytes(b"1\n2\n")
    token = first.structured_content["continuation"]["next"]
    assert error_kind(await desk.call("read_file", continuation=token)) == "stale_continuation"


async def test_a_continuation_of_changed_content_is_stale(desk) -> None:
    (desk.path / "a.txt").write_text("1\n2\n3\n")
    first = await desk.call("read_file", path="a.txt", limit=1)
    (desk.path / "a.txt").write_text("1\n2\nthree\n")
    token = first.structured_content["continuation"]["next"]
    result = await desk.call("read_file", continuation=token)
    assert error_kind(result) == "stale_continuation"
    assert "Read it again from the beginning" in result.text


async def test_a_continuation_belongs_to_its_path(desk) -> None:
    for name in ("a.txt", "b.txt"):
        (desk.path / name).write_text("1\n2\n3\n")
    first = await desk.call("read_file", path="a.txt", limit=1)
    token = first.structured_content["continuation"]["next"]
    with pytest.raises(InvalidArguments, match=r"belongs to a.txt, not to b.txt"):
        await desk.call("read_file", path="b.txt", continuation=token)
    with pytest.raises(InvalidArguments, match="both say where to begin"):
        await desk.call("read_file", continuation=token, offset=2)
    again = await desk.call("read_file", path="a.txt", continuation=token, limit=2)
    assert again.structured_content["text"] == "2\n3\n"


async def test_a_continuation_is_no_way_past_the_boundary(desk) -> None:
    (desk.outside / "secret.txt").write_text("1\n2\n")
    token = base64.urlsafe_b64encode(
        b'["' + str(desk.outside / "plain.txt").encode() + b'","' + b"0" * 24 + b'",1,null]'
    ).decode()
    with pytest.raises(Refused):
        await desk.call("read_file", continuation=token.rstrip("="))


def forged(*fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


DIGEST = "0" * 24


@pytest.mark.parametrize(
    "token",
    [
        "?",
        "abc",
        "W10",
        "\N{SNOWMAN}",
        "W" * 100_000,
        forged("a.txt", DIGEST, -1, None),
        forged("a.txt", DIGEST, 0, None),
        forged("a.txt", DIGEST, 10**30, None),
        forged("a.txt", DIGEST, 1, -3),
        forged("a.txt", DIGEST, 1, 10**30),
        forged("a.txt", DIGEST, 1.5, None),
        forged("a.txt", "", 1, None),
        forged("a.txt", "not a digest, but long..", 1, None),
        forged("a.txt", f"{DIGEST}\n", 1, None),
        forged("", DIGEST, 1, None),
        forged("a\0", DIGEST, 1, None),
        forged("a" * 5000, DIGEST, 1, None),
        forged([["a"]], DIGEST, 1, None),
    ],
)
async def test_a_made_up_continuation_is_an_argument_error(desk, token: str) -> None:
    with pytest.raises(InvalidArguments, match="not a token of an earlier result"):
        await desk.call("read_file", continuation=token)


@pytest.mark.parametrize("name", ["offset", "limit"])
@pytest.mark.parametrize("value", [-1, 10**9 + 1, 10**30])
async def test_a_number_that_no_line_has_is_an_argument_error(desk, name: str, value: int) -> None:
    (desk.path / "a.txt").write_text("1\n2\n")
    with pytest.raises(InvalidArguments, match=f"argument {name} is {value}; it counts from 1"):
        await desk.call("read_file", path="a.txt", **{name: value})
