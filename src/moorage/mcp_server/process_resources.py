"""A resource per background process: what a client lists, reads and is told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mcp_types
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from moorage.errors import InvalidArguments
from moorage.host.completions import how_it_goes, short_command
from moorage.host.results import ProcessChanged

if TYPE_CHECKING:
    from moorage.host.processes import Processes
    from moorage.protocol.processes import ProcessRecord

PREFIX = "moorage://processes/"
MIME_TYPE = "text/plain"


def uri_of(process_id: str) -> str:
    """Return the address of a process."""
    return PREFIX + process_id


async def listed(processes: Processes) -> list[mcp_types.Resource]:
    """Return the resources of a session, the oldest process first."""
    return [_resource(record) for record in await processes.list()]


async def contents(processes: Processes, uri: str) -> mcp_types.TextResourceContents:
    """Return how a process goes and its newest output.

    Raises:
        InvalidArguments: the address is none of a process of this session.
    """
    if not uri.startswith(PREFIX):
        raise InvalidArguments(
            f"{uri} is no resource of this server.", hint=f"They begin with {PREFIX}."
        )
    window = await processes.read(uri.removeprefix(PREFIX))
    record = window.process
    where = f"bytes {window.start_offset} to {window.end_offset} of {window.total_bytes}"
    lines = [f"{record.id} {how_it_goes(record)}: {short_command(record)}", f"Output, {where}:"]
    return mcp_types.TextResourceContents(
        uri=uri, mime_type=MIME_TYPE, text="\n".join([*lines, window.output])
    )


def news_of(event: ProcessChanged) -> ServerEvent:
    """Return what a client is told when something happened to a process."""
    if event.type in {"started", "cleaned_up"}:
        return ResourcesListChanged()
    return ResourceUpdated(uri_of(event.process.id))


def _resource(record: ProcessRecord) -> mcp_types.Resource:
    return mcp_types.Resource(
        uri=uri_of(record.id),
        name=record.id,
        title=short_command(record),
        description=f"Background process, {how_it_goes(record)}.",
        mime_type=MIME_TYPE,
    )
