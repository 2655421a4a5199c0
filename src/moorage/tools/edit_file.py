"""``edit_file``: replace exact text; without exactly one match, say where it might be."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio

from moorage.errors import InvalidArguments
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, EditFileArguments
from moorage.tools.file_limits import FileLimits
from moorage.tools.misfortunes import MISFORTUNES, told
from moorage.tools.missing_file import missing_file
from moorage.tools.overwrite_rules import brings_back_mask
from moorage.tools.results import failure, success
from moorage.workspace.edit import PLACEHOLDER, Edited, ManyMatches, NoMatch, replace_text
from moorage.workspace.files import content_hash, open_existing, prefixed, read_whole
from moorage.workspace.staged import StagedFile
from moorage.workspace.text.candidates import CandidateLimits
from moorage.workspace.text.diff import describe_edit, edit_spans

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext
    from moorage.workspace.opening.location import Target
    from moorage.workspace.redact import Redactor
    from moorage.workspace.text.candidates import Candidate


class EditFile:
    """Edits one file; calls on the same real file come one after another."""

    spec = WORKSPACE_TOOLS["edit_file"]

    def __init__(
        self,
        limits: FileLimits | None = None,
        candidate_limits: CandidateLimits | None = None,
    ) -> None:
        """Keep the bounds."""
        self._limits = limits or FileLimits()
        self._candidate_limits = candidate_limits or CandidateLimits()

    async def run(self, arguments: EditFileArguments, context: ToolContext) -> ToolResult:
        """Edit the file and return what changed, or why nothing did.

        Raises:
            Refused: the mode is ``read_only``, the path leads outside, or the file is protected.
            InvalidArguments: the old text is empty, or the same as the new one.
        """
        _check(arguments)
        path, turns = arguments.path, context.root.turns
        try:
            location = context.root.resolve(path, context.mode, to_write=True)
            await turns.wait(location.absolute)
            with context.root.open_target(path, context.mode) as target:
                if target.status is None or target.status.st_size <= self._limits.inline_bytes:
                    return self._edit(arguments, target, context.redactor)
                with turns.hold(location.absolute):
                    return await anyio.to_thread.run_sync(
                        self._edit, arguments, target, context.redactor
                    )
        except FileNotFoundError as error:
            return missing_file(error, path, context, self._limits)
        except MISFORTUNES as error:
            return told(error, path)

    def _edit(self, arguments: EditFileArguments, target: Target, redactor: Redactor) -> ToolResult:
        path = target.location.display
        data = self._read(target)
        if data is None:
            return failure(
                "too_large",
                f"{path} is larger than {self._limits.edit_bytes} bytes; edit it with a command.",
                path=path,
            )
        outcome = replace_text(
            data,
            arguments.old_text,
            arguments.new_text,
            replace_all=arguments.replace_all,
            limits=self._candidate_limits,
        )
        match outcome:
            case NoMatch():
                return _not_found(path, outcome)
            case ManyMatches():
                return _ambiguous(path, outcome)
            case Edited():
                pass
        if _brings_back_mask(arguments, redactor):
            return failure(
                "redaction_placeholder",
                f"new_text holds {PLACEHOLDER} in place of a secret of {path}; nothing was "
                "written. Leave the secret out of old_text and new_text.",
                path=path,
            )
        with StagedFile(target) as staged:
            staged.write(outcome.data)
            staged.commit()
        return _edited(path, data, outcome)

    def _read(self, target: Target) -> bytes | None:
        fd = open_existing(target)
        try:
            data = read_whole(fd, self._limits.edit_bytes, target.location.display)
        finally:
            os.close(fd)
        return data if len(data) <= self._limits.edit_bytes else None


def _check(arguments: EditFileArguments) -> None:
    if not arguments.old_text:
        raise InvalidArguments(
            "edit_file: argument old_text is empty.",
            hint="Copy the text to replace from the file; use write_file for a new file.",
        )
    if arguments.old_text == arguments.new_text:
        raise InvalidArguments("edit_file: old_text and new_text are the same.")


def _brings_back_mask(arguments: EditFileArguments, redactor: Redactor) -> bool:
    return brings_back_mask(arguments.old_text.encode(), arguments.new_text.encode(), redactor)


def _not_found(path: str, outcome: NoMatch) -> ToolResult:
    sentence = f"old_text was not found in {path}, which was left as it was."
    if outcome.hint:
        sentence += f" {outcome.hint}"
    if outcome.candidates:
        sentence += " The most similar places:"
    return failure(
        "old_text_not_found",
        "\n".join((sentence, *map(_shown, outcome.candidates))),
        path=path,
        candidates=[_plain(candidate) for candidate in outcome.candidates],
        hint=outcome.hint,
    )


def _ambiguous(path: str, outcome: ManyMatches) -> ToolResult:
    sentence = (
        f"old_text is {outcome.count} times in {path}, which was left as it was. Add lines around "
        "it until it is there once, or set replace_all to change every one. The first places:"
    )
    return failure(
        "ambiguous_old_text",
        "\n".join((sentence, *map(_shown, outcome.candidates))),
        path=path,
        count=outcome.count,
        candidates=[_plain(candidate) for candidate in outcome.candidates],
    )


def _shown(candidate: Candidate) -> str:
    lines = f"lines {candidate.start_line} to {candidate.end_line}"
    if candidate.start_line == candidate.end_line:
        lines = f"line {candidate.start_line}"
    hint = f" {candidate.hint}" if candidate.hint else ""
    return f"{lines} (likeness {candidate.score:.2f}):{hint}\n{candidate.snippet}"


def _plain(candidate: Candidate) -> dict[str, object]:
    return {name: getattr(candidate, name) for name in candidate.__struct_fields__}


def _edited(path: str, old: bytes, outcome: Edited) -> ToolResult:
    spans = edit_spans(outcome.starts, outcome.old_length, outcome.new_length)
    is_complete = len(outcome.starts) == outcome.replacements
    diff = describe_edit(old, outcome.data, spans, is_complete=is_complete)
    first = old.count(b"\n", 0, outcome.starts[0]) + 1
    times = "1 replacement" if outcome.replacements == 1 else f"{outcome.replacements} replacements"
    where = f"in line {first}" if outcome.replacements == 1 else f"from line {first} on"
    return success(
        f"Edited {path}: {times} {where} ({diff['summary']}).",
        {
            "action": "edit",
            "path": path,
            "replacements": outcome.replacements,
            "old_file_sha": prefixed(content_hash(old)),
            "new_file_sha": prefixed(content_hash(outcome.data)),
            "workspace_revision": "",
            "diff": diff,
        },
    )


TOOL = EditFile()
