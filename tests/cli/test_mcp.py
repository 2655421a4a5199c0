from __future__ import annotations

from typing import Any

import pytest

import moorage.mcp_server
from moorage.cli import mcp
from moorage.mcp_server import Options


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Options]]:
    """Remember how a server was started, in place of serving."""
    started: list[tuple[str, Options]] = []

    def starts(way: str) -> Any:
        async def serve(options: Options) -> None:
            started.append((way, options))

        return serve

    monkeypatch.setattr(moorage.mcp_server, "run_stdio", starts("stdio"))
    monkeypatch.setattr(moorage.mcp_server, "run_http", starts("http"))
    return started


def test_standard_streams_are_served_by_default(command_line: Any, served: Any) -> None:
    ended = command_line("mcp", "-e", "lab", "-w", "/w", "-m", "read_only", "--writable", "/x")
    assert ended.code == 0
    [(way, options)] = served
    assert way == "stdio"
    assert (options.environment, options.workspace, options.mode) == ("lab", "/w", "read_only")
    assert options.writable_roots == ("/x",)
    assert options.structured_content


def test_the_mode_is_left_to_the_session_when_none_is_named(command_line: Any, served: Any) -> None:
    command_line("mcp", "--name", "agent", "--text-only")
    [(_, options)] = served
    assert options.mode is None
    assert options.session_name == "agent"
    assert not options.structured_content


def test_http_is_served_where_it_is_asked_for(command_line: Any, served: Any) -> None:
    arguments = ("--token-file", "/t", "--allowed-host", "a", "--allowed-origin", "https://b")
    ended = command_line("mcp", "--http", "192.0.2.1:8765", "--allow-remote", *arguments)
    assert ended.code == 0
    [(way, options)] = served
    assert way == "http"
    assert (options.host, options.port, options.allow_remote) == ("192.0.2.1", 8765, True)
    assert str(options.token_file).endswith("/t")
    assert options.allowed_hosts == ("a",)
    assert options.allowed_origins == ("https://b",)


def test_without_the_extra_one_sentence_says_what_to_install(
    command_line: Any, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "find_spec", lambda name: None)
    ended = command_line("mcp")
    assert ended.code == 125
    assert ended.err == (
        b"moorage: the MCP server's libraries are not installed. "
        b"Install them with: pip install 'moorage[mcp]'\n"
    )
    assert served == []
