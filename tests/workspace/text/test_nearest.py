from __future__ import annotations

from moorage.workspace.text.nearest import nearest_names


def test_names_within_three_edits_come_nearest_first() -> None:
    names = ["config.yml", "confg.yaml", "conf.yaml", "unrelated.txt", "config.yaml.bak"]
    assert nearest_names("config.yaml", names, 5) == ["confg.yaml", "config.yml", "conf.yaml"]


def test_case_does_not_count() -> None:
    assert nearest_names("readme.md", ["README.md"], 3) == ["README.md"]


def test_short_names_are_not_near_to_everything() -> None:
    assert nearest_names("ab", ["xy", "ac"], 3) == ["ac"]
    assert nearest_names("a", ["b"], 3) == []


def test_only_as_many_as_wanted_are_named() -> None:
    assert nearest_names("file1", ["file2", "file3", "file4"], 2) == ["file2", "file3"]


def test_an_empty_name_is_near_to_nothing_else() -> None:
    assert nearest_names("", ["a", "b"], 3) == []
