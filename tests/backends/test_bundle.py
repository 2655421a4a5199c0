"""The portable worker: found and verified, and at work where nothing but it is installed."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from PIL import Image

from moorage.backends.bundle import (
    MAX_BYTES,
    WorkerBundle,
    archive_name,
    bundle_argv,
    bundles_folder,
    find_bundle,
    hash_file,
)
from moorage.confine.own_interpreter import TOP, bundled_interpreter
from moorage.connection.host_end import HostConnection
from moorage.errors import ConfigError, ProvisionError
from moorage.protocol.binding import PROTOCOL_VERSION, Binding
from moorage.protocol.secret import Secret
from moorage.protocol.tool_calls import ExecuteRequest, ToolCall, ToolResult
from moorage.transports.stdio import ChildTransport

NAME = archive_name(version("moorage"))
HASH = "0" * 64
ATTACKED = "from moorage.confine.selftest import run_self_tests as r; print(len(r()))"
# Whoever takes one of these for its own would not start, or would say so.
TRAPS = {
    "PYTHONHOME": "/nowhere",
    "PYTHONPATH": "/nowhere",
    "PYTHONSTARTUP": "/nowhere",
    "LD_LIBRARY_PATH": "/nowhere",
}


def put(folder: Path, *, name: str = NAME, told: str | None = f"{HASH}  {NAME}\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / name
    archive.write_bytes(b"an archive")
    if told is not None:
        hash_file(archive).write_text(told)
    return archive


# Found and verified.


def test_one_that_is_named_comes_before_one_that_is_kept(tmp_path: Path) -> None:
    variables = {"MOORAGE_HOME": str(tmp_path / "home")}
    kept = put(bundles_folder(variables))
    assert find_bundle(variables) == WorkerBundle(
        archive=kept, sha256=HASH, version=version("moorage")
    )
    named = put(tmp_path / "named")
    found = find_bundle({**variables, "MOORAGE_WORKER_BUNDLE": str(named)})
    assert found.archive == named


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HOME": "/h"}, "/h/.local/state/moorage/bundles"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/moorage/bundles"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s", "MOORAGE_HOME": "/m"}, "/m/state/bundles"),
    ],
)
def test_it_is_kept_in_the_users_state(variables: dict[str, str], folder: str) -> None:
    assert bundles_folder(variables) == Path(folder)


def test_none_is_an_error_that_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ProvisionError, match="no portable worker") as caught:
        find_bundle({"HOME": str(tmp_path)})
    assert "scripts/build-worker-bundle" in caught.value.hint


@pytest.mark.parametrize("told", [None, "", "a word", "f" * 63, "\udcff"])
def test_a_hash_that_is_missing_or_none_is_an_error(told: str | None, tmp_path: Path) -> None:
    archive = put(tmp_path, told=None)
    if told is not None:
        hash_file(archive).write_text(told, errors="surrogateescape")
    with pytest.raises(ProvisionError, match=r"hash .* is unknown"):
        find_bundle({"MOORAGE_WORKER_BUNDLE": str(archive)})


def test_one_of_another_version_is_refused_by_its_name(tmp_path: Path) -> None:
    other = put(tmp_path, name=archive_name("99.0"))
    with pytest.raises(ProvisionError, match=r"99\.0.* is no portable worker of Moorage") as caught:
        find_bundle({"MOORAGE_WORKER_BUNDLE": str(other)})
    assert NAME in caught.value.hint


def test_a_damaged_one_is_not_delivered(portable_worker: WorkerBundle, tmp_path: Path) -> None:
    data = bytearray(portable_worker.read_verified())
    data[len(data) // 2] ^= 1
    archive = tmp_path / NAME
    archive.write_bytes(data)
    damaged = msgspec.structs.replace(portable_worker, archive=archive)
    with pytest.raises(ProvisionError, match=r"damaged.*not delivered"):
        damaged.read_verified()


def test_one_that_went_away_is_an_error_with_the_reason(tmp_path: Path) -> None:
    gone = WorkerBundle(archive=tmp_path / NAME, sha256=HASH, version="1")
    with pytest.raises(ProvisionError, match="cannot be read: No such file"):
        gone.read_verified()


@pytest.mark.parametrize("folder", ["relative", "/with:colon", "/with;semicolon", "/$ORIGIN"])
def test_a_folder_that_no_loader_understands_is_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match="cannot start from"):
        bundle_argv(folder)


def test_it_is_small_and_holds_one_folder_of_nobody(portable_worker: WorkerBundle) -> None:
    data = portable_worker.read_verified()
    assert len(data) <= MAX_BYTES
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        entries = archive.getmembers()
    assert {entry.name.split("/")[0] for entry in entries} == {TOP}
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in entries} == {
        (0, 0, "", 315532800)
    }
    assert all(entry.isfile() or entry.isdir() for entry in entries)
    names = [entry.name for entry in entries]
    assert names == sorted(names, key=lambda name: name.split("/"))
    assert {f"{TOP}/licenses/{name}" for name in ("moorage", "libc6", "msgspec")} <= {*names} | {
        str(Path(name).parent) for name in names
    }


# At work.


@pytest.fixture(scope="session")
def unpacked(portable_worker: WorkerBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a space in its name that the portable worker was unpacked in."""
    folder = tmp_path_factory.mktemp("portable") / "a worker"
    with tarfile.open(fileobj=io.BytesIO(portable_worker.read_verified())) as archive:
        archive.extractall(folder, filter="data")
    return folder


def run(*argv: str, cwd: Path, **variables: str) -> str:
    ended = subprocess.run(  # noqa: TID251 - to its end, within a bound
        argv, env=variables, cwd=cwd, capture_output=True, check=False, text=True, timeout=50
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Desk:
    """One connected worker, and its tools."""

    def __init__(self, connection: HostConnection) -> None:
        self._connection = connection

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        call = ToolCall(name=name, arguments=json.dumps(arguments))
        request = ExecuteRequest(call=call, actor="agent")
        result: ToolResult = await self._connection.request("execute", request, ToolResult)
        assert not result.is_error, result.text
        return result


@asynccontextmanager
async def served(*argv: str, root: str, variables: dict[str, str]) -> AsyncIterator[Desk]:
    """Yield the tools of a worker that serves on its standard streams."""
    with anyio.fail_after(50):
        transport = await ChildTransport.start(argv, variables=variables)
        async with HostConnection(transport, Secret("t" * 64)) as connection:
            binding = Binding(version=PROTOCOL_VERSION, root=root, session="s1", identity="here")
            await connection.initialize(binding)
            yield Desk(connection)


def noise() -> bytes:
    """Return an image that is too large to be passed on as it is."""
    target = io.BytesIO()
    Image.frombytes("RGB", (900, 900), os.urandom(900 * 900 * 3)).save(target, "PNG")
    return target.getvalue()


async def whole_round(desk: Desk, workspace: Path) -> None:
    """Use every part that starts something of its own."""
    (workspace / "note.txt").write_text("first\nneedle\n")
    (workspace / "noise.png").write_bytes(noise())
    assert "needle" in (await desk.call("read_file", path="note.txt")).text
    assert "note.txt" in (await desk.call("grep", pattern="needle")).text
    image = (await desk.call("read_file", path="noise.png")).content[1]
    assert image.mime_type == "image/jpeg"
    assert Image.open(io.BytesIO(base64.b64decode(image.data))).format == "JPEG"
    await desk.call("write_file", path="made.txt", content="made")
    assert (workspace / "made.txt").read_text() == "made"
    shown = await desk.call("bash", command="read -r line < made.txt; echo $line; echo ${!LD_*}.")
    assert "made" in shown.text
    assert "\n." in shown.text, "the worker's library path came to a command"


def test_it_tells_its_version_whatever_the_environment_says(unpacked: Path) -> None:
    told = run(*bundle_argv(str(unpacked)), "--version", cwd=Path("/"), **TRAPS)
    assert told == f"moorage-worker {version('moorage')}\n"


def test_nothing_but_its_own_is_imported(unpacked: Path, tmp_path: Path) -> None:
    for name in ("anyio", "json", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the current folder')")
    program = "import anyio, json, sys; print(*sys.path, sep='\\n')"
    python = bundled_interpreter(f"{unpacked}/{TOP}")
    paths = run(*python, "-c", program, cwd=tmp_path, PYTHONPATH=str(tmp_path)).splitlines()
    assert all(path.startswith(f"{unpacked}/{TOP}/lib/python") for path in paths)
    maps = "print(open('/proc/self/maps').read())"
    loaded = {line.split(None, 5)[5] for line in run(*python, "-c", f"import ssl, PIL._imaging, "
              f"_ctypes; {maps}", cwd=tmp_path).splitlines() if ".so" in line}  # fmt: skip
    assert loaded
    assert all(path.startswith(f"{unpacked}/{TOP}/") for path in loaded)


@pytest.mark.needs("landlock")
def test_its_confinement_is_attacked_by_its_own_python(unpacked: Path, tmp_path: Path) -> None:
    python = bundled_interpreter(f"{unpacked}/{TOP}")
    assert int(run(*python, "-c", ATTACKED, cwd=tmp_path, PATH=os.environ["PATH"])) > 10


@pytest.mark.needs("landlock")
async def test_it_works_in_a_bare_folder_with_an_empty_environment(
    unpacked: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    argv = (*bundle_argv(str(unpacked)), f"--state={tmp_path}/state")
    async with served(*argv, root=str(workspace), variables={}) as desk:
        await whole_round(desk, workspace)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Return the root of a system of two static programs: no libraries, no Python, no ripgrep."""
    root = tmp_path / "system"
    for name in ("bin", "tmp", "work", "home", "worker", "proc", "dev"):
        (root / name).mkdir(parents=True)
    for name, program in (("busybox", "busybox"), ("bash", "bash-static")):
        shutil.copy(shutil.which(program) or program, root / "bin" / name)
    for name in ("sh", "cat", "ls", "env"):
        (root / "bin" / name).symlink_to("busybox")
    return root


def within(system: Path, unpacked: Path) -> tuple[str, ...]:
    """Return what starts a program in a system of its own; the worker lies there, read-only."""
    binds = ("--bind", str(system), "/", "--ro-bind", str(unpacked), "/worker")
    ways = ("--unshare-pid", "--unshare-net", "--proc", "/proc", "--dev", "/dev", "--clearenv")
    return ("bwrap", *binds, *ways, "--setenv", "HOME", "/home", "--chdir", "/", "--")


@pytest.mark.needs("landlock", "bwrap", "busybox", "bash-static")
async def test_it_works_in_a_system_without_libraries_and_read_only(
    unpacked: Path, system: Path
) -> None:
    argv = (*within(system, unpacked), *bundle_argv("/worker"))
    async with served(*argv, root="/work", variables={"PATH": os.environ["PATH"]}) as desk:
        await whole_round(desk, system / "work")
        shown = await desk.call("bash", command="ls / && busybox | busybox head -n 1")
        assert "BusyBox" in shown.text


@pytest.mark.needs("landlock", "bwrap", "busybox", "bash-static")
async def test_variables_of_the_environment_are_for_commands_alone(
    unpacked: Path, system: Path
) -> None:
    traps = (f"{name}={value}" for name, value in TRAPS.items())
    argv = (*within(system, unpacked), "/bin/env", *traps, *bundle_argv("/worker"))
    async with served(*argv, root="/work", variables={"PATH": os.environ["PATH"]}) as desk:
        await desk.call("write_file", path="made.txt", content="needle")
        assert "made.txt" in (await desk.call("grep", pattern="needle")).text
        shown = await desk.call("bash", command="echo $PYTHONHOME:$LD_LIBRARY_PATH")
        assert "/nowhere:/nowhere" in shown.text


@pytest.mark.needs("landlock", "bwrap", "busybox", "bash-static")
async def test_one_that_stays_is_reached_in_a_system_without_libraries(
    unpacked: Path, system: Path
) -> None:
    # As long as the first program of that system runs, the worker that was left behind does.
    connect = (*bundle_argv("/worker"), "connect", "--name=s1", "--idle-seconds=30")
    variables = {"PATH": os.environ["PATH"]}
    async with served(
        *within(system, unpacked), *connect, root="/work", variables=variables
    ) as desk:
        await whole_round(desk, system / "work")
