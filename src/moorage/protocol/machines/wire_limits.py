"""What one connection may hold, at either side."""

from __future__ import annotations

import msgspec

from moorage.protocol.framing import MAX_FRAME_BYTES
from moorage.protocol.machines.result_limits import ResultLimits


class WireLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds that both machines keep."""

    max_frame_bytes: int = MAX_FRAME_BYTES
    max_id_characters: int = 256
    max_in_flight: int = 1024
    max_tool_calls_per_request: int = 128
    result: ResultLimits = ResultLimits()
