"""``git``: read the repository, or stage and commit files named one by one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from moorage.errors import Refused
from moorage.policy.permission import PermissionMode
from moorage.process.reading import ProgramEnd, read_program
from moorage.process.spec import ProgramSpec
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, GitArguments
from moorage.tools.denials import guidance
from moorage.tools.file_names import readable
from moorage.tools.git_view import GitLimits, shown_text, status_text
from moorage.tools.misfortunes import MISFORTUNES, told
from moorage.tools.results import failure, success
from moorage.workspace.git.call import TRAILER, VARIABLES, GitCall, candidates_argv
from moorage.workspace.git.reading import outside_paths
from moorage.workspace.git.rules import plan_call
from moorage.workspace.git.status import parse_status
from moorage.workspace.opening.location import outside, protected
from moorage.workspace.search.engine import find_program

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext

_DENIAL_SIGNATURES = ("permission denied", "operation not permitted", "read-only file system")


class _Output(msgspec.Struct):
    """What git printed: the beginning, and how much there was of it."""

    max_bytes: int
    is_whole_wanted: bool
    data: bytearray = msgspec.field(default_factory=bytearray)
    total_bytes: int = 0
    is_cut: bool = False

    async def take(self, chunk: bytes) -> bool:
        """Keep the beginning; return whether git may end because nobody wants the rest."""
        self.total_bytes += len(chunk)
        room = self.max_bytes - len(self.data)
        self.data += chunk[:room]
        self.is_cut = self.is_cut or len(chunk) > room
        return self.is_cut and not self.is_whole_wanted


class Git:
    """Runs git confined, as any command; what it may be asked for is a short list."""

    spec = WORKSPACE_TOOLS["git"]

    def __init__(self, limits: GitLimits | None = None) -> None:
        """Keep the bounds."""
        self._limits = limits or GitLimits()

    async def run(self, arguments: GitArguments, context: ToolContext) -> ToolResult:
        """Return what git says.

        Raises:
            Refused: this call of git is not allowed, or not in this permission mode, or names a
                protected file or one outside the workspace.
            InvalidArguments: the call is incomplete.
        """
        call = plan_call(arguments.subcommand, arguments.args)
        _check_boundary(call, context)
        program = find_program("git", context.variables.get("PATH") or os.environ.get("PATH", ""))
        if program is None:
            return failure("git_missing", "git is not installed in this environment.")
        try:
            folder, _ = context.root.open_directory(".", context.mode)
        except MISFORTUNES as error:
            return told(error, ".")
        try:
            with anyio.fail_after(self._limits.timeout_seconds):
                if call.subcommand == "add":
                    await self._check_unprotected(call, program, folder, context)
                trailer = TRAILER if context.git_attribution else ""
                argv = call.argv(program, trailer=trailer)
                # What writes goes to its end, however much a hook prints.
                output = _Output(self._limits.output_bytes, is_whole_wanted=call.effect == "write")
                end = await _start(argv, output, folder, context)
        except TimeoutError:
            return _timed_out(call, self._limits)
        finally:
            os.close(folder)
        return self._result(call, output, end, context)

    async def _check_unprotected(
        self, call: GitCall, program: str, folder: int, context: ToolContext
    ) -> None:
        """Return when nothing protected would be staged, in a folder neither."""
        listing = _Output(self._limits.listing_bytes, is_whole_wanted=True)
        await _start(candidates_argv(call.paths, program), listing, folder, context)
        if listing.is_cut:
            raise Refused(
                "git add would stage more files than can be looked through for protected ones.",
                reason="git_not_allowed",
                hint="Name fewer, or smaller folders.",
            )
        # There may be millions of names.
        await anyio.to_thread.run_sync(_check_names, bytes(listing.data), context)

    def _result(
        self, call: GitCall, output: _Output, end: ProgramEnd, context: ToolContext
    ) -> ToolResult:
        redact = context.redactor.text
        complaint = redact(end.complaint.decode("utf-8", "replace")).strip()
        exit_code = 0 if end.is_stopped else end.status.exit_code
        facts: dict[str, Any] = {
            "action": "git",
            "subcommand": call.subcommand,
            "exit_code": -1 if exit_code is None else exit_code,
        }
        # diff tells with 1 that there are differences, when it is asked to.
        if exit_code != 0 and not (call.subcommand == "diff" and exit_code == 1):
            printed = redact(output.data.decode("utf-8", "replace")).strip()
            return _failed(facts, "\n".join(filter(None, (printed, complaint))), context)
        if call.subcommand == "status":
            status = parse_status(bytes(output.data))
            facts["status"] = msgspec.to_builtins(status)
            text = status_text(status)
        else:
            text = redact(_whole_lines(output))
        facts |= {
            "output": text,
            "output_bytes": output.total_bytes,
            "truncated": output.is_cut,
            "stderr": complaint,
        }
        return success(shown_text(text, complaint, is_cut=output.is_cut), facts)


def _check_names(names: bytes, context: ToolContext) -> None:
    for path in names.split(b"\0"):
        if path and context.root.is_protected(os.fsdecode(path)):
            raise protected(readable(path), "staged")


async def _start(
    argv: tuple[str, ...], output: _Output, folder: int, context: ToolContext
) -> ProgramEnd:
    spec = ProgramSpec(
        argv=argv,
        plan=context.plan,
        cwd=context.root.path,
        cwd_fd=folder,
        variables={**context.variables, **VARIABLES},
        label="git",
    )
    return await read_program(context.supervisor, spec, output.take)


def _check_boundary(call: GitCall, context: ToolContext) -> None:
    """Return when the call keeps to its mode and to the workspace.

    Raises:
        Refused: it does not.
    """
    mode, root = context.mode, context.root
    if call.effect == "read":
        if mode.is_restricted:
            for path in outside_paths(call, root.folders, root.path):
                raise outside(path)
        return
    if mode is PermissionMode.READ_ONLY:
        raise Refused(
            f"git {call.subcommand} would change the repository, and the permission mode is "
            "read_only.",
            reason="boundary_denied",
            hint="The user can change the session's mode.",
        )
    for path in call.paths:
        # The file itself may be a link, which is staged as one; its folder must lie here.
        parent = path.rstrip("/").rpartition("/")[0]
        root.resolve(parent or ("/" if path.startswith("/") else "."), mode)
        if call.subcommand == "add" and root.is_protected(path):
            raise protected(path, "staged")


def _failed(facts: dict[str, Any], text: str, context: ToolContext) -> ToolResult:
    """Return the result of a call that git could not do, in git's own words."""
    is_denial = context.mode.is_restricted and any(
        signature in text.lower() for signature in _DENIAL_SIGNATURES
    )
    hint = f"\n{guidance(context.mode)}" if is_denial else ""
    sentence = shown_text(text or f"git {facts['subcommand']} failed.") + hint
    return failure("boundary_denied" if is_denial else "git_failed", sentence, **facts)


def _timed_out(call: GitCall, limits: GitLimits) -> ToolResult:
    done = " What it had done by then is done." if call.effect == "write" else ""
    return failure(
        "timed_out",
        f"git {call.subcommand} took longer than {limits.timeout_seconds:g} s and was ended.{done}",
        action="git",
        subcommand=call.subcommand,
    )


def _whole_lines(output: _Output) -> str:
    """Return the output; a line that was cut is left out, so that no half secret is shown."""
    data = output.data
    if output.is_cut:
        data = data[: data.rfind(b"\n") + 1] or data
    return data.decode("utf-8", "replace")


TOOL = Git()
