"""Gate: the floors of our direct dependencies are true.

Resolves them to their lowest allowed versions, installs those in a place of their own and runs the
rooms that use them most. The place is kept and used again until a floor changes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys

import repository

PLACE = repository.ROOT / "build" / "lowest-direct"
PYTHON = PLACE / "bin" / "python"
# Pure rooms for msgspec, live ones for anyio, surfaces for click, rich and the MCP library.
TESTS = (
    *("tests/cli", "tests/connection", "tests/host", "tests/policy", "tests/protocol"),
    *("tests/mcp_server/test_server.py", "tests/mcp_server/test_tools.py", "tests/transports"),
)


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], cwd=repository.ROOT, check=True)


def prepare() -> None:
    """Make the place, unless it stands already for exactly these floors."""
    source = (repository.ROOT / "pyproject.toml").read_bytes() + sys.version.encode()
    wanted = hashlib.sha256(source).hexdigest()
    stamp = PLACE / "floors.sha256"
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    _uv("venv", "--quiet", "--python", sys.executable, str(PLACE))
    requirements = PLACE / "requirements.txt"
    _uv(
        *("pip", "compile", "--quiet", "--resolution", "lowest-direct", "--no-emit-index-url"),
        *("--all-extras", "--group", "test", "--output-file", str(requirements), "pyproject.toml"),
    )
    install = ("pip", "install", "--quiet", "--python", str(PYTHON))
    _uv(*install, "--requirement", str(requirements))
    _uv(*install, "--no-deps", "--editable", ".")
    stamp.write_text(wanted, "utf-8")


def main() -> int:
    """Prepare the place and run the chosen tests in it."""
    prepare()
    pytest = [str(PYTHON), "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-n", "2"]
    return subprocess.run([*pytest, *TESTS], cwd=repository.ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
