"""The npm package: its own tests, and a backend written with it behind a real host."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import anyio
import psutil
import pytest

import moorage
from moorage.errors import InvalidArguments

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sdk" / "js"

BACKEND = """
import { appendFileSync } from "node:fs";
import { delegateExecutionBackendV4, runExecutionBackendV4 } from "SDK";
const [log, ...command] = process.argv.slice(2);
const peer = delegateExecutionBackendV4({ command, capabilities: ["process.start.v1"] });
await runExecutionBackendV4({
  ...peer,
  methods: {
    ...peer.methods,
    async execute(request, context) {
      console.log("this is no frame");
      appendFileSync(log, `${request.call.name} `);
      return peer.methods.execute(request, context);
    },
  },
});
"""

pytestmark = pytest.mark.needs("node")


def test_the_package_passes_its_own_tests() -> None:
    with subprocess.Popen(
        ["node", "--test", "--test-timeout=10000", "test/"],
        cwd=PACKAGE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as tests:
        said, _ = tests.communicate(timeout=50)
    assert tests.returncode == 0, said


def test_the_package_has_no_dependencies_and_names_only_files_that_are_there() -> None:
    described = json.loads((PACKAGE / "package.json").read_text())
    assert not {"dependencies", "devDependencies", "peerDependencies"} & described.keys()
    named = [described["main"], described["types"], *described["files"]]
    assert [name for name in named if not (PACKAGE / name).exists()] == []


async def test_a_backend_that_delegates_to_the_node_example_serves_a_real_session(
    tmp_path: Path,
) -> None:
    home, log = tmp_path / "home", tmp_path / "calls"
    write_backend(tmp_path, home, log)
    with anyio.fail_after(40):
        async with moorage.open_session("box", mode="unconfined", home=home) as session:
            await session.write_file("a.txt", "hello\n")
            assert (await session.run("cat a.txt")).stdout == "hello\n"
            with pytest.raises(InvalidArguments, match="NUL"):
                await session.call("write_file", {"path": "\0", "content": ""})
            async with session.events() as events:
                record = await session.processes.start("sleep 600", tty=False)
                assert (await events.receive()).process.id == record.id
                assert await session.processes.find(record.operation_id) is not None
    assert text_of(log) == "write_file bash write_file "
    assert not psutil.pid_exists(record.pid)


def write_backend(folder: Path, home: Path, log: Path) -> None:
    """Write the backend and the user's profile that chooses it."""
    program = folder / "backend.mjs"
    program.write_text(BACKEND.replace("SDK", (PACKAGE / "src" / "index.js").as_uri()))
    peer = ROOT / "examples" / "node_backend" / "backend.mjs"
    command = [shutil.which("node"), str(program), str(log), "node", str(peer)]
    profile = {"backend": "command", "command": command, "workspace": str(folder / "workspace")}
    home.mkdir()
    environments = {"profiles": {"box": profile}}
    (home / "config.json").write_text(json.dumps({"execution_environments": environments}))


def text_of(file: Path) -> str:
    return file.read_text()
