"""What a process prints: numbered lines of one width, so that every byte of it is known."""

from __future__ import annotations

import dataclasses

DIGITS = 8


@dataclasses.dataclass(frozen=True)
class Content:
    """The numbered lines of one process; a terminal ends each with a carriage return, too."""

    tag: str
    is_terminal: bool = False

    @property
    def width(self) -> int:
        """Return the bytes of one line."""
        return len(self.line(1))

    def line(self, number: int) -> bytes:
        """Return one line; the first has the number 1."""
        end = "\r\n" if self.is_terminal else "\n"
        return f"{self.tag} {number:0{DIGITS}}{end}".encode()

    def typed(self, first: int, count: int) -> str:
        """Return lines as they are typed to a process that repeats them."""
        return "".join(f"{self.tag} {first + at:0{DIGITS}}\n" for at in range(count))

    def size(self, lines: int) -> int:
        """Return the bytes of so many lines."""
        return lines * self.width

    def between(self, start: int, end: int) -> bytes:
        """Return the bytes between two offsets."""
        if start >= end:
            return b""
        first, last = start // self.width, (end - 1) // self.width
        block = b"".join(self.line(number + 1) for number in range(first, last + 1))
        skipped = first * self.width
        return block[start - skipped : end - skipped]

    def difference(self, start: int, found: bytes) -> str:
        """Return where bytes that begin at an offset are not what they should be, or nothing."""
        wanted = self.between(start, start + len(found))
        if wanted == found:
            return ""
        at = next(i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b)
        return (
            f"at byte {start + at} stands {found[at : at + 40]!r} "
            f"instead of {wanted[at : at + 40]!r}"
        )
