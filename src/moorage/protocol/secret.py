"""A text that must not appear in logs, representations or error messages."""

from __future__ import annotations

# hmac.compare_digest is this same function, but importing hmac loads OpenSSL into every worker.
from _operator import _compare_digest
from typing import NoReturn


class Secret:
    """A string whose text comes out only by ``reveal``."""

    __slots__ = ("_data", "_text")

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self._text = text
        self._data = text.encode("utf-8", "surrogatepass")

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def matches(self, text: str) -> bool:
        """Return whether ``text`` is the same, in time that does not depend on where it differs."""
        return _compare_digest(self._data, text.encode("utf-8", "surrogatepass"))

    def __eq__(self, other: object) -> bool:
        """Compare with another secret in constant time."""
        return isinstance(other, Secret) and _compare_digest(self._data, other._data)

    def __hash__(self) -> int:
        """Hash like the text."""
        return hash(self._text)

    def __len__(self) -> int:
        """Return the number of characters."""
        return len(self._text)

    def __repr__(self) -> str:
        """Return a mask."""
        return "Secret(********)"

    def __str__(self) -> str:
        """Return a mask."""
        return "********"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied into something that is stored."""
        raise TypeError("a Secret cannot be pickled; pass reveal() where the text must go")
