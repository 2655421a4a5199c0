"""What the person who starts the MCP server decides; no tool argument can change any of it."""

from __future__ import annotations

import os

import msgspec


class McpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one MCP server."""

    progress_interval_seconds: float = 5.0
    """How often a client that asked for progress hears of a running call."""

    concurrent_calls: int = 64
    """Calls of one session that run at a time; more wait their turn."""

    close_grace_seconds: float = 10.0
    """How long a session may take to end, before the server goes on without it."""

    max_sessions: int = 16
    """MCP sessions served at a time over HTTP; each may hold a worker."""

    session_idle_seconds: float = 1800.0
    """How long an HTTP session may be without any request before it is closed."""

    max_request_bytes: int = 8 * 1024 * 1024
    """Largest body of one HTTP request; a file's whole content is at most 1 MiB of text."""

    http_connections: int = 256
    """HTTP connections and requests in progress at a time; more are answered 503."""

    request_head_seconds: float = 10.0
    """How long an HTTP connection may take until the whole head of a request is there; without it
    the connection is closed, so that idle ones cannot keep others out."""

    http_close_grace_seconds: int = 2
    """How long open HTTP responses may take to end when the server stops."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How ``moorage mcp`` was started.

    ``environment``, ``workspace``, ``mode``, ``writable_roots`` and ``home`` are those of
    ``moorage.open_session``. The fields after ``structured_content`` concern HTTP alone.
    """

    environment: str | None = None
    workspace: str | os.PathLike[str] | None = None
    mode: str | None = None
    writable_roots: tuple[str | os.PathLike[str], ...] = ()
    home: str | os.PathLike[str] | None = None
    session_id: str | None = None
    """Go on in a saved session; over standard streams only."""
    session_name: str | None = None
    """Go on in the session of this name, or begin one; over standard streams only."""
    extensions: tuple[str, ...] | None = None
    """Names of the extensions; those of the configuration by default."""
    hands_over: bool | None = None
    """Whether slow commands go on in the background; the configuration's choice by default."""
    structured_content: bool = True
    """Send each result's structured data beside its text. Some clients show the model nothing but
    the structured data when both are there; for those it can be left out."""

    host: str = "127.0.0.1"
    port: int = 0
    allow_remote: bool = False
    """Listen on an address that other machines can reach."""
    allowed_hosts: tuple[str, ...] = ()
    """Further values of the ``Host`` header, as ``name`` or ``name:port``."""
    allowed_origins: tuple[str, ...] = ()
    """Values of the ``Origin`` header, for clients that run in a browser."""
    token_file: str | os.PathLike[str] | None = None
    """File that holds the bearer token; by default one in Moorage's home, made at the first use."""

    limits: McpLimits = McpLimits()
