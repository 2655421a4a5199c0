from __future__ import annotations

from moorage.process.managed.limits import ManagedLimits


def test_callers_are_promised_these_numbers() -> None:
    limits = ManagedLimits()
    assert (limits.stop_grace_seconds, limits.kill_seconds) == (2, 2)
    assert (limits.longest_wait_seconds, limits.dwell_seconds) == (300, 5)
    assert limits.read_bytes == 32_768
    assert (limits.kept_log_bytes, limits.kept_days) == (8_388_608, 30)
    assert (limits.rows, limits.columns) == (24, 80)
