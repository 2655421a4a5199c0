"""``write_file``: create a file, or replace one as a whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, WriteFileArguments
from moorage.tools.declared_tests import lost_tests
from moorage.tools.file_limits import FileLimits
from moorage.tools.misfortunes import MISFORTUNES, told
from moorage.tools.overwrite_rules import brings_back_mask, may_replace_long_file
from moorage.tools.results import failure, success
from moorage.workspace.edit import PLACEHOLDER
from moorage.workspace.files import (
    ChangedMeanwhile,
    content_hash,
    open_existing,
    prefixed,
    read_whole,
    steps,
)
from moorage.workspace.staged import AlreadyThere, StagedFile
from moorage.workspace.text.diff import describe_rewrite, describe_unseen
from moorage.workspace.text.line_range import select_lines

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext
    from moorage.workspace.opening.location import Target
    from moorage.workspace.redact import Redactor

_LISTED_TESTS = 5


class _Old(msgspec.Struct, frozen=True):
    """What is known of the content that goes; ``data`` is None when it was too long to keep."""

    digest: str
    data: bytes | None
    lines: int


class WriteFile:
    """Writes one file as a whole."""

    spec = WORKSPACE_TOOLS["write_file"]

    def __init__(self, limits: FileLimits | None = None) -> None:
        """Keep the bounds."""
        self._limits = limits or FileLimits()

    async def run(self, arguments: WriteFileArguments, context: ToolContext) -> ToolResult:
        """Write the file and return what changed, or why nothing did.

        Raises:
            Refused: the mode is ``read_only``, the path leads outside, or the file is protected.
            InvalidArguments: the path can be no path.
        """
        path, turns = arguments.path, context.root.turns
        if len(arguments.content) > self._limits.text_bytes:
            return self._too_long(path, len(arguments.content))
        try:
            location = context.root.resolve(path, context.mode, to_write=True)
            await turns.wait(location.absolute)
            with context.root.open_target(path, context.mode) as target:
                if self._is_quick(arguments, target):
                    return self._write(arguments, target, context.redactor)
                with turns.hold(location.absolute):
                    return await anyio.to_thread.run_sync(
                        self._write, arguments, target, context.redactor
                    )
        except MISFORTUNES as error:
            return told(error, path)

    def _is_quick(self, arguments: WriteFileArguments, target: Target) -> bool:
        old_size = target.status.st_size if target.status is not None else 0
        return max(old_size, len(arguments.content)) <= self._limits.inline_bytes

    def _write(
        self, arguments: WriteFileArguments, target: Target, redactor: Redactor
    ) -> ToolResult:
        data = arguments.content.encode()
        if target.status is None:
            return _create(target, data, create_only=arguments.create_only)
        if arguments.create_only:
            raise AlreadyThere(target.location.display)
        return self._overwrite(arguments, target, data, redactor)

    def _overwrite(
        self, arguments: WriteFileArguments, target: Target, data: bytes, redactor: Redactor
    ) -> ToolResult:
        path = target.location.display
        old_size = target.status.st_size if target.status is not None else 0
        is_allowed = old_size <= self._limits.small_file_bytes or may_replace_long_file(
            arguments.overwrite_policy, path
        )
        # Only equal content passes without leave, and content of another size is not equal.
        if not is_allowed and old_size != len(data):
            return self._too_broad(path, old_size)
        old = self._read_old(target)
        digest = content_hash(data)
        if old.digest == digest:
            return _result(path, data, old, digest)
        if not is_allowed:
            return self._too_broad(path, old_size)
        if old.data is not None and brings_back_mask(old.data, data, redactor):
            return failure(
                "redaction_placeholder",
                f"The new content of {path} holds {PLACEHOLDER} where the file has a secret that "
                "output does not show; nothing was written. Change the other parts with edit_file.",
                path=path,
            )
        with StagedFile(target) as staged:
            staged.write(data)
            staged.commit()
        return _result(path, data, old, digest)

    def _read_old(self, target: Target) -> _Old:
        display, most = target.location.display, self._limits.inline_bytes
        fd = open_existing(target)
        try:
            if os.fstat(fd).st_size <= most:
                data = read_whole(fd, most, display)
                return _Old(content_hash(data), data, 0)
            parts = steps(fd, display, on_step=anyio.from_thread.check_cancelled)
            seen = select_lines(parts, 1, 0, 0)
            return _Old(seen.digest, None, seen.total_lines)
        finally:
            os.close(fd)

    def _too_long(self, path: str, size: int) -> ToolResult:
        return failure(
            "too_large",
            f"The content for {path} has {size} characters; at most {self._limits.text_bytes} are "
            "written at once. Let a command make the file; a program has write_bytes.",
            path=path,
        )

    def _too_broad(self, path: str, size: int) -> ToolResult:
        most = self._limits.small_file_bytes
        return failure(
            "broad_overwrite",
            f"{path} has {size} bytes; a file above {most} is not replaced as a whole without a "
            "reason. Use edit_file, or set overwrite_policy to explicit_user_requested when the "
            "user asked for it (generated fits only paths that a program writes).",
            path=path,
            size_bytes=size,
        )


def _create(target: Target, data: bytes, *, create_only: bool) -> ToolResult:
    path = target.location.display
    try:
        with StagedFile(target) as staged:
            staged.write(data)
            staged.commit(create_only=True)
    except AlreadyThere as error:
        if create_only:
            raise
        # It was not there a moment ago, so nobody has looked at what it holds.
        raise ChangedMeanwhile(path) from error
    structured = _structured("create", path, data, content_hash(data))
    structured["diff"] = describe_rewrite(b"", data, is_new_file=True)
    return success(f"Created {path} ({len(data)} bytes).", structured)


def _result(path: str, data: bytes, old: _Old, digest: str) -> ToolResult:
    structured = _structured("overwrite", path, data, digest)
    structured["old_file_sha"] = prefixed(old.digest)
    if old.digest == digest:
        structured["diff"] = describe_rewrite(b"", b"")
        return success(f"{path} already has exactly this content; nothing changed.", structured)
    if old.data is None:
        structured["diff"] = describe_unseen(old.lines, data)
        return success(f"Overwrote {path} ({len(data)} bytes).", structured)
    structured["diff"] = describe_rewrite(old.data, data)
    lost = lost_tests(old.data, data)
    text = f"Overwrote {path} ({len(data)} bytes, {structured['diff']['summary']})."
    if lost:
        names = ", ".join(lost[:_LISTED_TESTS]) + (", ..." if len(lost) > _LISTED_TESTS else "")
        warning = f"{len(lost)} test declarations are gone: {names}."
        structured["warnings"] = [warning]
        text += f"\nWarning: {warning}"
    return success(text, structured)


def _structured(action: str, path: str, data: bytes, digest: str) -> dict[str, Any]:
    return {
        "action": action,
        "path": path,
        "written_bytes": len(data),
        "old_file_sha": "",
        "new_file_sha": prefixed(digest),
        "workspace_revision": "",
    }


TOOL = WriteFile()
