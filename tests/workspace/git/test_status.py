"""The porcelain format of a status, read into sides."""

from __future__ import annotations

from moorage.workspace.git.status import ChangedFile, parse_status

HASHES = "100644 100644 100644 " + "1" * 40 + " " + "2" * 40


def joined(*fields: str) -> bytes:
    return "".join(f"{field}\0" for field in fields).encode()


def test_headers_give_branch_and_distance() -> None:
    status = parse_status(
        joined(
            "# branch.oid " + "a" * 40,
            "# branch.head feature/x",
            "# branch.upstream origin/x",
            "# branch.ab +3 -2",
        )
    )
    assert (status.branch, status.head, status.upstream) == ("feature/x", "a" * 40, "origin/x")
    assert (status.ahead, status.behind) == (3, 2)
    assert status.is_clean


def test_before_the_first_commit_there_is_no_head() -> None:
    status = parse_status(joined("# branch.oid (initial)", "# branch.head main"))
    assert (status.head, status.branch, status.upstream) == ("", "main", "")


def test_a_change_stands_on_the_side_where_it_is() -> None:
    status = parse_status(
        joined(
            f"1 M. N... {HASHES} staged file",
            f"1 .D N... {HASHES} gone",
            f"1 AM N... {HASHES} both",
            f"1 .T N... {HASHES} type",
        )
    )
    assert status.staged == (
        ChangedFile("staged file", "modified"),
        ChangedFile("both", "added"),
    )
    assert status.unstaged == (
        ChangedFile("gone", "deleted"),
        ChangedFile("both", "modified"),
        ChangedFile("type", "type changed"),
    )
    assert not status.is_clean


def test_a_move_knows_where_it_came_from() -> None:
    status = parse_status(joined(f"2 RM N... {HASHES} R100 new name", "old name", "? other"))
    assert status.staged == (ChangedFile("new name", "renamed", "old name"),)
    assert status.unstaged == (ChangedFile("new name", "modified"),)
    assert status.untracked == ("other",)


def test_conflicts_and_ignored_files_are_told_apart() -> None:
    modes = "100644 100644 100644 100644 " + " ".join(letter * 40 for letter in "123")
    status = parse_status(joined(f"u UU N... {modes} in conflict", "! ignored", "? new"))
    assert status.unmerged == (ChangedFile("in conflict", "unmerged"),)
    assert status.untracked == ("new",)


def test_nothing_is_a_clean_status() -> None:
    assert parse_status(b"").is_clean
