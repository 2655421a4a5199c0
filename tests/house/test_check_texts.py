from __future__ import annotations

from pathlib import Path

import pytest

import check_texts

SCHEME = "https:" + "//"
PRIVATE = "packages.corp" + ".internal"


def found(name: str, text: str, words: set[str] | None = None) -> list[str]:
    return list(check_texts.text_findings(Path(name), text, words or set()))


def test_the_place_of_the_checkout_is_found_in_any_text(tmp_path: Path) -> None:
    words = check_texts.machine_words(tmp_path, {})
    assert len(found("src/moorage/x.py", f"ROOT = {str(tmp_path)!r}", words)) == 1


def test_the_package_index_of_this_machine_is_found_in_any_text(tmp_path: Path) -> None:
    words = check_texts.machine_words(tmp_path, {"UV_INDEX_URL": f"{SCHEME}{PRIVATE}/simple"})
    assert len(found("Makefile.inc", f"INDEX = {PRIVATE}", words)) == 1


def test_the_public_index_gives_no_machine_away(tmp_path: Path) -> None:
    variables = {"PIP_INDEX_URL": f"{SCHEME}pypi.org/simple"}
    assert check_texts.machine_words(tmp_path, variables) == {str(tmp_path)}


def test_a_lock_names_no_host_at_all() -> None:
    assert len(found("requirements.lock", f"--index-url {SCHEME}pypi.org/simple")) == 1


def test_prose_names_only_hosts_that_every_reader_can_reach() -> None:
    (finding,) = found("docs/index.md", f"See {SCHEME}{PRIVATE}/page.")
    assert finding.startswith("docs/index.md:1:")
    assert (
        found("docs/index.md", f"See {SCHEME}docs.python.org/3/ and {SCHEME}127.0.0.1:80/.") == []
    )


def test_a_login_in_an_address_is_found() -> None:
    assert len(found("README.md", f"{SCHEME}me:word@github.com/x")) == 1


@pytest.mark.parametrize("path", ["/root/" + "x/y", "/mnt/" + "some/place"])
def test_prose_names_no_path_of_one_machine(path: str) -> None:
    assert len(found("changelog.d/1.added.md", f"Reads {path} now.")) == 1
    assert found("src/moorage/x.py", f"PLACE = {path!r}") == []


def test_a_relative_link_must_lead_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "LICENSE").touch()
    text = "[a](LICENSE) [b](LICENSE#end) [c](#here) [d](gone.md)"
    (finding,) = check_texts.link_findings(tmp_path, Path("README.md"), text)
    assert finding == "README.md: gone.md is linked and does not exist."


def test_the_readme_fits_on_two_screens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text("line\n" * 121)
    monkeypatch.setattr(check_texts.repository, "files", lambda root: [Path("README.md")])
    assert check_texts.findings(tmp_path, {}) == ["README.md: 121 lines, at most 120."]
