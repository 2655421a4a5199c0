"""The workspace tools as both wings know them: names, arguments, effects and descriptions.

The worker implements them (``moorage.tools``); the host shows them to a model. Arguments are
strict: an unknown key or a wrong type is an error that names the field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.policy.permission import Effect
from moorage.protocol.processes import CompletionMode, Lifecycle

OutputMode = Literal["content", "files_with_matches", "count"]
OverwritePolicy = Literal["small_file", "generated", "explicit_user_requested"]
BASH_ACTIONS = ("run", "read", "write", "stop", "list", "update")
VerificationScope = Literal["", "targeted", "affected", "full"]


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one tool call."""


class ReadFileArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``read_file``."""

    path: Annotated[str, Meta(description="File to read, relative to the workspace root.")] = ""
    offset: Annotated[int | None, Meta(description="First line to show, counted from 1.")] = None
    limit: Annotated[int | None, Meta(description="How many lines to show; all by default.")] = None
    continuation: Annotated[
        str | None, Meta(description="Token of an earlier result; shows what follows it.")
    ] = None


class WriteFileArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``write_file``."""

    path: Annotated[str, Meta(description="File to write, relative to the workspace root.")]
    content: Annotated[str, Meta(description="The whole new content; may be empty.")]
    create_only: Annotated[
        bool, Meta(description="Refuse, without a race, when the file exists.")
    ] = False
    overwrite_policy: Annotated[
        OverwritePolicy | None,
        Meta(description="Why an existing file above 32 KiB may be replaced as a whole."),
    ] = None


class EditFileArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``edit_file``."""

    path: Annotated[str, Meta(description="File to edit, relative to the workspace root.")]
    old_text: Annotated[
        str, Meta(description="Exact text to replace, copied from the file without line numbers.")
    ]
    new_text: Annotated[str, Meta(description="The text that takes its place; may be empty.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every match; otherwise there must be exactly one.")
    ] = False


class ListFilesArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``list_files``."""

    path: Annotated[str, Meta(description="Folder to list, relative to the workspace root.")] = "."
    offset: Annotated[int, Meta(description="First entry of the page, counted from 0.")] = 0
    expected_revision: Annotated[
        str | None, Meta(description="snapshot_token of page one; required with an offset.")
    ] = None


class GrepArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``grep``."""

    pattern: Annotated[str, Meta(description="Regular expression, ripgrep syntax.")]
    path: Annotated[str, Meta(description="File or folder to search.")] = "."
    include: Annotated[str | None, Meta(description="Glob that file names must match.")] = None
    output_mode: Annotated[
        OutputMode, Meta(description="Matching lines, only file names, or counts per file.")
    ] = "content"
    context: Annotated[int | None, Meta(description="Lines shown around each match.")] = None
    before: Annotated[int | None, Meta(description="Lines shown before each match.")] = None
    after: Annotated[int | None, Meta(description="Lines shown after each match.")] = None
    ignore_case: Annotated[bool, Meta(description="Match without regard to case.")] = False
    offset: Annotated[int, Meta(description="First record of the page, counted from 0.")] = 0
    expected_revision: Annotated[
        str | None, Meta(description="snapshot_token of page one; required with an offset.")
    ] = None


class GlobArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``glob``."""

    pattern: Annotated[str, Meta(description="Glob such as **/*.py.")]
    path: Annotated[str, Meta(description="Folder to start from.")] = "."
    offset: Annotated[int, Meta(description="First path of the page, counted from 0.")] = 0
    expected_revision: Annotated[
        str | None, Meta(description="snapshot_token of page one; required with an offset.")
    ] = None


class BashArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``bash``."""

    action: Annotated[
        str,
        Meta(
            description="What to do; run is the default. The others act on background commands.",
            extra_json_schema={"enum": list(BASH_ACTIONS)},
        ),
    ] = "run"
    command: Annotated[
        str,
        Meta(
            description="run: Bash command line, in a fresh shell. For background work set "
            "run_in_background; do not end the command with &."
        ),
    ] = ""
    timeout_seconds: Annotated[
        int | None,
        Meta(
            description="run: 1 to 3600, default 300. A command that may be handed over goes on in "
            "the background after 10 s, or after this time when it is shorter; another is ended."
        ),
    ] = None
    cwd: Annotated[str, Meta(description="run: folder to run in, default the workspace root.")] = ""
    run_in_background: Annotated[
        bool, Meta(description="run: start in a terminal and return a process_id at once.")
    ] = False
    completion_mode: Annotated[
        CompletionMode | None,
        Meta(
            description="run, update: resume (default) tells you when the process has ended; "
            "detached does not, and nothing waits for it."
        ),
    ] = None
    hand_over: Annotated[
        bool, Meta(description="run: false waits the whole timeout and ends the command then.")
    ] = True
    lifecycle: Annotated[
        Lifecycle, Meta(description="run: managed outlives the clean-up at the end of a session.")
    ] = "session"
    process_id: Annotated[
        str, Meta(description="read, write, stop, update: id of a background command.")
    ] = ""
    offset_bytes: Annotated[
        int | None,
        Meta(
            description="read: first byte to return; the offset of an earlier result goes on "
            "there. The newest bytes without it."
        ),
    ] = None
    max_bytes: Annotated[int | None, Meta(description="read: at most this, default 32768.")] = None
    wait_ms: Annotated[
        int | None,
        Meta(description="read: wait so long for output or the end, at most 300000; 0 by default."),
    ] = None
    input: Annotated[
        str | None, Meta(description="write: text to send as it is; add the newline yourself.")
    ] = None
    purpose: Annotated[str, Meta(description="run: why; kept in the audit record only.")] = ""
    scope: Annotated[
        VerificationScope,
        Meta(description="run: intended coverage of a check; changes nothing else."),
    ] = ""


class GitArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``git``."""

    subcommand: Annotated[str, Meta(description="status, diff, log, show, add, commit, ...")]
    args: Annotated[
        tuple[str, ...], Meta(description="Arguments of the subcommand, one per entry.")
    ] = ()


class PresentArtifactArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``present_artifact``."""

    path: Annotated[str, Meta(description="Regular file of at most 256 MiB to publish.")]


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One workspace tool as both sides know it."""

    name: str
    effect: Effect
    arguments: type[ToolArguments]
    description: str
    is_destructive: bool = False
    is_idempotent: bool = False

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, without references."""
        schema = msgspec.json.schema(self.arguments)
        definition: dict[str, Any] = schema["$defs"][self.arguments.__name__]
        return {key: value for key, value in definition.items() if key != "title"}


WORKSPACE_TOOLS: dict[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        ToolSpec(
            name="read_file",
            effect=Effect.READ,
            arguments=ReadFileArguments,
            is_idempotent=True,
            description="Read a text file, or a range of its lines, or look at an image.",
        ),
        ToolSpec(
            name="write_file",
            effect=Effect.WRITE,
            arguments=WriteFileArguments,
            is_destructive=True,
            is_idempotent=True,
            description="Create a file, or replace one as a whole. Use edit_file for changes.",
        ),
        ToolSpec(
            name="edit_file",
            effect=Effect.WRITE,
            arguments=EditFileArguments,
            is_destructive=True,
            description=(
                "Replace exact text in a file. Without exactly one match the file stays as it is "
                "and the candidate places are returned."
            ),
        ),
        ToolSpec(
            name="list_files",
            effect=Effect.READ,
            arguments=ListFilesArguments,
            is_idempotent=True,
            description="List the entries of a folder.",
        ),
        ToolSpec(
            name="grep",
            effect=Effect.READ,
            arguments=GrepArguments,
            is_idempotent=True,
            description="Search file contents with a regular expression.",
        ),
        ToolSpec(
            name="glob",
            effect=Effect.READ,
            arguments=GlobArguments,
            is_idempotent=True,
            description="Find files by name pattern.",
        ),
        ToolSpec(
            name="bash",
            effect=Effect.EXECUTE,
            arguments=BashArguments,
            is_destructive=True,
            description=(
                "Run a command in a fresh, non-interactive Bash, or control one that runs in the "
                "background. Editors, pagers and prompts are switched off; cd and variables do not "
                "survive the call. A slow command goes on in the background: its process_id proves "
                "neither success nor that it stopped."
            ),
        ),
        ToolSpec(
            name="git",
            effect=Effect.EXECUTE,
            arguments=GitArguments,
            is_destructive=True,
            description="Read the repository, or add and commit explicitly named paths.",
        ),
        ToolSpec(
            name="present_artifact",
            effect=Effect.READ,
            arguments=PresentArtifactArguments,
            is_idempotent=True,
            description="Publish an immutable copy of a file to the user.",
        ),
    )
}
