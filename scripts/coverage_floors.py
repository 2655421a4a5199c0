"""Gate: every room reaches its floor of branch coverage.

The floors stand in ``pyproject.toml`` under ``tool.moorage.coverage-floors``. A floor counts lines
and branches together, over all modules below its path.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from typing import Any

import repository

REPORT = repository.ROOT / "build" / "coverage.json"


def figure(summaries: Mapping[str, Mapping[str, int]], room: str) -> float | None:
    """Return the per cent covered of ``room``, or None when the report has none of its modules."""
    below = f"src/{room}"
    chosen = [
        summary
        for name, summary in summaries.items()
        if name == below or name.startswith(f"{below}/")
    ]
    total = sum(each["num_statements"] + each.get("num_branches", 0) for each in chosen)
    covered = sum(each["covered_lines"] + each.get("covered_branches", 0) for each in chosen)
    if not chosen:
        return None
    return 100.0 * covered / total if total else 100.0


def findings(report: Mapping[str, Any], floors: Mapping[str, float]) -> list[str]:
    """Return the rooms below their floor, each with the modules that miss something."""
    summaries = {name: entry["summary"] for name, entry in report["files"].items()}
    found = []
    for room, floor in floors.items():
        reached = figure(summaries, room)
        if reached is None:
            found.append(f"{room}: no module of it was measured; mend the path of the floor.")
        elif reached < floor:
            found.append(f"{room}: {reached:.1f} % covered, the floor is {floor} %.")
    return found


def main() -> int:
    """Combine what the processes measured, write the report and check the floors."""
    REPORT.parent.mkdir(exist_ok=True)
    coverage = [sys.executable, "-m", "coverage"]
    for arguments in (
        ["combine", "--quiet"],
        ["json", "--quiet", "-o", str(REPORT)],
        ["report"],
    ):
        subprocess.run([*coverage, *arguments], cwd=repository.ROOT, check=True)
    settings = tomllib.loads((repository.ROOT / "pyproject.toml").read_text("utf-8"))
    report = json.loads(REPORT.read_text("utf-8"))
    return repository.report(
        "coverage", findings(report, settings["tool"]["moorage"]["coverage-floors"])
    )


if __name__ == "__main__":
    sys.exit(main())
