from __future__ import annotations

import wheel_smoke

INSIDE = {"moorage", "moorage.errors", "moorage.worker.__main__", "anyio._core", "msgspec", "os"}


def test_a_worker_may_import_its_own_wing_and_the_base_libraries() -> None:
    assert wheel_smoke.import_findings(INSIDE) == []


def test_a_surface_library_and_the_outside_wing_are_found() -> None:
    found = wheel_smoke.import_findings(INSIDE | {"click.core", "moorage.host.session"})
    assert found == ["worker: imports click.core", "worker: imports moorage.host.session"]


def test_imports_that_were_not_seen_are_a_finding_themselves() -> None:
    assert wheel_smoke.import_findings({"os"}) == ["worker: its imports could not be seen"]
