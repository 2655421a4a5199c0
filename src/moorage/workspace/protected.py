"""Names whose files hold credentials or a repository's inner state; a decision on text alone."""

from __future__ import annotations

import re
from functools import lru_cache

_FOLDERS = r"\.git|\.hg|\.svn|\.moorage(?:-state|-home)?"
_FILES = (
    r"[._]netrc|\.npmrc|\.pypirc|\.pgpass|\.envrc"
    # Variants such as .env.local hold secrets; the templates that people commit do not.
    r"|\.env(?!\.(?:example|sample|template|dist)$)(?:[._-][^/]*)?"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|[^/]*\.(?:key|ppk|p12|pfx|jks)"
    r"|[^/]*(?:key|priv)[^/]*\.pem"
)
_ALWAYS = re.compile(rf"(?:^|/)(?:{_FOLDERS}|{_FILES})(?:/|$)", re.IGNORECASE)
_TELLING = re.compile(r"credential|secret|private[_-]?key", re.IGNORECASE)
# Source code about secrets is not a secret: the last component's ending decides.
_SOURCE = re.compile(
    r"\.(?:py|pyi|go|rs|js|jsx|mjs|cjs|ts|tsx|mts|cts|c|h|cc|cpp|cxx|hpp|java|kt|kts|scala|rb|php"
    r"|cs|fs|swift|m|mm|sh|bash|zsh|pl|pm|lua|r|jl|ex|exs|erl|hs|ml|mli|clj|dart|vue|svelte|sql"
    r"|proto)$",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def is_protected_name(path: str) -> bool:
    """Return whether a component of ``path`` (relative to its root) is a protected name."""
    if _ALWAYS.search(path) is not None:
        return True
    return _TELLING.search(path) is not None and _SOURCE.search(path) is None
