"""Gate: no committed text names a machine or a private host, and what is linked exists.

What would give this machine away is asked of the machine: where the checkout lies, and which
package index pip and uv were told to use.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import repository

README_LINES = 120  # two screens
LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?:#[^)]*)?\)")

URL = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?P<login>[^\s/@:'\"`<>{}]+:[^\s/@'\"`<>{}]+@)?(?P<host>[A-Za-z0-9.-]+)"
)
MACHINE_PATH = re.compile(r"(?<![\w/.~])/(?:root|mnt|workspace|tmp/\w+)/[\w./-]+")
PUBLIC_HOSTS = (
    *("apache.org", "github.com", "json-schema.org", "kernel.org", "modelcontextprotocol.io"),
    *("pypi.org", "python.org", "readthedocs.io", "semver.org", "spdx.org", "w3.org"),
    *("example.com", "example.org", "example.test"),
)
INDEX_VARIABLES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
    *("UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_INDEX_URL"),
)


def machine_words(root: Path, variables: Mapping[str, str]) -> set[str]:
    """Return the words by which this machine would be recognised."""
    addresses = " ".join(variables.get(name, "") for name in INDEX_VARIABLES)
    hosts = {match["host"] for match in URL.finditer(addresses)}
    return {str(root), *(host for host in hosts if not _is_public(host))}


def _is_public(host: str) -> bool:
    is_loopback = host.startswith("127.") or host in {"0.0.0.0", "localhost"}  # noqa: S104
    return is_loopback or "." not in host or host.endswith(PUBLIC_HOSTS)


def text_findings(path: Path, text: str, words: set[str]) -> Iterator[str]:
    """Yield what one committed text should not say."""
    is_prose = path.suffix in {".md", ".toml", ".lock", ".txt"} or path.name == "Makefile"
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{path}:{number}"
        yield from (
            f"{place}: names this machine: {word}" for word in sorted(words) if word in line
        )
        if path.name == "requirements.lock" and URL.search(line):
            yield f"{place}: the lock must not name a host; run make lock."
        for match in URL.finditer(line) if is_prose else ():
            if match["login"]:
                yield f"{place}: an address with a login in it."
            if not _is_public(match["host"]):
                yield f"{place}: {match['host']} is no host that readers can reach."
        if is_prose and (found := MACHINE_PATH.search(line)):
            yield f"{place}: {found.group()} is a path of one machine."


def link_findings(root: Path, path: Path, text: str) -> Iterator[str]:
    """Yield the relative links of a page that lead to no file of the repository."""
    for match in LINK.finditer(text):
        if not (root / path.parent / match["target"]).exists():
            yield f"{path}: {match['target']} is linked and does not exist."


def findings(root: Path, variables: Mapping[str, str]) -> list[str]:
    """Return everything of that kind below ``root``."""
    words = machine_words(root, variables)
    found: list[str] = []
    for path in repository.files(root):
        text = (root / path).read_bytes().decode("utf-8", "replace")
        found += text_findings(path, text, words)
        if path.suffix == ".md":
            found += link_findings(root, path, text)
        if path == Path("README.md") and text.count("\n") > README_LINES:
            found.append(f"{path}: {text.count(chr(10))} lines, at most {README_LINES}.")
    return found


if __name__ == "__main__":
    sys.exit(repository.report("texts", findings(repository.ROOT, os.environ)))
