"""Known projects run their own tests through the MCP server and directly; the counts must be equal.

Their source distributions are downloaded, then unpacked and tested in a workspace with ``bash``,
by a client made from the official MCP SDK. The same tests then run outside Moorage. Both use one
virtual environment outside the workspace, where confined commands can read and run but not write.

    .venv/bin/python -m benchmarks.real_projects [--keep] [PROJECT...]
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

WAIT_MS = 60_000
TIMEOUT_SECONDS = 1800
"""For one test suite; a slow machine needs a few minutes for the largest."""

PYTEST = "pytest==8.4.2"
"""The newest that these releases' own tests are written for."""

KINDS = ("passed", "failed", "error", "skipped")
REPORT = "report.xml"


@dataclasses.dataclass(frozen=True)
class Project:
    """What to download, where its code lies once unpacked, and what its tests need."""

    name: str
    version: str
    source: str = "src"
    needs: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """Return the project pinned to its version."""
        return f"{self.name}=={self.version}"

    @property
    def folder(self) -> str:
        """Return the folder that the source distribution unpacks to."""
        return f"{self.name}-{self.version}"

    def command(self, python: Path) -> str:
        """Return the shell command that tests the unpacked project."""
        words = (
            str(python),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={REPORT}",
        )
        return f"PYTHONPATH={self.source} {shlex.join(words)}"


PROJECTS = {
    project.name: project
    for project in (
        Project("h11", "0.16.0", source="."),
        Project("packaging", "25.0", needs=("pretend",)),
        # The pager tests of later releases race with their own pager, with and without Moorage.
        Project("click", "8.1.8"),
    )
}


@dataclasses.dataclass(frozen=True)
class Run:
    """How one run of a project's tests went: each test's outcome, and how pytest ended."""

    outcomes: Mapping[str, str]
    exit_code: int
    seconds: float

    def cells(self) -> list[str]:
        """Return the counts for one line of the table."""
        counts = Counter(self.outcomes.values())
        return [
            *(str(counts[kind]) for kind in KINDS),
            str(self.exit_code),
            f"{self.seconds:.1f}",
        ]


def main() -> int:
    """Run the chosen projects both ways and return 1 when a test went another way."""
    parser = argparse.ArgumentParser(prog="real_projects", description=__doc__)
    parser.add_argument("project", nargs="*", metavar="PROJECT", help=", ".join(PROJECTS))
    parser.add_argument("--keep", action="store_true", help="keep the folders and say where")
    options = parser.parse_args()
    if unknown := set(options.project) - PROJECTS.keys():
        parser.error(f"no project is called {', '.join(sorted(unknown))}")
    chosen = [PROJECTS[name] for name in options.project or PROJECTS]
    root = Path(tempfile.mkdtemp(prefix="moorage-real-"))
    try:
        return anyio.run(compare, chosen, root)
    finally:
        if options.keep:
            print(f"\nkept: {root}")
        else:
            shutil.rmtree(root)


async def compare(projects: Sequence[Project], root: Path) -> int:
    """Prepare, run every project both ways, and print the table."""
    python = await prepare(projects, root)
    print(line("project", "where", *KINDS, "exit", "seconds"))
    differences: list[str] = []
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "moorage.cli", "mcp", "--workspace", str(root / "workspace")],
        env={"MOORAGE_HOME": str(root / "home")},
    )
    async with Client(server) as client:
        for project in projects:
            confined = await run_through_moorage(client, project, python, root)
            direct = await run_directly(project, python, root)
            print(line(project.folder, "direct", *direct.cells()))
            print(line(project.folder, "moorage", *confined.cells()), flush=True)
            differences += differences_of(project, direct, confined)
    print("\n" + ("\n".join(differences) or "every test went the same way in both"))
    return 1 if differences else 0


async def prepare(projects: Sequence[Project], root: Path) -> Path:
    """Download the source distributions, make the environment, and return its Python."""
    for folder in ("workspace", "direct", "downloads"):
        (root / folder).mkdir()
    print(f"preparing {', '.join(project.requirement for project in projects)} ...", flush=True)
    environment = root / "environment"
    await finished([sys.executable, "-m", "venv", str(environment)])
    python = environment / "bin" / "python"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    for project in projects:
        options = ["--no-deps", "--no-binary", project.name, "--dest", str(root / "downloads")]
        await finished([*pip, "download", *options, project.requirement])
    needs = {PYTEST, *(need for project in projects for need in project.needs)}
    # The projects are installed too: some tests read their own version from the metadata.
    await finished([*pip, "install", *needs, *(project.requirement for project in projects)])
    return python


async def run_through_moorage(client: Client, project: Project, python: Path, root: Path) -> Run:
    """Unpack and test a project in the workspace, by the tool ``bash`` alone."""
    archive = archive_of(project, root)
    unpacked = await bash(client, command=f"tar -xzf {shlex.quote(str(archive))}")
    if unpacked["exit_code"] != 0:
        raise SystemExit(f"{project.folder} could not be unpacked: {unpacked}")
    begun = anyio.current_time()
    tested = await bash(
        client,
        command=project.command(python),
        cwd=project.folder,
        timeout_seconds=TIMEOUT_SECONDS,
        scope="full",
    )
    seconds = anyio.current_time() - begun
    outcomes = read_report(root / "workspace" / project.folder / REPORT)
    return Run(outcomes, tested["exit_code"], seconds)


async def bash(client: Client, **arguments: Any) -> dict[str, Any]:
    """Call ``bash`` as a model does, and return what tells how the command ended.

    A command that was handed over to the background is waited for there.

    Raises:
        SystemExit: the call itself failed, or the command did not end by itself.
    """
    told = await called(client, arguments)
    if told["outcome"] == "promoted":
        process_id, offset, status = told["promoted_process_id"], 0, "running"
        while status not in {"stopped", "failed"}:
            read = {"action": "read", "process_id": process_id, "offset_bytes": offset}
            told = await called(client, {**read, "wait_ms": WAIT_MS})
            offset, status = told["end_offset"], told["status"]
    elif told["outcome"] != "exited":
        raise SystemExit(f"bash {arguments} did not end by itself: {told}")
    return told


async def called(client: Client, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call ``bash`` and return its structured content.

    Raises:
        SystemExit: the call failed.
    """
    result = await client.call_tool("bash", arguments)
    if result.is_error:
        raise SystemExit(f"bash {arguments} failed: {result.content}")
    structured: dict[str, Any] = result.structured_content
    return structured


async def run_directly(project: Project, python: Path, root: Path) -> Run:
    """Unpack and test a project outside Moorage."""
    await finished(["tar", "-xzf", str(archive_of(project, root)), "-C", str(root / "direct")])
    folder = root / "direct" / project.folder
    begun = anyio.current_time()
    tested = await anyio.run_process(project.command(python), cwd=folder, check=False)
    seconds = anyio.current_time() - begun
    return Run(read_report(folder / REPORT), tested.returncode, seconds)


def archive_of(project: Project, root: Path) -> Path:
    """Return the downloaded source distribution."""
    return root / "downloads" / f"{project.folder}.tar.gz"


def read_report(file: Path) -> Mapping[str, str]:
    """Return the outcome of each test in pytest's report."""
    cases = ET.parse(file).iter("testcase")  # noqa: S314 - written by the pytest we just ran
    return {f"{case.get('classname')}::{case.get('name')}": outcome_of(case) for case in cases}


def outcome_of(case: ET.Element) -> str:
    """Return one of ``KINDS``; an expected failure counts as skipped, as in the report."""
    found = {child.tag for child in case}
    if "error" in found:
        return "error"
    if "failure" in found:
        return "failed"
    return "skipped" if "skipped" in found else "passed"


def differences_of(project: Project, direct: Run, confined: Run) -> list[str]:
    """Return one sentence for each test that went another way."""
    names = sorted(direct.outcomes.keys() | confined.outcomes.keys())
    found = [
        f"{project.name}: {name}: {direct.outcomes.get(name, 'absent')} directly, "
        f"{confined.outcomes.get(name, 'absent')} in Moorage"
        for name in names
        if direct.outcomes.get(name) != confined.outcomes.get(name)
    ]
    if direct.exit_code != confined.exit_code:
        found.append(f"{project.name}: pytest exits {direct.exit_code} and {confined.exit_code}")
    return found


async def finished(argv: Sequence[str]) -> None:
    """Run a program to its end.

    Raises:
        SystemExit: it failed; its output says why.
    """
    done = await anyio.run_process(argv, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise SystemExit(f"{shlex.join(argv)} failed:\n{said}")


def line(project: str, where: str, *cells: str) -> str:
    """Return one line of the table."""
    return f"{project:<18} {where:<8} " + " ".join(f"{cell:>8}" for cell in cells)


if __name__ == "__main__":
    sys.exit(main())
