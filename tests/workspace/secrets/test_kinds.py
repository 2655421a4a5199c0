from __future__ import annotations

import re

import pytest

from moorage.workspace.redact import Redactor
from moorage.workspace.secrets.kinds import Span, find_spans, may_hold_secret, merged

SECRETS = {
    "password: hunter2": "password: [REDACTED]",
    "password=swordfish": "password=[REDACTED]",
    "PASSWORD=supersecret": "PASSWORD=[REDACTED]",
    "passwd=letmein": "passwd=[REDACTED]",
    "secret=mysecretvalue": "secret=[REDACTED]",
    "Password: swordfish": "Password: [REDACTED]",
    "password = s3cr3t": "password = [REDACTED]",
    "token=abcdef123456": "token=[REDACTED]",
    "tOkEn: abc123def": "tOkEn: [REDACTED]",
    '"token": "abc"': '"token": "[REDACTED]"',
    '{"api_key":"abcdefgh","x":1}': '{"api_key":"[REDACTED]","x":1}',
    '{\\"token\\":\\"abcdefg1\\"}': '{\\"token\\":\\"[REDACTED]\\"}',
    "X-Api-Key: 0123456789abcdef": "X-Api-Key: [REDACTED]",
    "access_token=ya29.a0Af_h": "access_token=[REDACTED]",
    "refresh_token: 1//0gabcdef": "refresh_token: [REDACTED]",
    "id_token=abc.def.123": "id_token=[REDACTED]",
    "export GITHUB_TOKEN=ghp_abcdefghij0123456789": "export GITHUB_TOKEN=[REDACTED]",
    "https://x/?token=abcdefgh&page=1": "https://x/?token=[REDACTED]&page=1",
    "AWS_SECRET_ACCESS_KEY=wJalrXU/K7MDENG": "AWS_SECRET_ACCESS_KEY=[REDACTED]",
    "SECRET_KEY = 'django-insecure-abc'": "SECRET_KEY = '[REDACTED]'",
    'os.environ["TOKEN"] = "abc123"': 'os.environ["TOKEN"] = "[REDACTED]"',
    'password = "correct horse battery staple"': 'password = "[REDACTED]"',
    "client_secret: 'a\\'b c'": "client_secret: '[REDACTED]'",
    'token := "abc123"': 'token := "[REDACTED]"',
    "password=unterminated'quote": "password=[REDACTED]'quote",
    'password="no end': 'password="[REDACTED]',
    "Authorization: Bearer abcdefgh12345": "Authorization: Bearer [REDACTED]",
    "authorization: Basic dXNlcjpwYXNz": "authorization: Basic [REDACTED]",
    "Authorization: token ghp_abc123": "Authorization: token [REDACTED]",
    "bearer ABCDEFGHIJ": "bearer [REDACTED]",
    "use Bearer abc.def~ghi+jk/l= now": "use Bearer [REDACTED] now",
    "sk-abcdefghijkl": "[REDACTED]",
    "key sk-ant-api03-abcdefghijklmnop!": "key [REDACTED]!",
    "sk-proj-abcdefghijklmnop": "[REDACTED]",
    "SK-ABCDEFGH1": "[REDACTED]",
    "x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl y": "x [REDACTED] y",
    "session-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl": "session-[REDACTED]",
    "password=pässwörter": "password=[REDACTED]",
    "db: host=x password=hunter2 user=y": "db: host=x password=[REDACTED] user=y",
    'token=abc1def:password="foo bar"': 'token=[REDACTED]"[REDACTED]"',
}  # fmt: skip

ORDINARY = [
    "type token struct {",
    "token: Token,",
    "let token = lexer.next_token();",
    "def login(password: str, token: Token) -> None:",
    "password: string;",
    "token = get_token()",
    'if token == "abc":',
    "token := lexer.Next()",
    "Unexpected token: identifier",
    "SyntaxError: Unexpected token: punc (;)",
    "expected token: '}'",
    "passwd:         files systemd",
    "/etc/passwd:root:x:0:0:root:/root:/bin/bash",
    "f(token=token, password=password)",
    "self.token = token",
    "password: Optional[str] = None",
    "secret: bool",
    'api_key = os.environ["API_KEY"]',
    "api_key: str | None = None",
    "max_tokens=4096",
    "token=4096",
    "token: int64",
    "token: &str,",
    "token: *Token",
    "enum Token::Kind",
    "token::Ident(name)",
    "secret://vault/path",
    "Bearer authentication is required",
    "the bearer of this letter",
    "forbearer abcdefghij",
    "password: must be at least 8 characters",
    "disk-encryption-service task-management-board",
    'class="sk-folding-cube sk-circle"',
    "const secret = process.env.SECRET;",
    '"password": "${PASSWORD}"',
    '"token": "{{ token }}"',
    "token=$TOKEN",
    "PASSWORD=$1",
    "token=%s",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: required",
    "password: ******",
    "password: xxx",
    'token: ""',
    "while token: pass",
    "this.password = password;",
    "token = tok[0]",
    "password: Annotated[str, Field()]",
    "secret: !secret wifi",
    "--token: #ffffff",
    "token ? a : b",
    "token =~ /x/",
    "eyJhbGciOiJIUzI1NiJ9 alone",
    "eyJub3QiOiJhIGhlYWRlciJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "eyJhbGciOm5vdCBqc29u.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "[REDACTED]",
    "password=[REDACTED]",
    'password: "[REDACTED]"',
]


@pytest.mark.parametrize(("printed", "shown"), SECRETS.items())
def test_secrets_of_every_kind_are_masked_and_what_names_them_stays(
    printed: str, shown: str
) -> None:
    assert Redactor().text(printed) == shown


@pytest.mark.parametrize("text", ORDINARY)
def test_source_code_and_prose_are_not_damaged(text: str) -> None:
    assert Redactor().text(text) == text


def test_plain_bytes_are_told_without_looking_for_words() -> None:
    assert not may_hold_secret(b"line\n" * 10)
    assert find_spans(b"line\n") == []
    assert may_hold_secret(b"Bearer x")


def test_spans_that_touch_or_overlap_become_one() -> None:
    rest = re.compile(b"")
    spans = [Span(5, 9, rest), Span(0, 3, rest), Span(3, 4, rest), Span(6, 8, rest)]
    assert [(span.start, span.end) for span in merged(spans)] == [(0, 4), (5, 9)]
