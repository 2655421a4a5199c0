from __future__ import annotations

import pytest

from moorage.workspace.secrets.private_keys import Verdict, judge_key
from moorage.workspace.secrets.spans import KEY_WINDOW_BYTES

BODY = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7bq5Qq1b0Yk6c\n"
BEGIN, END = b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----"

KEYS = {
    "plain": BEGIN + b"\n" + BODY * 3 + b"abc=\n" + END,
    "with CRLF": BEGIN + b"\r\n" + BODY.replace(b"\n", b"\r\n") + END,
    "encrypted": BEGIN + b"\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n" + BODY + END,
    "indented": BEGIN + b"\n    " + BODY + b"    " + END,
    "numbered": BEGIN + b"\n     2\t" + BODY + b"     3\t" + END,
    "found by grep": BEGIN + b"\nkeys/my.pem:2:" + BODY + b"keys/my.pem:3:" + END,
    "of a diff": BEGIN + b"\n+" + BODY + b"+" + END,
    "removed by a diff": BEGIN + b"\n-" + BODY + b"-" + END,
    "escaped": BEGIN + b"\\n" + BODY.strip() + b"\\n" + END,
    "escaped twice": BEGIN + b"\\\\n" + BODY.strip() + b"\\\\n" + END,
    "flat": BEGIN + b" " + BODY.strip() + b" " + END,
    "of source": BEGIN + b'\\n"\n    "' + BODY.strip() + b'\\n"\n    "' + END,
    "short": BEGIN + b"\nabc\n" + END,
    "of words": BEGIN + b"\nnot a real key\n" + END,
    "of PGP": b"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: x\n\n"
    + BODY
    + b"=aB3d\n-----END PGP PRIVATE KEY BLOCK-----",
}
NO_KEYS = {
    "a mention": BEGIN + b'" in text: return True\n' + b"x" * 500,
    "a sentence": BEGIN + b" starts a key and " + END + b" ends it",
    "a certificate": b"-----BEGIN CERTIFICATE-----\n" + BODY,
    "a public key": b"-----BEGIN PUBLIC KEY-----\n" + BODY,
    "an empty one": BEGIN + b"\n" + END,
    "prose": BEGIN + b"\n" + b"some words of a text " * 40,
    "a list": BEGIN + b'", "' + END + b'"',
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_is_recognised_to_its_end_line(key: bytes) -> None:
    assert judge_key(key + b"\nafter", is_complete=True) == Verdict(len(key))


@pytest.mark.parametrize("text", NO_KEYS.values(), ids=NO_KEYS)
def test_what_only_looks_like_a_key_is_none(text: bytes) -> None:
    assert judge_key(text, is_complete=True) == Verdict(0)


@pytest.mark.parametrize("text", [*KEYS.values(), *NO_KEYS.values()], ids=[*KEYS, *NO_KEYS])
def test_an_early_verdict_is_the_final_one(text: bytes) -> None:
    text += b"\n" + b"~ what follows ~\n" * 100
    final = judge_key(text, is_complete=True)
    for size in range(11, len(text)):
        early = judge_key(text[:size], is_complete=False)
        assert early is None or early == final


def test_a_key_that_is_cut_off_ends_with_its_material() -> None:
    verdict = judge_key(BEGIN + b"\n" + BODY * 2 + b"some words, and more.", is_complete=True)
    assert verdict == Verdict(len(BEGIN + b"\n" + BODY * 2) - 1)


def test_material_that_fills_the_window_goes_on() -> None:
    window = (BEGIN + b"\n" + BODY * 300)[:KEY_WINDOW_BYTES]
    verdict = judge_key(window, is_complete=True)
    assert verdict is not None
    assert verdict.rest is not None
