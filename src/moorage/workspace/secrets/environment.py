"""Which values of a command's variables no output may show, by their names and by what they are.

A name is read word by word. What is masked everywhere must not be a word of ordinary output, so
short values, paths, flags and ordinary words are left. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

Kind = Literal["", "chosen", "made", "doubtful", "connection"]
"""A password is chosen by people and may be any text; a token is made; a key may be something else
altogether; a connection holds a password among other things."""


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_CHOSEN = ("PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE")
_MADE = (
    "TOKEN",
    "SECRET",
    "CREDENTIAL",
    "APIKEY",
    "ACCESSKEY",
    "PRIVATEKEY",
    "SIGNINGKEY",
    "ENCRYPTIONKEY",
    "MASTERKEY",
)
"""Sought in the whole name without its underscores: PGPASSWORD and GITHUBTOKEN are one word."""

_MADE_WORDS = frozenset({"PAT", "JWT", "BEARER", "SAS", "CREDS", "WEBHOOK"})
_DOUBTFUL_WORDS = frozenset(
    {"AUTH", "AUTHORIZATION", "COOKIE", "COOKIES", "SALT", "CRED", "PRIVATE"}
)
_CONNECTION_WORDS = _set_of(
    "DSN CONNECTION CONNECTIONSTRING CONNECTIONSTRINGS CONNSTR CONN DATASOURCE DATABASE"
)
_LOOKALIKES = _set_of("TOKENIZER TOKENIZERS TOKENIZE SECRETARY PASSWORDLESS")
_NOT_THE_SECRET = _set_of(
    "FILE FILES PATH PATHS DIR DIRECTORY FOLDER SOCK SOCKET PID COMMAND CMD HELPER PROGRAM ASKPASS"
    " URL URI ENDPOINT HOST PORT REGION ISSUER AUDIENCE TYPE METHOD MODE SCHEME NAME USER USERNAME"
    " EMAIL LENGTH SIZE LIMIT COUNT MAX MIN TTL TIMEOUT EXPIRY EXPIRES EXPIRATION LIFETIME AGE DAYS"
    " SECONDS ALGORITHM ALG VERSION ENABLED DISABLED REQUIRED PREFIX SUFFIX HEADER FORMAT PROVIDER"
    " BACKEND STORE MANAGER POLICY ROTATION"
)
"""A name that ends so tells of a secret's place or shape: TOKEN_FILE, SSH_AUTH_SOCK."""

_AFTER_KEY = _set_of(
    "LIVE TEST PROD PRODUCTION STAGING DEV BASE B64 BASE64 PEM JSON HEX OLD NEW PRIMARY SECONDARY"
    " DATA VALUE"
)
_OPEN_KEYS = _set_of(
    "PUBLIC PUB PUBLISHABLE GPG PGP CACHE CONFIG SORT PARTITION FOREIGN PROJECT ISSUE COMPOSE HOT"
    " MODIFIER IDEMPOTENCY GROUP ROUTING LOOKUP INDEX REGISTRY HOST"
)
"""What makes a key one that everybody may see: GPG_KEY is a fingerprint, CACHE_KEY a label."""

_PUBLIC_NAMES = _set_of("USER USERNAME LOGNAME HOSTNAME HOST DATABASE DB DBNAME NAME SCHEMA REGION")
_ORDINARY_WORDS = _set_of(
    "password passw0rd changeme changeit postgres postgresql username localhost production"
    " development staging testing disabled enabled required optional undefined anonymous example"
    " kerberos negotiate rabbitmq mongodb mariadb wordpress keychain osxkeychain keyring default"
    " insecure nopassword placeholder redacted automatic interactive"
)
_SHORTEST_SECRET = 8
_SHORTEST_OPAQUE_USER = 16
_LONGEST_PLAIN_NUMBER = 12
_LONGEST_PLAIN_WORDS = 20

_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
_PATH = (
    r"(?:~|\.{1,2})?/?|(?:~|\.{1,2})/.*"
    r"|/(?:home|root|etc|usr|var|tmp|run|opt|mnt|media|srv|dev|proc|sys|nix|snap|app|data|workspace"
    r"|Users|Library|Applications|private|Volumes)(?:/.*)?"
    r"|(?:/[a-z][a-z._-]*)+"
)
_PLAIN_WORDS = r"[A-Za-z]+(?:[ ._/-][A-Za-z]+)?"
_USERINFO = r"([^\s/?#@:]*)(?::([^\s/?#]*))?@"
_FIELDS = (
    r"(?:password|passwd|pwd|pass|accountkey|sharedaccesskey|sharedaccesssignature|secret|token)"
    r"\s{0,8}=\s{0,8}(?:\"([^\"]*)\"|'([^']*)'|([^\s;&\"']+))"
)
_DRIVER_LOGIN = r"[^:/@\s]+:(?!//)([^@\s]+)@"
_LOGIN = r"[^:\s]+:(\S+)"


def secret_values(variables: Mapping[str, str]) -> frozenset[str]:
    """Return the texts that no output may show."""
    public = _public_words(variables)
    found: set[str] = set()
    for name, value in variables.items():
        if len(value) >= _SHORTEST_SECRET:
            found.update(_in_urls(value, public))
            kind = kind_of(name)
            if kind:
                found.update(_of_kind(kind, value, public))
    return frozenset(found)


def kind_of(name: str) -> Kind:
    """Return what kind of secret a variable holds as its name says, empty when it says none."""
    words = _words(name)
    if not words or (words[-1] in _NOT_THE_SECRET and "WEBHOOK" not in words):
        return "connection" if not _CONNECTION_WORDS.isdisjoint(words) else ""
    joined = "".join(word for word in words if word not in _LOOKALIKES)
    if any(word in joined for word in _CHOSEN) or _names_password(words):
        return "chosen"
    is_open = not _OPEN_KEYS.isdisjoint(words)
    made = (word for word in _MADE if not (is_open and word.endswith("APIKEY")))
    if any(word in joined for word in made) or not _MADE_WORDS.isdisjoint(words):
        return "made"
    if not _CONNECTION_WORDS.isdisjoint(words):
        return "connection"
    is_key = _names_key(words) and not is_open
    return "doubtful" if is_key or not _DOUBTFUL_WORDS.isdisjoint(words) else ""


def _words(name: str) -> list[str]:
    """Return the words of a name in capitals, without numbers at the end."""
    if name.isupper() and name.replace("_", "").isalpha():
        return [word for word in name.split("_") if word]
    words = [word.upper() for word in re.findall(_WORD, name)]
    while words and words[-1].isdigit():
        words.pop()
    return words


def _names_password(words: list[str]) -> bool:
    # PWD alone is the current folder, and OLD_PWD the one before.
    return "PASS" in words or ("PWD" in words[1:] and "OLD" not in words)


def _names_key(words: list[str]) -> bool:
    return any(
        word in {"KEY", "KEYS"} and (not after or after[0] in _AFTER_KEY)
        for word, after in ((word, words[at + 1 :]) for at, word in enumerate(words))
    )


def _public_words(variables: Mapping[str, str]) -> frozenset[str]:
    """Return names of users, machines and databases, which development passwords often repeat."""
    return frozenset(
        value.lower()
        for name, value in variables.items()
        if value.isalpha() and (words := _words(name)) and words[-1] in _PUBLIC_NAMES
    )


def _of_kind(kind: Kind, value: str, public: frozenset[str]) -> Iterator[str]:
    if kind == "connection":
        yield from _in_connection(value, public)
    elif not (_is_ordinary(value, public) or _is_harmless(kind, value)):
        yield value
        login = re.fullmatch(_LOGIN, value)
        if kind == "doubtful" and login is not None and not _is_ordinary(login[1], public):
            yield login[1]


def _is_ordinary(value: str, public: frozenset[str]) -> bool:
    """Return whether a value may stand in any output, whatever name it has."""
    lowered = value.strip().lower()
    is_word = lowered in _ORDINARY_WORDS or lowered in public
    return len(lowered) < _SHORTEST_SECRET or is_word or re.fullmatch(_PATH, value) is not None


def _is_harmless(kind: Kind, value: str) -> bool:
    """Return whether a value is a number, an address or plain words where a secret is none."""
    if kind == "chosen":
        return False
    if len(value) < _LONGEST_PLAIN_NUMBER and re.fullmatch(r"[\d.,:+-]+", value):
        return True
    if kind == "made":
        return False
    is_short = len(value) <= _LONGEST_PLAIN_WORDS
    return "://" in value or (is_short and re.fullmatch(_PLAIN_WORDS, value) is not None)


def _in_urls(value: str, public: frozenset[str]) -> Iterator[str]:
    """Yield the password of each address, or the user where that stands for one."""
    at = value.find("://") if "@" in value else -1
    while at >= 0:
        found = re.compile(_USERINFO).match(value, at + 3)
        if found is not None:
            yield from _in_userinfo(found[1], found[2], public)
        at = value.find("://", at + 3)


def _in_userinfo(user: str, password: str | None, public: frozenset[str]) -> Iterator[str]:
    if password is None:
        is_opaque = len(user) >= _SHORTEST_OPAQUE_USER and re.search(r"\d", user) is not None
        if is_opaque:
            yield user
    elif re.search(r"\w", password) is not None:
        # A password that is an ordinary word is masked in its place alone.
        yield f":{password}@" if _is_ordinary(password, public) else password
        if "%" in password:
            # Late: few need it, and the start of the worker is hot.
            from urllib.parse import unquote  # noqa: PLC0415

            plain = unquote(password)
            if not _is_ordinary(plain, public):
                yield plain


def _in_connection(value: str, public: frozenset[str]) -> Iterator[str]:
    """Yield the passwords of a connection string: fields, or the login that a driver takes."""
    fields = re.finditer(_FIELDS, value, re.IGNORECASE)
    passwords = [next(filter(None, field.groups()), "") for field in fields]
    login = re.match(_DRIVER_LOGIN, value)
    if login is not None:
        passwords.append(login[1])
    yield from (password for password in passwords if not _is_ordinary(password, public))
