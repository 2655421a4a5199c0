"""Which tests a source text declares, so that a rewrite which loses some can say so; pure.

The source may be anything, so no pattern here tries one way after another.
"""

from __future__ import annotations

import re

# Told quickly from a text that declares none.
_HINTS = (b"test", b"Test", b"it(", b"it.", b"describe")
_DECLARATIONS = (
    re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)[ \t]*\(", re.MULTILINE),
    re.compile(rb"^func[ \t]+(?:\([^)\n]*\)[ \t]*)?(Test\w*)[ \t]*\(", re.MULTILINE),
    re.compile(
        rb"#\[(?:\w+::)*+test[^\]\n]{0,200}+\]\s*+(?:pub[ \t]++)?(?:async[ \t]++)?fn[ \t]++(\w+)"
    ),
    re.compile(
        rb"^[ \t]*(?:it|test|describe)(?:\.\w+)?[ \t]*\([ \t]*[\"'`]([^\"'`\n]*)", re.MULTILINE
    ),
)
# An annotation, the rest of its line, and the next line that is not blank.
_ANNOTATION = re.compile(rb"@(?:Parameterized)?Test\b(?:\([^)\n]*+\))?([^\n]*+)(?=\s*+([^\n]*+))")
_WORD = re.compile(rb"[\w<>]+")


def declared_tests(source: bytes) -> set[str]:
    """Return the names of the tests that ``source`` declares, in any of the usual languages."""
    if not any(hint in source for hint in _HINTS):
        return set()
    found = {name for pattern in _DECLARATIONS for name in pattern.findall(source)}
    for annotation in _ANNOTATION.finditer(source):
        name = _declared_name(annotation[1]) or _declared_name(annotation[2])
        found |= {name} if name else set()
    return {name.decode("utf-8", "replace") for name in found}


def _declared_name(line: bytes) -> bytes:
    """Return the name that a line such as ``public void name(`` declares; empty if none."""
    head, bracket, _ = line.partition(b"(")
    words = head.split()
    return words[-1] if bracket and words and all(map(_WORD.fullmatch, words)) else b""


def lost_tests(old: bytes, new: bytes) -> list[str]:
    """Return the tests that ``old`` declares and ``new`` does not."""
    before = declared_tests(old)
    return sorted(before - declared_tests(new)) if before else []
