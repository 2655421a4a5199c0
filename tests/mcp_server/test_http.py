from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from moorage.errors import ConfigError
from moorage.mcp_server.http import listening, run_http, serve_http
from moorage.mcp_server.opening import plan_of
from moorage.mcp_server.options import McpLimits, Options

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - what the option --allow-remote is about


class Site:
    """A server that runs, as a client's configuration knows it."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def http(self, **headers: str) -> httpx2.AsyncClient:
        credentials = {"authorization": f"Bearer {self.token}"} | headers
        return httpx2.AsyncClient(trust_env=False, headers=credentials, timeout=5)

    @asynccontextmanager
    async def client(self, era: str = "legacy") -> AsyncIterator[Client]:
        async with self.http() as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=era, read_timeout_seconds=5) as client:
                yield client

    async def post(self, message: dict[str, Any], **headers: str) -> httpx2.Response:
        async with self.http(**headers) as http:
            return await http.post(self.url, json=message, headers=ACCEPT)


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., Options]:
    (tmp_path / "workspace").mkdir()

    def make(**changes: Any) -> Options:
        limits = {"progress_interval_seconds": 0.005, "http_close_grace_seconds": 1}
        chosen: dict[str, Any] = {
            "workspace": tmp_path / "workspace",
            "home": tmp_path / "home",
            "limits": McpLimits(**limits | changes.pop("limits", {})),
        }
        return Options(**chosen | changes)

    return make


def token_in(options: Options) -> str:
    home = Path(options.home or "")
    file = Path(options.token_file or home / "state" / "mcp" / "bearer-token")
    return file.read_text().strip()


@pytest.fixture
def site(house, options, capsys) -> Callable[..., AbstractAsyncContextManager[Site]]:
    @asynccontextmanager
    async def serve(**changes: Any) -> AsyncIterator[Site]:
        chosen = options(**changes)
        async with serve_http(chosen, house.opener, plan_of(chosen)) as url:
            yield Site(url, token_in(chosen))

    return serve


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_client_works_over_http_in_either_era(site, house, era: str) -> None:
    async with site() as served, served.client(era) as client:
        assert len((await client.list_tools()).tools) == 9
        result = await client.call_tool("bash", {"command": "make"})
        assert result.structured_content == {"outcome": "exited", "exit_code": 0}
    assert house.closed == ["session-0"]


async def test_each_client_has_a_session_that_ends_when_it_leaves(site, house) -> None:
    async with site() as served:
        async with served.client() as one, served.client() as two:
            await one.call_tool("bash", {})
            await two.call_tool("bash", {})
            assert len(house.sessions) == 2
            assert house.closed == []
        with anyio.fail_after(5):
            await house.until_closed(2)


async def test_clients_without_mcp_sessions_share_one(site, house) -> None:
    async with site() as served:
        for _ in range(2):
            async with served.client("auto") as client:
                await client.call_tool("bash", {})
        assert len(house.sessions) == 1
        assert house.closed == []


async def test_an_idle_session_is_closed_and_its_id_forgotten(site, house) -> None:
    async with site(limits={"session_idle_seconds": 0.05}) as served, served.http() as http:
        opened = await http.post(served.url, json=INITIALIZE, headers=ACCEPT)
        named = ACCEPT | {"mcp-session-id": opened.headers["mcp-session-id"]}
        call = {"name": "bash", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        assert "ran" in (await http.post(served.url, json=message, headers=named)).text
        with anyio.fail_after(5):
            await house.until_closed(1)
        assert (await http.post(served.url, json=message, headers=named)).status_code == 404


async def test_one_session_more_than_the_bound_is_refused(site) -> None:
    async with site(limits={"max_sessions": 1}) as served, served.client() as client:
        assert (await served.post(INITIALIZE)).status_code == 503
        assert len((await client.list_tools()).tools) == 9


async def test_cancelling_over_http_cancels_the_tool(site, house) -> None:
    hanging = house.hang("bash")
    async with site() as served, served.client() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "bash", {"command": "sleep 300"})
            with anyio.fail_after(5):
                await hanging.begun.wait()
                tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await hanging.cancelled.wait()


async def test_a_stateless_client_cancels_by_hanging_up(site, house) -> None:
    hanging = house.hang("bash")
    async with site() as served, served.client("auto") as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "bash", {"command": "sleep 300"})
            with anyio.fail_after(5):
                await hanging.begun.wait()
                tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await hanging.cancelled.wait()


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_progress_arrives_over_http(site, house, era: str) -> None:
    hanging = house.hang("bash")
    heard: list[float] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)
        if len(heard) == 2:
            hanging.released.set()

    async with site() as served, served.client(era) as client:
        with anyio.fail_after(5):
            await client.call_tool("bash", {"command": "x"}, progress_callback=listen)
    assert heard == sorted(set(heard))


async def test_stopping_the_server_ends_running_calls_and_sessions(site, house) -> None:
    hanging = house.hang("bash")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            async with site() as served:

                async def run() -> None:
                    with pytest.raises((MCPError, ExceptionGroup)):
                        async with served.client() as client:
                            await client.call_tool("bash", {"command": "x"})

                tasks.start_soon(run)
                await hanging.begun.wait()
            assert hanging.cancelled.is_set()
            assert house.closed == ["session-0"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
    ],
)
async def test_who_may_not_come_in_is_told_why_and_reaches_nothing(
    site, house, headers: dict[str, str], status: int
) -> None:
    async with site() as served:
        refused = await served.post(INITIALIZE, **headers)
    assert refused.status_code == status
    assert refused.json()["error"]
    assert ("www-authenticate" in refused.headers) == (status == 401)
    assert "mcp-session-id" not in refused.headers


async def test_another_path_is_not_found(site) -> None:
    async with site() as served, served.http() as http:
        elsewhere = served.url.replace("/mcp", "/.well-known/oauth-authorization-server")
        assert (await http.get(elsewhere)).status_code == 404


async def test_a_body_above_the_bound_is_refused(site) -> None:
    async with site(limits={"max_request_bytes": 1000}) as served:
        large = INITIALIZE | {"padding": "x" * 2000}
        assert (await served.post(large)).status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"jsonrpc":"2.0"}'])
async def test_a_body_that_is_no_message_is_a_bad_request(site, body: bytes) -> None:
    async with site() as served, served.http() as http:
        headers = ACCEPT | {"content-type": "application/json"}
        answer = await http.post(served.url, content=body, headers=headers)
        assert answer.status_code == 400
        assert json.loads(answer.content)["error"]["code"] < 0


async def test_the_token_is_made_once_private_and_never_printed(
    site, options, tmp_path: Path, capsys
) -> None:
    async with site() as first:
        token = first.token
    async with site() as second:
        assert second.token == token
    file = tmp_path / "home" / "state" / "mcp" / "bearer-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = capsys.readouterr()
    assert said.out == ""
    assert str(file) in said.err
    assert token not in said.err


async def test_a_token_file_of_the_users_own_is_used(site, tmp_path: Path) -> None:
    file = tmp_path / "own-token"
    file.write_text("k" * 40)
    file.chmod(0o600)
    async with site(token_file=file) as served:
        assert served.token == "k" * 40
        assert (await served.post(INITIALIZE)).status_code == 200


async def test_a_token_that_tools_could_read_is_refused(options, house, tmp_path: Path) -> None:
    chosen = options(token_file=tmp_path / "workspace" / "token")
    with pytest.raises(ConfigError, match="every tool can read it"):
        async with serve_http(chosen, house.opener, plan_of(chosen)):
            pass
    assert not (tmp_path / "workspace" / "token").exists()


async def test_an_address_that_others_can_reach_needs_leave(options, house) -> None:
    chosen = options(host=ALL_ADDRESSES)
    with pytest.raises(ConfigError, match="--allow-remote"):
        async with serve_http(chosen, house.opener, plan_of(chosen)):
            pass


async def test_with_leave_it_is_served_there_and_named_hosts_come_in(site) -> None:
    async with site(
        host=ALL_ADDRESSES, allow_remote=True, allowed_hosts=("box.example",)
    ) as served:
        local = Site(served.url.replace(ALL_ADDRESSES, "127.0.0.1"), served.token)
        assert (await local.post(INITIALIZE, host="box.example")).status_code == 200
        assert (await local.post(INITIALIZE, host="other.example")).status_code == 421


def test_a_taken_port_is_one_clear_sentence() -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        sentence = rf"cannot listen on 127\.0\.0\.1:{port}"
        with pytest.raises(ConfigError, match=sentence), listening("127.0.0.1", port):
            pass


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70000), ("192.0.2.1", 0)])
def test_an_address_that_is_not_here_is_one_clear_sentence(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match="cannot listen on"), listening(host, port):
        pass


@pytest.mark.parametrize(
    ("number", "telling"),
    [
        (errno.EADDRNOTAVAIL, "That is no address of this machine"),
        (errno.EACCES, "Ports below 1024 need a right"),
        (errno.EADDRINUSE, "Choose another port"),
    ],
)
def test_the_remedy_fits_what_keeps_from_listening(
    monkeypatch: pytest.MonkeyPatch, number: int, telling: str
) -> None:
    def fail(listener: socket.socket, address: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", fail)
    with pytest.raises(ConfigError, match=telling), listening("127.0.0.1", 80):
        pass


@pytest.mark.needs("ipv6")
def test_ipv6_loopback_works_where_the_machine_has_it() -> None:
    with listening("::1", 0) as listener:
        assert listener.family == socket.AF_INET6


@pytest.mark.parametrize("chosen", [{"session_name": "mine"}, {"session_id": "abc"}])
async def test_a_named_session_over_http_is_refused(options, chosen: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="a session of its own"):
        await run_http(options(**chosen))
