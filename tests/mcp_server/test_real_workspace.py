"""The whole way: an MCP client, the server as a program, a real worker, confined commands."""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import mcp_types
import psutil
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from moorage.app.home import find_home
from moorage.app.sessions import list_sessions
from moorage.mcp_server.options import Options
from moorage.mcp_server.stdio import run_stdio

pytestmark = pytest.mark.needs("landlock")

PROGRAM = (sys.executable, "-m", "moorage.cli", "mcp")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)


def text(result: mcp_types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


def content_of(link: mcp_types.ResourceLink) -> str:
    return Path(link.uri.removeprefix("file://")).read_text()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"MOORAGE_HOME": str(tmp_path / "home")}


Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect(workspace: Path, variables: dict[str, str], tmp_path: Path) -> Connect:
    """Return a client maker; its arguments are options of the command."""

    @asynccontextmanager
    async def over_stdio(*options: str, era: str = "legacy") -> AsyncIterator[Client]:
        program, *arguments = (*PROGRAM, "--workspace", str(workspace), *options)
        server = StdioServerParameters(command=program, args=arguments, env=variables)
        with (tmp_path / "server.log").open("a") as log:
            transport = stdio_client(server, errlog=log)
            async with Client(transport, mode=era, read_timeout_seconds=30) as client:
                yield client

    return over_stdio


async def hear(fifo: Path) -> str:
    """Return what is written to a FIFO, within a bound."""
    with anyio.fail_after(20):
        return await anyio.to_thread.run_sync(fifo.read_text, abandon_on_cancel=True)


async def until_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with anyio.fail_after(10):
            await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)


def workers() -> list[psutil.Process]:
    """Return the workers below this test process, without the helpers that they forked."""

    def is_worker(process: psutil.Process | None) -> bool:
        if process is None or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return any(
            "moorage.worker" in word or "moorage-worker" in word for word in process.cmdline()
        )

    below = psutil.Process().children(recursive=True)
    return [child for child in below if is_worker(child) and not is_worker(child.parent())]


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_every_tool_works_through_a_client(
    connect: Connect, workspace: Path, era: str
) -> None:
    (workspace / "pixel.png").write_bytes(PIXEL)
    async with connect(era=era) as client:
        written = await client.call_tool("write_file", {"path": "a.py", "content": "x = 1\n"})
        assert written.structured_content["action"] == "create"
        edited = await client.call_tool(
            "edit_file", {"path": "a.py", "old_text": "1", "new_text": "2"}
        )
        assert not edited.is_error
        read = await client.call_tool("read_file", {"path": "a.py"})
        assert "x = 2" in text(read)
        assert read.structured_content["text"] == "x = 2\n"
        ran = await client.call_tool("bash", {"command": "python3 -c 'print(6 * 7)'; exit 7"})
        assert text(ran).splitlines() == ["42", "Exit code 7"]
        assert not ran.is_error
        assert ran.structured_content["outcome"] == "exited"
        assert ran.structured_content["exit_code"] == 7
        assert "a.py" in text(await client.call_tool("grep", {"pattern": "x ="}))
        assert "a.py" in text(await client.call_tool("glob", {"pattern": "*.py"}))
        assert "a.py" in text(await client.call_tool("list_files", {}))
        image = await client.call_tool("read_file", {"path": "pixel.png"})
        assert any(part.type == "image" for part in image.content)
        published = await client.call_tool("present_artifact", {"path": "a.py"})
        link = next(part for part in published.content if part.type == "resource_link")
        assert content_of(link) == "x = 2\n"


async def test_a_wrong_type_is_a_tool_error_that_names_the_field(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("bash", {"command": "true", "timeout_seconds": "ten"})
    assert result.is_error
    assert "timeout_seconds" in text(result)
    assert result.structured_content["error"]["code"] == "invalid_arguments"


async def test_the_kernel_refuses_what_lies_outside_and_the_tools_say_so(
    connect: Connect, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.txt"
    async with connect() as client:
        ran = await client.call_tool("bash", {"command": f"echo no > {outside}"})
        wrote = await client.call_tool("write_file", {"path": str(outside), "content": "no"})
    assert ran.structured_content["exit_code"] != 0
    assert wrote.is_error
    assert wrote.structured_content["error"]["reason"] == "boundary_denied"
    assert not outside.exists()


async def test_the_mode_of_the_command_line_binds_every_call(
    connect: Connect, workspace: Path
) -> None:
    async with connect("--mode", "read_only") as client:
        wrote = await client.call_tool("write_file", {"path": "a", "content": "no"})
        ran = await client.call_tool("bash", {"command": "touch a"})
        asked = await client.call_tool("bash", {"command": "true", "mode": "unconfined"})
    assert wrote.structured_content["error"]["code"] == "refused"
    assert ran.is_error
    assert ran.structured_content["error"]["reason"] == "boundary_denied"
    assert asked.structured_content["error"]["code"] == "invalid_arguments"
    assert names_in(workspace) == []


async def test_cancelling_really_stops_the_command(connect: Connect, workspace: Path) -> None:
    os.mkfifo(workspace / "begun")
    async with connect() as client:
        async with anyio.create_task_group() as tasks:
            command = "echo $$ > begun; sleep 300 & exec sleep 300"
            tasks.start_soon(client.call_tool, "bash", {"command": command})
            shell = psutil.Process(int(await hear(workspace / "begun")))
            tree = [shell, *shell.children(recursive=True)]
            tasks.cancel_scope.cancel()
        for process in tree:
            await until_gone(process.pid)
        after = await client.call_tool("bash", {"command": "echo alive"})
        assert text(after) == "alive"


async def test_calls_of_one_session_run_at_the_same_time(connect: Connect, workspace: Path) -> None:
    os.mkfifo(workspace / "meeting")
    heard: list[str] = []

    async with connect() as client:

        async def listen() -> None:
            heard.append(text(await client.call_tool("bash", {"command": "cat meeting"})))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                await client.call_tool("bash", {"command": "echo hello > meeting"})
    assert heard == ["hello"]


async def test_a_lost_worker_costs_its_call_and_the_next_one_works(
    connect: Connect, workspace: Path
) -> None:
    os.mkfifo(workspace / "begun")
    results: list[mcp_types.CallToolResult] = []
    async with connect() as client:

        async def run() -> None:
            command = "echo $$ > begun; exec sleep 300"
            results.append(await client.call_tool("bash", {"command": command}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            command_pid = int(await hear(workspace / "begun"))
            (worker,) = workers()
            worker.send_signal(signal.SIGKILL)
        await until_gone(command_pid)
        after = await client.call_tool("bash", {"command": "echo alive"})
        assert text(after) == "alive"
    (lost,) = results
    assert lost.is_error
    assert lost.structured_content["outcome"] == "unknown"
    assert lost.structured_content["error"]["code"] == "outcome_unknown"
    assert "may or may not have taken effect" in text(lost)


async def test_nothing_is_left_when_the_client_leaves(connect: Connect, workspace: Path) -> None:
    os.mkfifo(workspace / "begun")
    async with connect() as client:
        await client.call_tool("bash", {"command": "(echo $BASHPID > begun; sleep 300) & true"})
        left_pid = int(await hear(workspace / "begun"))
    await until_gone(left_pid)
    assert workers() == []


async def test_a_named_session_goes_on_where_it_was(connect: Connect, tmp_path: Path) -> None:
    for expected in ("first", "first second"):
        async with connect("--name", "mine") as client:
            word = expected.split()[-1]
            ran = await client.call_tool("bash", {"command": f"echo {word} >> said; cat said"})
            assert not ran.is_error, text(ran)
            assert text(ran).split() == expected.split()
    (session,) = list_sessions(find_home(tmp_path / "home"))
    assert (session.name, session.calls) == ("mine", 2)


async def test_the_program_prints_nothing_but_the_protocol(
    workspace: Path, variables: dict[str, str]
) -> None:
    argv = [*PROGRAM, "--workspace", str(workspace)]
    ended = await anyio.run_process(argv, input=b"not a message\n", env=variables, check=False)
    assert ended.returncode == 0
    assert ended.stdout.count(b"\n") == 1
    assert mcp_types.JSONRPCError.model_validate_json(ended.stdout).error.code == -32700


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--env", "nothing"], "nothing"),
        (["--http", "0.0.0.0:0"], "--allow-remote"),
    ],
)
async def test_an_impossible_option_is_one_sentence_and_an_exit_code(
    variables: dict[str, str], workspace: Path, options: list[str], sentence: str
) -> None:
    ended = await anyio.run_process(
        [*PROGRAM, *options], stdin=None, env=variables, cwd=workspace, check=False
    )
    assert ended.returncode in {125, 127}
    assert ended.stdout == b""
    assert sentence in ended.stderr.decode()
    assert b"Traceback" not in ended.stderr


@asynccontextmanager
async def http_server(
    workspace: Path, variables: dict[str, str], home: Path
) -> AsyncIterator[tuple[Process, str, str]]:
    """Run the program over HTTP; give its process, address and token; make sure that it ends."""
    argv = [*PROGRAM, "--workspace", str(workspace), "--http", "127.0.0.1:0"]
    async with await anyio.open_process(argv, env=variables) as server:
        try:
            assert server.stderr is not None
            said = ""
            with anyio.fail_after(20):
                async for chunk in TextReceiveStream(server.stderr):
                    said += chunk
                    if said.endswith("/mcp\n"):
                        break
            token = await anyio.Path(home / "state" / "mcp" / "bearer-token").read_text()
            yield server, said.split()[-1], token.strip()
        finally:
            if server.returncode is None:
                server.terminate()


async def test_http_serves_several_clients_until_it_is_told_to_stop(
    workspace: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    async with http_server(workspace, variables, tmp_path / "home") as (server, url, token):
        headers = {"authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(trust_env=False, headers=headers, timeout=30) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as one,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as two,
        ):
            await one.call_tool("write_file", {"path": "shared.txt", "content": "from one"})
            assert "from one" in text(await two.call_tool("read_file", {"path": "shared.txt"}))
            assert len(workers()) == 2
        server.send_signal(signal.SIGTERM)
        with anyio.fail_after(20):
            assert await server.wait() == 0
    assert workers() == []


async def test_a_signal_ends_the_server_over_standard_streams(
    workspace: Path, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                options = Options(workspace=workspace, home=tmp_path / "home")
                tasks.start_soon(run_stdio, options)
                await anyio.wait_all_tasks_blocked()
                os.kill(os.getpid(), signal.SIGTERM)
    finally:
        os.dup2(kept, 0)
        for descriptor in (reading, writing, kept):
            os.close(descriptor)


async def test_a_background_process_is_a_resource_and_its_end_is_told_once(connect) -> None:
    async with connect(era="auto") as client:
        command = "until test -e go; do sleep 0.01; done; echo built; exit 3"
        started = await client.call_tool("bash", {"command": command, "run_in_background": True})
        process_id = started.structured_content["process_id"]
        (resource,) = (await client.list_resources()).resources
        assert (resource.name, resource.title) == (process_id, command)
        async with client.listen(resource_subscriptions=[resource.uri]) as news:
            await client.call_tool("bash", {"command": "touch go"})
            with anyio.fail_after(30):
                assert (await anext(news)).uri == resource.uri
        (contents,) = (await client.read_resource(resource.uri)).contents
        assert contents.text.startswith(f"{process_id} has ended with exit code 3:")
        told = await client.call_tool("bash", {"command": "true"})
        assert text(told).endswith("Output:\nbuilt")
        assert told.structured_content["exit_code"] == 0
        assert "built" not in text(await client.call_tool("bash", {"command": "true"}))


async def test_an_extension_offers_its_tools_and_says_its_news(connect: Connect) -> None:
    async with connect("--extension", "monitor") as client:
        assert "start a monitor" in client.instructions
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "monitor_start" in names
        command = "until test -e go; do sleep 0.01; done; echo seen; exec sleep 1000"
        started = await client.call_tool("monitor_start", {"command": command})
        monitor = started.structured_content["monitor_id"]
        told = await client.call_tool("bash", {"command": "touch go"})
        with anyio.fail_after(30):
            while len(told.content) < 2:
                told = await client.call_tool("monitor_list", {})
        assert told.content[1].text == f"[Monitor {monitor}] event 1: seen"
        assert told.structured_content["notices"] == [told.content[1].text]


async def test_hand_over_can_be_switched_off(connect: Connect) -> None:
    async with connect("--no-hand-over") as client:
        arguments = {"command": "sleep 1000", "timeout_seconds": 1, "hand_over": True}
        result = await client.call_tool("bash", arguments)
        assert result.structured_content["outcome"] == "timed_out"
