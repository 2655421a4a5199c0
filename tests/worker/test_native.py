from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from moorage.connection.host_end import HostConnection
from moorage.errors import (
    ConfigError,
    ExecutionError,
    InvalidArguments,
    Refused,
    RetainedStateMissing,
    UnknownTool,
)
from moorage.policy.permission import PermissionMode
from moorage.protocol.binding import BYTES, PROCESS_START, Binding
from moorage.protocol.exports import ExportCloseRequest, ExportReadReply, ExportReadRequest
from moorage.protocol.files import (
    FileReadReply,
    FileReadRequest,
    FileWriteReply,
    FileWriteRequest,
    InputWriteReply,
    InputWriteRequest,
)
from moorage.protocol.tool_calls import ExecuteRequest, ToolCall, ToolResult
from moorage.testing.peers import ScriptedHost
from moorage.transports.memory import MemoryTransport
from moorage.worker.options import WorkerOptions

Serving = Callable[[WorkerOptions], AbstractAsyncContextManager[MemoryTransport]]
Connect = Callable[[WorkerOptions], AbstractAsyncContextManager[HostConnection]]


def asking(name: str, /, actor: str = "s-1", mode: str = "", **arguments: object) -> ExecuteRequest:
    call = ToolCall(name=name, arguments=json.dumps(arguments))
    return ExecuteRequest(call=call, actor=actor, permission_mode=mode)


async def call(connection: HostConnection, request: ExecuteRequest) -> ToolResult:
    return await connection.request("execute", request, ToolResult)


async def test_the_binding_makes_the_workspace_and_promises_bytes_and_processes(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    with anyio.fail_after(5):
        async with connect(options) as connection:
            reply = await connection.initialize(binding)
    assert (reply.version, reply.root) == (4, str(tmp_path / "work"))
    assert reply.capabilities == (BYTES, PROCESS_START)
    assert (tmp_path / "work").stat().st_mode & 0o777 == 0o700


@pytest.mark.needs("landlock")
async def test_commands_start_with_the_login_and_forwarded_variables_and_secrets_are_masked(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    with anyio.fail_after(10):
        async with connect(options) as connection:
            await connection.initialize(binding)
            shown = await call(
                connection,
                asking("bash", command="echo $OWN $GIVEN_TOKEN; echo ${#GIVEN_TOKEN} $PAGER"),
            )
            again = await call(connection, asking("bash", command="echo $OWN"))
    assert shown.text.splitlines() == ["1 [REDACTED]", "19 cat"]
    assert again.text == "1"


async def test_a_tool_that_is_none_of_the_nine_is_refused(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    with anyio.fail_after(5):
        async with connect(options) as connection:
            await connection.initialize(binding)
            for name in ("notes", "apply_patch", "process", "run_code"):
                with pytest.raises(UnknownTool):
                    await call(connection, asking(name))


async def test_a_request_above_the_granted_mode_or_without_an_actor_leaves_the_disk_untouched(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    refused: list[tuple[ExecuteRequest, type[ExecutionError]]] = [
        (asking("write_file", mode="unconfined", path="a", content="x"), Refused),
        (asking("write_file", mode="read_only", path="a", content="x"), Refused),
        (asking("write_file", mode="everything", path="a", content="x"), InvalidArguments),
        (asking("write_file", actor="", path="a", content="x"), InvalidArguments),
        (asking("write_file", path="../a", content="x"), Refused),
        (asking("write_file", path="a", content=1), InvalidArguments),
        (asking("write_file", path="a", content="x", colour="red"), InvalidArguments),
    ]
    with anyio.fail_after(5):
        async with connect(options) as connection:
            await connection.initialize(binding)
            for request, error in refused:
                with pytest.raises(error):
                    await call(connection, request)
            write = FileWriteRequest(
                path="a", actor="s-1", permission_mode="read_only", data=b"x", eof=True
            )
            with pytest.raises(Refused):
                await connection.request("file/write", write, FileWriteReply)
    assert list((tmp_path / "work").iterdir()) == []
    assert not (tmp_path / "a").exists()


@pytest.mark.needs("landlock")
async def test_files_input_and_exports_travel_as_bytes(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    with anyio.fail_after(10):
        async with connect(options) as connection:
            await connection.initialize(binding)
            write = FileWriteRequest(path="a", actor="s-1", data=b"\xffabc", eof=True)
            await connection.request("file/write", write, FileWriteReply)
            read = FileReadRequest(path="a", actor="s-1", offset=1)
            reply = await connection.request("file/read", read, FileReadReply)
            assert (reply.data, reply.eof, reply.size) == (b"abc", True, 4)
            piece = InputWriteRequest(data=b"given", eof=True)
            upload = (await connection.request("input/write", piece, InputWriteReply)).upload
            asked = msgspec.structs.replace(asking("bash", command="cat"), input=upload)
            assert (await call(connection, asked)).text == "given"
            published = await call(connection, asking("present_artifact", path="a"))
            token = json.loads(published.text)["execution_export"]
            part = await connection.request(
                "export/read", ExportReadRequest(token=token, offset=0), ExportReadReply
            )
            assert (part.data, part.eof) == (b"\xffabc", True)
            close = ExportCloseRequest(token=token)
            await connection.request("export/close", close, msgspec.Raw)
            with pytest.raises(ExecutionError):
                await connection.request("export/close", close, msgspec.Raw)


async def test_a_workspace_that_must_exist_is_not_made(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    binding = msgspec.structs.replace(binding, require_existing_workspace=True)
    with anyio.fail_after(5):
        async with connect(options) as connection:
            with pytest.raises(RetainedStateMissing):
                await connection.initialize(binding)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("version", [3, 5])
async def test_another_version_is_refused_before_any_folder_is_made(
    serving: Serving, options: WorkerOptions, binding: Binding, tmp_path: Path, version: int
) -> None:
    # By hand: our own host would not even send it.
    with anyio.fail_after(5):
        async with serving(options) as transport:
            peer = ScriptedHost(transport)
            reply = await peer.open(msgspec.structs.replace(binding, version=version))
            await transport.close_sending()
    assert reply["error"].startswith("protocol_mismatch: ")
    assert f"execution protocol {version}" in reply["error"]
    assert not (tmp_path / "work").exists()
    assert not (options.state / "env-1").exists()


async def test_text_that_is_not_valid_unicode_is_an_argument_error_and_nothing_happens(
    serving: Serving, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    with anyio.fail_after(5):
        async with serving(options) as transport:
            peer = ScriptedHost(transport)
            await peer.open(binding)
            for name, arguments in (
                ("bash", {"command": "touch ran; echo \ud800"}),
                ("bash", {"command": "touch ran", "cwd": "\udcff"}),
                ("write_file", {"path": "ran\ud800", "content": ""}),
                ("read_file", {"path": "\udcff"}),
            ):
                await peer.ask("1", "execute", asking(name, **arguments))
                reply = await peer.hear()
                assert reply["error"].startswith(f"invalid_arguments: {name}: ")
            await transport.close_sending()
    assert list((tmp_path / "work").iterdir()) == []


async def test_a_workspace_around_the_home_is_refused_by_the_worker_as_well(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    for root in (tmp_path, tmp_path / "home"):
        with anyio.fail_after(5):
            async with connect(options) as connection:
                with pytest.raises(ConfigError, match="overlap"):
                    await connection.initialize(msgspec.structs.replace(binding, root=str(root)))


async def test_only_a_root_that_the_worker_made_is_removed_at_its_end(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    binding = msgspec.structs.replace(binding, remove_workspace_on_exit=True)
    with anyio.fail_after(5):
        async with connect(options) as connection:
            await connection.initialize(binding)
            await call(connection, asking("write_file", path="a", content="x"))
            assert (tmp_path / "work" / "a").exists()
    assert not (tmp_path / "work").exists()
    (tmp_path / "work").mkdir()
    with anyio.fail_after(5):
        async with connect(options) as connection:
            await connection.initialize(binding)
    assert (tmp_path / "work").exists()


async def test_a_root_that_is_a_symlink_is_never_removed_nor_what_it_leads_to(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    binding = msgspec.structs.replace(binding, remove_workspace_on_exit=True)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "kept").write_text("kept")
    (tmp_path / "work").symlink_to(tmp_path / "target")
    with anyio.fail_after(5):
        async with connect(options) as connection:
            reply = await connection.initialize(binding)
            assert reply.root == str(tmp_path / "target")
            await call(connection, asking("write_file", path="a", content="x"))
    assert (tmp_path / "work").is_symlink()
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == ["a", "kept"]


@pytest.mark.parametrize(
    "swap",
    [
        lambda folder: (folder / "work").symlink_to(folder / "target"),
        lambda folder: shutil.copytree(folder / "target", folder / "work"),
        lambda _: None,
    ],
    ids=["a symlink", "another folder", "nothing"],
)
async def test_what_took_the_name_of_a_root_that_was_made_is_left(
    connect: Connect,
    options: WorkerOptions,
    binding: Binding,
    tmp_path: Path,
    swap: Callable[[Path], object],
) -> None:
    binding = msgspec.structs.replace(binding, remove_workspace_on_exit=True)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "kept").write_text("kept")
    with anyio.fail_after(5):
        async with connect(options) as connection:
            await connection.initialize(binding)
            (tmp_path / "work").rename(tmp_path / "moved")
            swap(tmp_path)
            is_taken = (tmp_path / "work").exists()
    assert (tmp_path / "target" / "kept").read_text() == "kept"
    assert (tmp_path / "moved").exists()
    assert (tmp_path / "work").exists() is is_taken


async def test_a_root_below_a_symlink_is_made_and_removed_alone(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "target")
    binding = msgspec.structs.replace(
        binding, root=str(tmp_path / "way" / "new"), remove_workspace_on_exit=True
    )
    with anyio.fail_after(5):
        async with connect(options) as connection:
            reply = await connection.initialize(binding)
            assert reply.root == str(tmp_path / "target" / "new")
    assert list((tmp_path / "target").iterdir()) == []
    assert (tmp_path / "way").is_symlink()


async def test_an_unconfined_worker_takes_every_mode(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path
) -> None:
    options = options._replace(highest=PermissionMode.UNCONFINED)
    free = str(tmp_path / "free")
    with anyio.fail_after(10):
        async with connect(options) as connection:
            await connection.initialize(binding)
            wide = asking("write_file", mode="unconfined", path=free, content="x")
            assert not (await call(connection, wide)).is_error
            echoed = asking("bash", mode="unconfined", command=f"cat {free}")
            assert (await call(connection, echoed)).text == "x"


async def test_a_worker_serves_no_workspace_that_its_own_code_lies_in(
    connect: Connect, options: WorkerOptions, binding: Binding, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.syspath_prepend(tmp_path / "work" / "src")
    with anyio.fail_after(5):
        async with connect(options) as connection:
            with pytest.raises(ConfigError, match="own code is loaded from"):
                await connection.initialize(binding)
