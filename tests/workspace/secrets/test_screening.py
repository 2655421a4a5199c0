from __future__ import annotations

import re
import sys

from moorage.workspace.secrets.screening import find_spans, may_hold_secret
from moorage.workspace.secrets.spans import Span, merged


def test_plain_bytes_are_told_without_looking_for_words() -> None:
    assert not may_hold_secret(b"line\n" * 10)
    assert find_spans(b"line\n") == []
    assert may_hold_secret(b"Bearer x")


def test_spans_that_touch_or_overlap_become_one() -> None:
    rest = re.compile(b"")
    spans = [Span(5, 9, rest), Span(0, 3, rest), Span(3, 4, rest), Span(6, 8, rest)]
    assert [(span.start, span.end) for span in merged(spans)] == [(0, 4), (5, 9)]


def test_patterns_are_made_only_when_a_literal_is_found() -> None:
    name = "moorage.workspace.secrets.kinds"
    kept = sys.modules.pop(name, None)
    try:
        assert find_spans(b"a: b - c.d = e bb\n") == []
        assert name not in sys.modules
        assert len(find_spans(b"password: hunter2\n")) == 1
        assert name in sys.modules
    finally:
        if kept is not None:
            sys.modules[name] = kept
