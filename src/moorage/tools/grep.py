"""``grep``: lines that match a regular expression, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from moorage.errors import InvalidArguments
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, GrepArguments
from moorage.tools.file_names import below, readable
from moorage.tools.paging import check_page, is_stale, page_facts, page_view, stale
from moorage.tools.results import success
from moorage.tools.searching import SEARCH_MISFORTUNES, opened_place, search_failure, search_way
from moorage.workspace.search.engine import Page, search
from moorage.workspace.search.hits import SearchLimits
from moorage.workspace.search.selection import Query, read_include

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext
    from moorage.workspace.opening.location import Location
    from moorage.workspace.search.engine import Answer
    from moorage.workspace.search.hits import Line, Record

TOO_LONG = "[a line of more than 1 MiB is not shown]"
MASKED = "[REDACTED]"

Mask = "Callable[[str, str], str]"


class Grep:
    """Searches file contents, obeying ignore files; a file named directly is always searched."""

    spec = WORKSPACE_TOOLS["grep"]

    def __init__(self, limits: SearchLimits | None = None) -> None:
        """Keep the bounds."""
        self._limits = limits or SearchLimits()

    async def run(self, arguments: GrepArguments, context: ToolContext) -> ToolResult:
        """Return a page of matches; none at all is an answer too.

        Raises:
            Refused: the path leads outside.
            InvalidArguments: a number is out of its range, or an offset comes without a token.
        """
        path, offset = arguments.path or ".", arguments.offset
        check_page(offset, arguments.expected_revision)
        query = self._query(arguments)
        try:
            include = read_include(arguments.include)
            query = msgspec.structs.replace(query, include=include)
            with opened_place(path, context, takes_files=True) as (place, location):
                page = Page(offset, self._limits.page_records, _question(arguments, place.absolute))
                answer = await search(search_way(context), place, query, page, self._limits)
        except SEARCH_MISFORTUNES as error:
            return search_failure(error, path, offset, self._limits)
        if is_stale(offset, arguments.expected_revision, answer.token):
            return stale("What matches")
        writer = _Writer(location, place.is_file, _masking(location, context))
        if query.counts_files:
            return _files_result(arguments, answer, writer)
        return self._lines_result(arguments, answer, writer)

    def _query(self, arguments: GrepArguments) -> Query:
        if "\0" in arguments.pattern:
            raise InvalidArguments("the pattern contains a NUL character.")
        size, most = len(arguments.pattern.encode()), self._limits.max_pattern_bytes
        if size > most:
            raise InvalidArguments(f"the pattern has {size} bytes; at most {most} can be used.")
        around = arguments.context or 0
        before = around if arguments.before is None else arguments.before
        after = around if arguments.after is None else arguments.after
        most = self._limits.max_context_lines
        for name, value in (("context", around), ("before", before), ("after", after)):
            if not 0 <= value <= most:
                raise InvalidArguments(f"{name} is {value}; it is a number from 0 to {most}.")
        return Query(
            pattern=arguments.pattern,
            ignore_case=arguments.ignore_case,
            counts_files=arguments.output_mode != "content",
            before=before,
            after=after,
        )

    def _lines_result(
        self, arguments: GrepArguments, answer: Answer, writer: _Writer
    ) -> ToolResult:
        records: list[dict[str, Any]] = []
        room = self._limits.max_content_bytes
        for found in answer.records:
            record, size = writer.line_record(found, room if not records else None)
            if records and size > room:
                break
            room -= size
            records.append(record)
        facts = page_facts(arguments.offset, len(records), answer.total_records, answer.token)
        if answer.is_binary:
            facts = page_facts(0, 0, 0, answer.token)
        items = list(_blocks(records))
        return _result(arguments, answer, records, items, facts)


def _files_result(arguments: GrepArguments, answer: Answer, writer: _Writer) -> ToolResult:
    records = [writer.file_record(found) for found in answer.records]
    facts = page_facts(arguments.offset, len(records), answer.total_records, answer.token)
    if arguments.output_mode == "count":
        items = [f"{record['path']}:{record['matches']}" for record in records]
    else:
        items = [record["path"] for record in records]
    return _result(arguments, answer, records, items, facts)


def _result(
    arguments: GrepArguments,
    answer: Answer,
    records: list[dict[str, Any]],
    items: list[str],
    facts: dict[str, Any],
) -> ToolResult:
    notes = []
    if answer.is_binary:
        notes.append(f"binary file; {answer.total_matches} matching lines are not shown")
    if answer.has_unreadable:
        notes.append("some files could not be read")
    text = page_view(items, facts, "records", notes)
    if not items and not answer.is_binary:
        text = "\n".join(filter(None, ("No match.", text)))
    structured = {
        "action": "grep",
        "pattern": arguments.pattern,
        "path": arguments.path or ".",
        "output_mode": arguments.output_mode,
        "records": records,
        "total_matches": answer.total_matches,
        "total_files": answer.total_files,
        "is_binary": answer.is_binary,
        "has_unreadable": answer.has_unreadable,
        **facts,
    }
    return success(text, structured)


class _Writer:
    """Turns what was found into records with display paths, masked where it has to be."""

    def __init__(self, location: Location, is_file: bool, mask: Callable[[str, str], str]) -> None:
        self._location = location
        self._is_file = is_file
        self._mask = mask

    def file_record(self, found: Record) -> dict[str, Any]:
        """Return the record of a file."""
        return {"path": self._path(found)[0], "matches": found.matches}

    def line_record(self, found: Record, room: int | None) -> tuple[dict[str, Any], int]:
        """Return the record of a matching line and the size of its text.

        With ``room``, lines around the match are left out, the farthest first, until it fits.
        """
        assert found.line is not None  # noqa: S101 - lines were asked for
        path, absolute = self._path(found)
        before = [self._line(line, absolute) for line in found.before]
        after = [self._line(line, absolute) for line in found.after]
        match = self._line(found.line, absolute)
        size = sum(_size(line) for line in (match, *before, *after))
        omitted = 0
        while room is not None and size > room and (before or after):
            dropped = before.pop(0) if len(before) > len(after) else after.pop()
            size -= _size(dropped)
            omitted += 1
        record = {"path": path, **match}
        if before:
            record["before"] = before
        if after:
            record["after"] = after
        if omitted:
            record["omitted_context_lines"] = omitted
        return record, size

    def _path(self, found: Record) -> tuple[str, str]:
        """Return the display path and the absolute one."""
        if self._is_file:
            return readable(self._location.display), self._location.absolute
        name = readable(found.path)
        absolute = below(self._location.absolute, name)
        return readable(below(self._location.display, name)), absolute

    def _line(self, line: Line, absolute: str) -> dict[str, Any]:
        text = TOO_LONG if line.is_too_long else line.text.decode("utf-8", "replace")
        shown: dict[str, Any] = {"line": line.number, "text": self._mask(absolute, text)}
        if line.is_too_long:
            shown["is_too_long"] = True
        if line.omitted_bytes:
            shown["omitted_bytes"] = line.omitted_bytes
        return shown


def _masking(location: Location, context: ToolContext) -> Callable[[str, str], str]:
    """Return what is shown of a line: of a protected file nothing, or masked if unconfined."""

    def mask(absolute: str, text: str) -> str:
        if not (location.is_protected or context.root.is_protected(absolute)):
            return text
        return MASKED if context.mode.is_restricted else context.redactor.text(text)

    return mask


def _blocks(records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of each record; the first of a file is headed by its path."""
    last: dict[str, Any] | None = None
    for record in records:
        lines = [f"{line['line']}-{line['text']}" for line in record.get("before", ())]
        lines.append(f"{record['line']}:{record['text']}{_cut_note(record)}")
        lines += [f"{line['line']}-{line['text']}" for line in record.get("after", ())]
        if last is None or last["path"] != record["path"]:
            lines.insert(0, f"\n{record['path']}")
        elif _has_gap(last, record):
            lines.insert(0, "--")
        yield "\n".join(lines)
        last = record


def _has_gap(last: dict[str, Any], record: dict[str, Any]) -> bool:
    """Return whether lines are missing between two records that show lines around them."""
    if not any(key in shown for shown in (last, record) for key in ("before", "after")):
        return False
    end = last["after"][-1]["line"] if "after" in last else last["line"]
    begin = record["before"][0]["line"] if "before" in record else record["line"]
    return bool(begin > end + 1)


def _cut_note(record: dict[str, Any]) -> str:
    omitted = record.get("omitted_bytes")
    return f" [{omitted} bytes of the line are not shown]" if omitted else ""


def _size(line: dict[str, Any]) -> int:
    return len(line["text"].encode("utf-8", "replace"))


def _question(arguments: GrepArguments, absolute: str) -> tuple[str, ...]:
    """Return what makes this search differ from others."""
    fields = ("output_mode", "include", "context", "before", "after", "ignore_case")
    asked = (str(getattr(arguments, field)) for field in fields)
    return ("grep", absolute, arguments.pattern, *asked)


TOOL = Grep()
