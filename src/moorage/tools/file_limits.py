"""How much the file tools read, show and replace."""

from __future__ import annotations

import msgspec

from moorage.process.output import BYTES_PER_TOKEN

KIB = 1024
MIB = 1024 * KIB


class FileLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of ``read_file``, ``write_file`` and ``edit_file``; tests shrink them.

    Work on at most ``inline_bytes`` is done in the event loop: it takes less time there than a
    change of thread. ``text_bytes`` is what a call may carry, ``edit_bytes`` what an edit holds in
    memory.
    """

    inline_bytes: int = MIB
    unlimited_read_bytes: int = 256 * KIB
    view_tokens: int = 8192
    structured_text_bytes: int = 960 * KIB
    small_file_bytes: int = 32 * KIB
    text_bytes: int = MIB
    edit_bytes: int = 64 * MIB
    scanned_names: int = 2000
    suggested_names: int = 3

    @property
    def view_bytes(self) -> int:
        """Return how many UTF-8 bytes of text the model is shown."""
        return self.view_tokens * BYTES_PER_TOKEN
