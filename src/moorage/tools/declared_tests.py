"""Which tests a source text declares, so that a rewrite which loses some can say so; pure."""

from __future__ import annotations

import re

# Told quickly from a text that declares none.
_HINTS = (b"test", b"Test", b"it(", b"it.", b"describe")
_DECLARATIONS = (
    re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)[ \t]*\(", re.MULTILINE),
    re.compile(rb"^func[ \t]+(?:\([^)\n]*\)[ \t]*)?(Test\w*)[ \t]*\(", re.MULTILINE),
    re.compile(rb"#\[(?:\w+::)*test[^\]\n]*\]\s*(?:pub[ \t]+)?(?:async[ \t]+)?fn[ \t]+(\w+)"),
    re.compile(
        rb"^[ \t]*(?:it|test|describe)(?:\.\w+)?[ \t]*\([ \t]*[\"'`]([^\"'`\n]*)", re.MULTILINE
    ),
    re.compile(rb"@(?:Parameterized)?Test\b[^\n]*\s+(?:[\w<>]+[ \t]+)*?(\w+)[ \t]*\("),
)


def declared_tests(source: bytes) -> set[str]:
    """Return the names of the tests that ``source`` declares, in any of the usual languages."""
    if not any(hint in source for hint in _HINTS):
        return set()
    return {
        name.decode("utf-8", "replace")
        for pattern in _DECLARATIONS
        for name in pattern.findall(source)
    }


def lost_tests(old: bytes, new: bytes) -> list[str]:
    """Return the tests that ``old`` declares and ``new`` does not."""
    before = declared_tests(old)
    return sorted(before - declared_tests(new)) if before else []
