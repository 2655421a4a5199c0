"""Gate: the wheel works with its base dependencies alone, as an image would install it.

Builds the wheel, installs it into a fresh place, speaks to ``moorage-worker`` over its standard
streams as any host could, looks at what the worker imported, and asks ``moorage`` what it needs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import repository

LIMIT_SECONDS = 120
INSIDE_ROOMS = frozenset(
    {"confine", "connection", "errors", "policy", "process", "protocol", "tools", "transports"}
    | {"worker", "workspace"}
)
BASE_LIBRARIES = frozenset({"anyio", "idna", "msgspec", "quickjs", "sniffio", "typing_extensions"})
# A machine's own customization, and what the standard library tries to import for Jython.
FOREIGN_ATTEMPTS = frozenset({"org", "sitecustomize", "usercustomize"})
IMPORT_LINE = re.compile(r"import time: +\d+ \| +\d+ \| *(\S+)")
TOKEN = "0" * 64  # a private pipe to our own child needs no secret


def install(place: Path) -> Path:
    """Build the wheel, install it with what it requires, and return the folder of its programs."""
    python = place / "venv" / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    for argv in (
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(place),
        ],
        [*uv, "venv", "--quiet", "--python", sys.executable, str(place / "venv")],
    ):
        subprocess.run(argv, cwd=repository.ROOT, check=True, stderr=subprocess.DEVNULL)
    (wheel,) = place.glob("*.whl")
    constraints = ["--constraint", "requirements.lock"]
    install_wheel = [*uv, "pip", "install", "--quiet", "--python", str(python), *constraints]
    subprocess.run([*install_wheel, str(wheel)], cwd=repository.ROOT, check=True)
    return python.parent


def converse(worker: subprocess.Popen[bytes], requests: list[tuple[str, Any]]) -> list[Any]:
    """Send the requests one after another and return the replies; the worker then ends."""
    assert worker.stdin is not None  # noqa: S101 - pipes were asked for
    assert worker.stdout is not None  # noqa: S101
    replies = []
    try:
        for number, (method, data) in enumerate(requests, 1):
            frame = {"token": TOKEN, "id": str(number), "method": method, "data": data}
            worker.stdin.write(json.dumps(frame).encode() + b"\n")
            worker.stdin.flush()
            replies.append(json.loads(worker.stdout.readline()))
        worker.stdin.close()
    except (BrokenPipeError, json.JSONDecodeError) as error:
        replies.append({"error": f"it went away: {error!r}"})
        worker.kill()
        worker.stdin = None
    return replies


def worker_findings(programs: Path, place: Path) -> list[str]:
    """Return what is wrong with the installed worker."""
    workspace = place / "workspace"
    arguments = json.dumps({"path": "hello.txt", "content": "hello\n"})
    call = {"call": {"name": "write_file", "arguments": arguments}, "actor": "smoke"}
    with subprocess.Popen(
        [programs / "moorage-worker", "--state", place / "state"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(place / "imports").open("wb"),
        env={**_bare_variables(place), "PYTHONPROFILEIMPORTTIME": "1"},
    ) as worker:
        binding = {"version": 4, "root": str(workspace), "session": "smoke"}
        replies = converse(worker, [("initialize", binding), ("execute", call)])
    found = [f"worker: {reply['error']}" for reply in replies if "error" in reply]
    if worker.returncode:
        found.append(f"worker: ended with exit code {worker.returncode}")
    if not (workspace / "hello.txt").is_file():
        found.append("worker: the file that it should have written is not there")
    said = (place / "imports").read_text("utf-8", "replace")
    if found:
        own_lines = (line for line in said.splitlines() if not line.startswith("import time:"))
        found.extend(f"worker: said {line}" for line in own_lines)
    return found + import_findings(set(IMPORT_LINE.findall(said)))


def import_findings(modules: set[str]) -> list[str]:
    """Return the modules that a worker has no business to import."""
    if "moorage.errors" not in modules:
        return ["worker: its imports could not be seen"]
    found = []
    for name in sorted(modules):
        top, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if top == "moorage":
            is_fine = not room or room in INSIDE_ROOMS
        else:
            allowed = BASE_LIBRARIES | FOREIGN_ATTEMPTS | sys.stdlib_module_names
            is_fine = top in allowed or top.startswith("_")
        if not is_fine:
            found.append(f"worker: imports {name}")
    return found


def command_findings(programs: Path, place: Path) -> list[str]:
    """Return what is wrong with ``moorage`` where the libraries of the command line are missing."""
    asked = subprocess.run(
        [programs / "moorage", "--help"],
        check=False,
        capture_output=True,
        text=True,
        env=_bare_variables(place),
    )
    said = asked.stderr.strip()
    if asked.returncode == 0 or "moorage[cli]" not in said or len(said.splitlines()) != 1:
        return [f"moorage without its extra does not say in one sentence what to install: {said!r}"]
    return []


def _bare_variables(place: Path) -> dict[str, str]:
    return {"HOME": str(place), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


def main() -> int:
    """Install the wheel somewhere, try it, and report."""
    signal.alarm(LIMIT_SECONDS)  # ends this program, and with its pipes the worker
    with TemporaryDirectory(prefix="moorage-wheel-") as folder:
        place = Path(folder).resolve()
        programs = install(place)
        found = [*worker_findings(programs, place), *command_findings(programs, place)]
    return repository.report("wheel", found)


if __name__ == "__main__":
    sys.exit(main())
