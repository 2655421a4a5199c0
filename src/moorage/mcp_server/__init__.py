"""Moorage as an MCP server: the workspace tools for any MCP client.

``run_stdio(options)`` and ``run_http(options)`` are coroutine functions that serve until the client
leaves or the process is told to stop; run them with ``anyio.run``. This is the only room that
imports the MCP SDK (extra ``mcp``); import it when an MCP server is asked for and not before.
"""

from __future__ import annotations

from moorage.mcp_server.http import run_http
from moorage.mcp_server.options import McpLimits, Options
from moorage.mcp_server.stdio import run_stdio

__all__ = ["McpLimits", "Options", "run_http", "run_stdio"]
