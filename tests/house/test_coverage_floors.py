from __future__ import annotations

import coverage_floors


def summary(lines: int, covered_lines: int, branches: int = 0, covered_branches: int = 0) -> dict:
    return {
        "summary": {
            "num_statements": lines,
            "covered_lines": covered_lines,
            "num_branches": branches,
            "covered_branches": covered_branches,
        }
    }


REPORT = {
    "files": {
        "src/moorage/policy/decide.py": summary(10, 10, 4, 4),
        "src/moorage/policy/permission.py": summary(10, 10, 4, 3),
        "src/moorage/policy_notes.py": summary(10, 0),
        "src/moorage/errors.py": summary(0, 0),
    }
}


def test_a_room_at_its_floor_is_in_order() -> None:
    assert coverage_floors.findings(REPORT, {"moorage/policy/decide.py": 100}) == []


def test_a_missed_branch_counts_like_a_missed_line() -> None:
    (finding,) = coverage_floors.findings(REPORT, {"moorage/policy": 100})
    assert finding == "moorage/policy: 96.4 % covered, the floor is 100 %."


def test_a_module_without_statements_is_covered() -> None:
    assert coverage_floors.findings(REPORT, {"moorage/errors.py": 100}) == []


def test_a_floor_for_a_room_that_was_not_measured_is_a_finding() -> None:
    (finding,) = coverage_floors.findings(REPORT, {"moorage/gone": 100})
    assert "no module of it was measured" in finding
