"""The MCP server itself: lists the tools, runs calls in the right session, reports progress.

Cancelling needs no code of its own: the SDK cancels the task that handles a call when the client
says so, and a cancelled ``Session.call`` stops the command in the environment.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any, NamedTuple

import anyio
import mcp_types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError

from moorage.errors import ExecutionError, InvalidArguments, UnknownTool
from moorage.mcp_server import process_resources
from moorage.mcp_server.options import McpLimits, Options
from moorage.mcp_server.sessions import Opener, SessionBinding, Sessions, open_sessions
from moorage.mcp_server.tools import call_result, error_result, mcp_tools, without_structured
from moorage.policy.permission import PermissionMode
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ToolSpec

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Sessions, Any]


class Place(NamedTuple):
    """Where the tools act and how far they may reach, and what extensions add to them."""

    environment: str
    workspace: str
    mode: PermissionMode
    specs: tuple[ToolSpec, ...] = ()
    guidance: str = ""


MODE_SENTENCES = {
    PermissionMode.READ_ONLY: "Nothing can be changed: commands run, but the kernel lets them "
    "write only to a private temporary folder ($TMPDIR).",
    PermissionMode.STANDARD: "Only the workspace and a private temporary folder ($TMPDIR) can be "
    "written; the kernel refuses everything else, whatever program tries it.",
    PermissionMode.UNCONFINED: "Commands run with all rights of the user.",
}


def build_server(
    options: Options,
    opener: Opener,
    *,
    place: Place,
    shared_idle_seconds: float | None = None,
) -> Server[Sessions]:
    """Return a server whose calls run in sessions that ``opener`` opens."""

    @asynccontextmanager
    async def lifespan(_: Server[Sessions]) -> AsyncIterator[Sessions]:
        async with open_sessions(
            opener, limits=options.limits, idle_seconds=shared_idle_seconds
        ) as sessions:
            yield sessions

    tools = mcp_tools((*WORKSPACE_TOOLS.values(), *place.specs))
    schemas = {tool.name: tool.input_schema for tool in tools}

    async def list_tools(
        _: Context, __: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=tools)

    async def call_tool(
        context: Context, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        if params.name in schemas:
            result = await run_call(context, params.name, params.arguments or {}, options.limits)
        else:
            result = error_result(_unknown(params.name, schemas))
        return result if options.structured_content else without_structured(result)

    server = _Server(
        "moorage",
        title="Moorage workspace",
        version=metadata.version("moorage"),
        instructions=instructions(place),
        lifespan=lifespan,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=listen,
    )
    # In place of the SDK's tracing, which asks OpenTelemetry about every message.
    server.middleware[:] = [explain_malformed_call]
    return server


def _unknown(tool_name: str, known: Iterable[str]) -> UnknownTool:
    return UnknownTool(
        f"no workspace tool is named {tool_name!r}.", hint=f"The tools are {', '.join(known)}."
    )


class _Server(Server[Sessions]):
    """Says at the handshake that resources come and go."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **options: Any
    ) -> InitializationOptions:
        told = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(told, *args, **options)


async def list_resources(
    context: Context, _: mcp_types.PaginatedRequestParams | None
) -> mcp_types.ListResourcesResult:
    """Return the background processes of the session; opens none for it."""
    processes = binding_of(context).processes
    resources = [] if processes is None else await process_resources.listed(processes)
    return mcp_types.ListResourcesResult(resources=resources)


async def read_resource(
    context: Context, params: mcp_types.ReadResourceRequestParams
) -> mcp_types.ReadResourceResult:
    """Return how a background process goes, and its newest output."""
    processes = binding_of(context).processes
    try:
        if processes is None:
            raise InvalidArguments(f"{params.uri} is not there: this session runs nothing yet.")
        found = await process_resources.contents(processes, params.uri)
    except ExecutionError as error:
        raise MCPError(mcp_types.INVALID_PARAMS, str(error)) from error
    return mcp_types.ReadResourceResult(contents=[found])


async def subscribe(
    context: Context, params: mcp_types.SubscribeRequestParams
) -> mcp_types.EmptyResult:
    """Have a client be told when a resource changes."""
    _addresses_of(context).add(params.uri)
    return mcp_types.EmptyResult()


async def unsubscribe(
    context: Context, params: mcp_types.UnsubscribeRequestParams
) -> mcp_types.EmptyResult:
    """Have a client be told no more."""
    _addresses_of(context).discard(params.uri)
    return mcp_types.EmptyResult()


async def listen(
    context: Context, params: mcp_types.SubscriptionsListenRequestParams
) -> mcp_types.SubscriptionsListenResult:
    """Tell a client of changes for as long as it listens."""
    return await binding_of(context).news.listen(context, params)


def _addresses_of(context: Context) -> set[str]:
    news = binding_of(context).news
    return news.introduce(connection_of(context), context.session)


def instructions(place: Place) -> str:
    """Return what a model should know of the workspace before its first call."""
    return (
        "These tools act in a workspace of their own, in an environment that the user chose: "
        f"{place.workspace} in {place.environment!r}. Paths are relative to it, and bash starts "
        f"there. {MODE_SENTENCES[place.mode]} "
        "Each bash call is a fresh, non-interactive shell: put `cd` and variables into the command "
        "that needs them. A result states how the command ended; when output was cut, it names the "
        "file that holds all of it. Only the user can change the mode or the writable folders, so "
        "do not look for a way around a refusal. "
        f"{place.guidance}"
    ).rstrip()


async def run_call(
    context: Context, tool_name: str, arguments: Mapping[str, Any], limits: McpLimits
) -> mcp_types.CallToolResult:
    """Run one tool call, reporting progress to a client that asked for it."""
    async with progress_of(context, limits.progress_interval_seconds):
        return await _answer(context, tool_name, arguments)


async def _answer(
    context: Context, tool_name: str, arguments: Mapping[str, Any]
) -> mcp_types.CallToolResult:
    """Return the tool's result; whatever Moorage refuses or loses is a result that says so."""
    try:
        return call_result(await binding_of(context).call(tool_name, arguments))
    except ExecutionError as error:
        logger.info("%s: %s", tool_name, error)
        return error_result(error)


def binding_of(context: Context) -> SessionBinding:
    """Return the binding of the MCP session that a call came in, making it at the first call."""
    sessions, connection = context.lifespan_context, connection_of(context)
    mcp_session_id = connection.session_id
    if mcp_session_id is None:
        binding = sessions.shared()
    elif (known := sessions.of(mcp_session_id)) is not None:
        binding = known
    else:
        binding = sessions.bind(mcp_session_id)
        connection.exit_stack.push_async_callback(sessions.end, mcp_session_id)
    binding.news.introduce(connection, context.session)
    return binding


def connection_of(context: Context) -> Connection:
    """Return the connection that a request came by."""
    # The SDK keeps teardown callbacks on it, and gives handlers no other way to it.
    connection: Connection = context.session._connection  # noqa: SLF001
    return connection


@asynccontextmanager
async def progress_of(context: Context, interval_seconds: float) -> AsyncIterator[None]:
    """Tell a client that asked for progress how long the call inside has been running.

    The SDK drops the report when the client did not ask. Nothing is sent after the block, so no
    notification can follow the call's result.
    """
    async with anyio.create_task_group() as reporting:
        reporting.start_soon(_report_progress, context, interval_seconds)
        try:
            yield
        finally:
            reporting.cancel_scope.cancel()


async def _report_progress(context: Context, interval_seconds: float) -> None:
    begun = anyio.current_time()
    while True:
        await anyio.sleep(interval_seconds)
        elapsed = anyio.current_time() - begun
        await context.session.report_progress(elapsed, message=f"running for {elapsed:.0f} s")


async def explain_malformed_call(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Answer a call whose arguments are no object with a tool error that a model can read."""
    arguments = (ctx.params or {}).get("arguments")
    if ctx.method == "tools/call" and not isinstance(arguments, Mapping | None):
        kind = type(arguments).__name__
        return error_result(
            InvalidArguments(
                f"arguments: expected an object, got {kind}.",
                hint="Pass the tool's arguments as one JSON object.",
            )
        )
    return await call_next(ctx)
