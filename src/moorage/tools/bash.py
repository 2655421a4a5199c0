"""``bash``: run a command in a fresh, non-interactive shell and tell the truth about it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.process.foreground import ForegroundLimits, ForegroundResult, run_foreground
from moorage.process.managed.hand_over import HandOver, Successor, Wait
from moorage.process.spec import ProgramSpec
from moorage.protocol.tool_calls import ContentPart, ToolResult
from moorage.protocol.workspace_tools import BASH_ACTIONS, WORKSPACE_TOOLS, BashArguments
from moorage.tools.checks import Check, recognise
from moorage.tools.classify import Classification, classify
from moorage.tools.denials import sandbox_account
from moorage.tools.envelope import CommandText, Facts, build
from moorage.tools.notes import notes_on
from moorage.tools.results import failure
from moorage.tools.verification import Repeats, account, with_local_runner
from moorage.tools.views import ViewLimits, combine, render, view_output
from moorage.workspace.opening.location import FolderMissing
from moorage.workspace.revision import RevisionLimits, workspace_revision

if TYPE_CHECKING:
    from moorage.tools.catalogue import ToolContext

LOG_FOLDER = "tool-results/shell-logs"
"""Where full logs lie below the worker's own folder of the session."""

_NAMES_NOW = {
    "start_background": "Use the action run with run_in_background: true.",
    **{f"{name}_background": f"Use the action {name}." for name in BASH_ACTIONS[1:]},
}


class BashLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The durations and sizes of the tool."""

    default_timeout_seconds: int = 300
    longest_timeout_seconds: int = 3600

    hand_over_seconds: float | None = 10.0
    """After this a command goes on in the background, where the caller allows it; never for None:
    some hosts cannot be told of its end."""

    foreground: ForegroundLimits = ForegroundLimits()
    view: ViewLimits = ViewLimits()
    revision: RevisionLimits = RevisionLimits()


class _Run(msgspec.Struct, frozen=True):
    """One command, ready to start."""

    requested: str
    command: str
    classification: Classification
    check: Check | None
    folder: int
    cwd: str
    revision: str = ""


class Bash:
    """Runs commands."""

    spec = WORKSPACE_TOOLS["bash"]

    def __init__(self, limits: BashLimits | None = None) -> None:
        """Keep the limits; a tool lives as long as its worker."""
        self._limits = limits or BashLimits()
        self._repeats = Repeats()

    async def run(self, arguments: BashArguments, context: ToolContext) -> ToolResult:
        """Run the command to its end, or do what another action asks for, and return the account.

        Raises:
            InvalidArguments: there is no command, the action is none, or ``cwd`` is no folder.
            Refused: ``cwd`` leads outside, or the mode is ``read_only`` and the command may write.
        """
        if arguments.action != "run":
            return await _control(arguments, context)
        if not arguments.command.strip():
            raise InvalidArguments("bash: command is blank; nothing ran.", hint="Give a command.")
        classification = classify(arguments.command)
        if context.mode is PermissionMode.READ_ONLY and not classification.read_only:
            raise Refused(
                "the permission mode is read_only, and only commands that are known to read may "
                f"run: {classification.reason}. Nothing ran.",
                reason="boundary_denied",
                hint="The user can change the session's mode.",
            )
        folder, cwd = _open_folder(arguments.cwd, context)
        try:
            check = recognise(arguments.command)
            command = arguments.command
            if check is not None:
                local = with_local_runner(command, check, folder, context.root.path)
                if local is None:
                    return _runner_missing(check)
                command = local
            revision = await self._revision(check, context)
            if arguments.run_in_background:
                # Most workers start nothing in the background, and their start is hot.
                from moorage.tools import background  # noqa: PLC0415

                spec = background.start_spec(arguments, command, (folder, cwd), context)
                return await background.start(spec, classification, context)
            run = _Run(arguments.command, command, classification, check, folder, cwd, revision)
            result = await self._start(run, arguments, context)
        finally:
            os.close(folder)
        return await self._account(run, result, arguments.scope, context)

    async def _revision(self, check: Check | None, context: ToolContext) -> str:
        if check is None:
            return ""
        return await workspace_revision(
            context.supervisor, context.plan, context.root.path, limits=self._limits.revision
        )

    async def _start(
        self, run: _Run, arguments: BashArguments, context: ToolContext
    ) -> ForegroundResult:
        spec = ProgramSpec(
            argv=("bash", "-c", run.command),
            plan=context.plan,
            cwd=run.cwd,
            cwd_fd=run.folder,
            variables=context.variables,
            stdin_fd=context.input_fd,
            label="bash",
        )
        return await run_foreground(
            context.supervisor,
            spec,
            wait=Wait(
                timeout_seconds=self._timeout(arguments.timeout_seconds),
                hand_over=self._hand_over(run, arguments, context),
            ),
            limits=self._limits.foreground,
            redactor=context.redactor,
            log_dir=f"{context.state_dir}/{LOG_FOLDER}",
        )

    def _hand_over(
        self, run: _Run, arguments: BashArguments, context: ToolContext
    ) -> HandOver | None:
        after_seconds = self._limits.hand_over_seconds
        if not arguments.hand_over or after_seconds is None or context.find_processes is None:
            return None

        def find_successor() -> Successor:
            from moorage.tools import background  # noqa: PLC0415 - few commands take that long

            spec = background.start_spec(arguments, run.command, (run.folder, run.cwd), context)
            return background.Successor(background.processes_of(context), spec)

        return HandOver(find_successor, after_seconds)

    def _timeout(self, asked: int | None) -> int:
        if asked is None or asked <= 0:
            return self._limits.default_timeout_seconds
        return min(asked, self._limits.longest_timeout_seconds)

    async def _account(
        self, run: _Run, result: ForegroundResult, scope: str, context: ToolContext
    ) -> ToolResult:
        """Return the view for the model and the envelope for everybody else."""
        limits = self._limits.view
        combined = combine(result.stdout, result.stderr, limits)
        output = view_output(combined)
        is_incomplete = combined.is_cut or output.redraws > 0 or not output.fits(limits)
        is_promoted = result.outcome == "promoted"
        if not is_promoted and (is_incomplete or _is_long(result, limits)):
            await result.save_log()
        verification = None
        if run.check is not None:
            verification = account(
                run.check, result, scope=scope, revision=run.revision, command=run.requested
            )
            previous = self._repeats.count(
                context.session,
                verification["command_hash"],
                run.revision,
                failed=verification["passed"] is False,
            )
            verification["repeat_guard"] = {"previous_failed_runs": previous}
        facts = Facts(
            command=_shown_command(run, context),
            classification=run.classification,
            revision=run.revision,
            sandbox=sandbox_account(context.plan, run.cwd, result, context.supervisor.provider),
            verification=verification,
        )
        envelope = build(result, combined, facts, limits)
        notes = notes_on(result, facts, is_incomplete=is_incomplete)
        reference = envelope.get("full_log_ref", "")
        text = render(output, notes, limits, reference)
        return _as_result(result, text, envelope)


async def _control(arguments: BashArguments, context: ToolContext) -> ToolResult:
    if arguments.action in BASH_ACTIONS:
        from moorage.tools import background  # noqa: PLC0415 - most workers have no such command

        return await background.control(arguments, context)
    what, hint = "is no action", f"The actions are {', '.join(BASH_ACTIONS)}."
    if arguments.action.endswith("_background"):
        what = "is a name of an earlier design"
        hint = _NAMES_NOW.get(arguments.action, hint)
    raise InvalidArguments(f"bash: {arguments.action!r} {what}; nothing ran.", hint=hint)


def _open_folder(path: str, context: ToolContext) -> tuple[int, str]:
    """Open the folder to run in; a shell that starts elsewhere would do harm.

    Raises:
        InvalidArguments: there is no such folder, or the workspace itself is missing.
        Refused: it lies outside.
    """
    try:
        folder, location = context.root.open_directory(path or ".", context.mode)
    except FolderMissing as error:
        raise InvalidArguments(
            f"bash: the folder {error.folder} of the session itself is missing; nothing ran.",
            hint="Nothing else takes its place. The user can put it back, or open a new session.",
        ) from error
    except FileNotFoundError:
        problem = "does not exist"
    except NotADirectoryError:
        problem = "is not a folder"
    except OSError as error:
        problem = f"cannot be used: {error.strerror}"
    else:
        return folder, location.absolute
    raise InvalidArguments(
        f"bash: cwd {path!r} {problem}; nothing ran.",
        hint="Name an existing folder of the workspace, or leave cwd out.",
    )


def _runner_missing(check: Check) -> ToolResult:
    tool = check.runner.tool if check.runner is not None else ""
    return failure(
        "local_test_runner_missing",
        f"{tool} is not installed in this project (node_modules/.bin/{tool} is missing), and npx "
        "might download it; nothing ran. Install the project's packages first.",
        runner=tool,
    )


def _is_long(result: ForegroundResult, limits: ViewLimits) -> bool:
    """Return whether an excerpt in the envelope is cut, though the view may be whole."""
    longest = limits.excerpt_head_bytes + limits.excerpt_tail_bytes
    return max(result.stdout.masked_bytes, result.stderr.masked_bytes) > longest


def _shown_command(run: _Run, context: ToolContext) -> CommandText:
    requested = context.redactor.text(run.requested)
    if run.command == run.requested:
        return CommandText(requested)
    return CommandText(requested, context.redactor.text(run.command))


def _as_result(result: ForegroundResult, text: str, envelope: dict[str, Any]) -> ToolResult:
    is_lost = result.outcome in {"environment_died", "unknown"}
    if is_lost:
        envelope["error_kind"] = result.outcome
    return ToolResult(
        content=(ContentPart(type="text", text=text),),
        structured_content=envelope,
        is_error=is_lost,
    )


TOOL = Bash()
