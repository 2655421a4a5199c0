"""The file tools with types: each makes one call as a model would, and returns what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.errors import RemoteProtocolViolation, ToolFailed
from moorage.host.results import FileChange, FileText, file_change, file_text
from moorage.protocol.tool_calls import ToolResult
from moorage.protocol.workspace_tools import OverwritePolicy


class TypedCalls:
    """What a session offers beside ``call`` itself."""

    async def call(self, tool_name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call a tool."""
        raise NotImplementedError

    async def read_file(
        self, path: str, *, offset: int | None = None, limit: int | None = None
    ) -> FileText:
        """Return the text of a file, or of ``limit`` lines from line ``offset`` (from 1)."""
        arguments = {"path": path, "offset": offset, "limit": limit}
        return file_text(await self._typed("read_file", arguments))

    async def write_file(
        self,
        path: str,
        content: str,
        *,
        create_only: bool = False,
        overwrite_policy: OverwritePolicy | None = None,
    ) -> FileChange:
        """Create or replace a whole file.

        Raises:
            ToolFailed: the file exists with ``create_only``, is large and no policy was given, or
                could not be written; it is unchanged.
        """
        arguments = {"path": path, "content": content, "create_only": create_only}
        arguments |= {"overwrite_policy": overwrite_policy}
        return await self._change("write_file", arguments)

    async def edit_file(
        self, path: str, old_text: str, new_text: str, *, replace_all: bool = False
    ) -> FileChange:
        """Replace exact text in a file.

        Raises:
            ToolFailed: no match, or several without ``replace_all``; the file is unchanged and
                ``result`` names the candidate places.
        """
        arguments = {"path": path, "old_text": old_text, "new_text": new_text}
        return await self._change("edit_file", arguments | {"replace_all": replace_all})

    async def list_files(self, path: str = ".", **options: Any) -> ToolResult:
        """List a folder; options are those of the tool ``list_files``."""
        return await self._typed("list_files", {"path": path, **options})

    async def grep(self, pattern: str, path: str = ".", **options: Any) -> ToolResult:
        """Search file contents; options are those of the tool ``grep``."""
        return await self._typed("grep", {"pattern": pattern, "path": path, **options})

    async def glob(self, pattern: str, path: str = ".", **options: Any) -> ToolResult:
        """Find files by name; options are those of the tool ``glob``."""
        return await self._typed("glob", {"pattern": pattern, "path": path, **options})

    async def git(self, subcommand: str, *args: str) -> ToolResult:
        """Read the repository, or add and commit explicitly named paths."""
        return await self._typed("git", {"subcommand": subcommand, "args": args})

    async def _typed(self, tool_name: str, arguments: Mapping[str, Any]) -> ToolResult:
        result = await self.call(tool_name, arguments)
        structured_of(tool_name, result)
        return result

    async def _change(self, tool_name: str, arguments: Mapping[str, Any]) -> FileChange:
        structured = structured_of(tool_name, await self.call(tool_name, arguments))
        change = file_change(structured)
        if change is None:
            raise RemoteProtocolViolation(
                f"the worker's result of {tool_name} does not say what changed.",
                hint="Look at the file before you repeat it.",
            )
        return change


def structured_of(tool_name: str, result: ToolResult) -> dict[str, Any]:
    """Return the data of a result that is none of an error.

    Raises:
        ToolFailed: it is one.
    """
    if result.is_error:
        raise ToolFailed(f"{tool_name}: {result.text}", result=result)
    return result.structured_content or {}
