"""The examples pass the conformance suite, or refuse what they do not offer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.testing.conformance import (
    Check,
    Declared,
    check_conforms,
    conformance_checks,
    places_of,
)

CHECKS = pytest.mark.parametrize("each", conformance_checks(), ids=lambda each: each.name)
DECLARED = {name: Declared() for name in ("memory", "auditing", "node")}
WORKER = str(Path(sys.executable).parent / "moorage-worker")

Example = Callable[[str], str]


def profile(workspace: Path, *command: str) -> dict[str, Any]:
    return {"backend": "command", "command": command, "workspace": str(workspace)}


@CHECKS
@pytest.mark.timeout(120)
async def test_files_in_memory_conform(each: Check, example: Example, workspace: Path) -> None:
    chosen = profile(workspace, sys.executable, example("memory_backend/backend.py"))
    async with places_of(chosen)() as open_session:
        await check_conforms(each, open_session, DECLARED["memory"], required=("editing", "grep"))


@pytest.mark.needs("landlock")
@CHECKS
@pytest.mark.timeout(120)
async def test_an_audited_worker_conforms(
    each: Check, example: Example, workspace: Path, tmp_path: Path
) -> None:
    program = example("auditing_backend/backend.py")
    peer = (WORKER, "--state={state}/worker", "--mode=unconfined")
    chosen = profile(workspace, sys.executable, program, str(tmp_path / "audit.ndjson"), *peer)
    required = (
        "commands",
        "confinement",
        "unconfined",
        "bytes",
        "processes",
        "artifacts",
        "retention",
    )
    async with places_of(chosen)() as open_session:
        await check_conforms(each, open_session, DECLARED["auditing"], required=required)


@pytest.mark.needs("node")
@CHECKS
@pytest.mark.timeout(120)
async def test_plain_node_conforms(each: Check, example: Example, workspace: Path) -> None:
    chosen = profile(workspace, "node", example("node_backend/backend.mjs"))
    async with places_of(chosen)() as open_session:
        await check_conforms(
            each, open_session, DECLARED["node"], required=("commands", "processes")
        )
