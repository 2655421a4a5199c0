"""What stands in the repository: its root and its files, tracked or about to be."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE_FOLDERS = ("src", "tests", "scripts", "benchmarks")


def files(root: Path = ROOT) -> list[Path]:
    """Return the files that Git tracks or would track, sorted, as paths below ``root``."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    names = sorted({name.decode() for name in listed.stdout.split(b"\0") if name})
    return [Path(name) for name in names if (root / name).is_file()]


def python_files(root: Path = ROOT, folders: tuple[str, ...] = CODE_FOLDERS) -> list[Path]:
    """Return the Python modules of ``folders``, as paths below ``root``."""
    return [path for path in files(root) if path.suffix == ".py" and path.parts[0] in folders]


def report(title: str, findings: list[str]) -> int:
    """Print the findings, or that there are none, and return the exit code."""
    for finding in findings:
        print(finding)
    print(f"{title}: {len(findings)} finding(s)" if findings else f"{title}: in order")
    return 1 if findings else 0
