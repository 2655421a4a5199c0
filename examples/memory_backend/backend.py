"""An execution backend that keeps its files in memory; they are gone when the session closes.

It has no commands and no processes: memory is a world of its own, and a command of this machine
would see other files. What it does not have it refuses, and it never falls back to the disk.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import posixpath
import re
from typing import Any

import anyio
import msgspec

import moorage
from moorage import ContentPart, InvalidArguments, Refused, ToolResult, UnknownTool

LARGEST_FILE_BYTES = 512 * 1024
"""A whole file has to fit into one result, twice."""

WRITING = frozenset({"write_file", "edit_file"})
MODES = frozenset({"", "standard", "read_only", "unconfined"})


class Arguments(msgspec.Struct, kw_only=True):
    """What the tools of this backend read of their arguments."""

    path: str = "."
    content: str | None = None
    create_only: bool = False
    old_text: str = ""
    new_text: str = ""
    replace_all: bool = False
    offset: int | None = None
    limit: int | None = None
    pattern: str = ""
    include: str | None = None
    ignore_case: bool = False
    output_mode: str = "content"


class MemoryBackend:
    """The files of one session, by their path below the root."""

    def __init__(self) -> None:
        """Start empty."""
        self.root = "/"
        self.files: dict[str, str] = {}
        self.tools = {
            "read_file": self.read_file,
            "write_file": self.write_file,
            "edit_file": self.edit_file,
            "list_files": self.list_files,
            "grep": self.grep,
            "glob": self.glob,
        }

    async def initialize(self, binding: Any, context: moorage.ExecutionContextV4) -> str:
        """Take the root as it is named; nothing of an earlier session can be there."""
        profile = msgspec.json.decode(os.environ.get("MOORAGE_EXECUTION_PROFILE", "{}"))
        kept = [name for name in ("persistent", "shared") if profile.get(name)]
        if kept or binding.require_existing_workspace:
            raise Refused(
                "this backend keeps files in memory, for one session.",
                reason="not_retained",
                hint=f"Take {' and '.join(kept) or 'the retained workspace'} out of the profile.",
            )
        self.root = posixpath.normpath(binding.root)
        return binding.root

    async def execute(
        self, request: moorage.ExecutionToolRequestV4, context: moorage.ExecutionContextV4
    ) -> ToolResult:
        """Run one tool; calls do not overlap inside, since nothing here waits."""
        name, mode = request.call.name, request.permission_mode
        if mode not in MODES:
            raise InvalidArguments(f"there is no permission mode {mode!r}.")
        if name in {"bash", "git", "process"}:
            raise Refused(
                f"this backend has no commands, confined or not, so {name} cannot run.",
                reason="no_commands",
            )
        if name not in self.tools:
            raise UnknownTool(f"this backend has no tool {name!r}.")
        if name in WRITING and mode == "read_only":
            raise Refused(
                f"{name} would change the workspace, and the permission mode is read_only.",
                reason="boundary_denied",
            )
        try:
            arguments = msgspec.json.decode(request.call.arguments, type=Arguments)
        except msgspec.DecodeError as error:
            raise InvalidArguments(f"{name}: {error}.") from error
        return self.tools[name](arguments)

    async def close(self) -> None:
        """Forget everything."""
        self.files.clear()

    # ------------------------------------------------------------ tools

    def read_file(self, asked: Arguments) -> ToolResult:
        """Return the text of a file, or of a range of its lines."""
        path = self.inside(asked.path)
        if path not in self.files:
            return failure("not_found", f"there is no file {path}.", path=path)
        text = self.files[path]
        lines = text.splitlines(keepends=True)
        start = asked.offset or 1
        if start > max(1, len(lines)):
            return failure("offset_past_end", f"{path} has {len(lines)} lines.", path=path)
        chosen = lines[start - 1 :][: asked.limit or None]
        numbered = "".join(f"{number}|{line}" for number, line in enumerate(chosen, start))
        return success(
            numbered or "(empty file)",
            action="read",
            path=path,
            text="".join(chosen),
            content_sha256=digest(text),
            start_line=start,
            num_lines=len(chosen),
            total_lines=len(lines),
            truncated=len(chosen) < len(lines),
        )

    def write_file(self, asked: Arguments) -> ToolResult:
        """Create or replace a file."""
        if asked.content is None:
            raise InvalidArguments("write_file: content: a text is needed.")
        path = self.inside(asked.path)
        old = self.files.get(path)
        if old is not None and asked.create_only:
            return failure("already_exists", f"{path} exists already.", path=path)
        if path == "." or self.is_folder(path) or self.has_file_above(path):
            return failure("not_a_file", f"{path} cannot be a file.", path=path)
        return self.put(path, asked.content, "create" if old is None else "overwrite")

    def edit_file(self, asked: Arguments) -> ToolResult:
        """Replace exact text, which has to be there exactly once unless all of it is meant."""
        path = self.inside(asked.path)
        if path not in self.files:
            return failure("not_found", f"there is no file {path}.", path=path)
        count = self.files[path].count(asked.old_text) if asked.old_text else 0
        if count == 0:
            return failure("no_match", f"{path} does not hold the old text.", path=path)
        if count > 1 and not asked.replace_all:
            return failure("ambiguous", f"{path} holds the old text {count} times.", path=path)
        changed = self.files[path].replace(asked.old_text, asked.new_text)
        return self.put(path, changed, "edit", replacements=count)

    def list_files(self, asked: Arguments) -> ToolResult:
        """Return the entries of a folder; folders are there while files are below them."""
        folder = self.inside(asked.path)
        if folder in self.files:
            return failure("not_a_folder", f"{folder} is a file.", path=folder)
        if folder != "." and not self.is_folder(folder):
            return failure("not_found", f"there is no folder {folder}.", path=folder)
        start = "" if folder == "." else f"{folder}/"
        names = sorted({self.name_below(path, start) for path in self.files} - {""})
        entries = [
            {
                "name": name.rstrip("/"),
                "path": start + name.rstrip("/"),
                "is_dir": name.endswith("/"),
                "size": len(self.files.get(start + name, "").encode()),
            }
            for name in names
        ]
        text = "\n".join(names) or "(empty folder)"
        return success(
            text, action="list_files", path=folder, entries=entries, **page(len(entries))
        )

    def grep(self, asked: Arguments) -> ToolResult:
        """Search the lines of all files below a path with a regular expression of Python."""
        try:
            pattern = re.compile(asked.pattern, re.IGNORECASE if asked.ignore_case else 0)
        except re.error as error:
            raise InvalidArguments(f"grep: {asked.pattern!r} is no pattern: {error}.") from error
        found = [
            {"path": path, "line": number, "text": line}
            for path in self.below(asked.path)
            if asked.include is None or fnmatch.fnmatch(posixpath.basename(path), asked.include)
            for number, line in enumerate(self.files[path].splitlines(), 1)
            if pattern.search(line)
        ]
        paths = list(dict.fromkeys(str(record["path"]) for record in found))
        lines = [f"{record['path']}:{record['line']}:{record['text']}" for record in found]
        records: list[dict[str, Any]] = found
        if asked.output_mode != "content":
            counts = {path: sum(record["path"] == path for record in found) for path in paths}
            records = [{"path": path, "matches": count} for path, count in counts.items()]
            lines = [f"{path}:{count}" for path, count in counts.items()]
        return success(
            "\n".join(lines) or "No match.",
            action="grep",
            pattern=asked.pattern,
            records=records,
            total_matches=len(found),
            total_files=len(paths),
            **page(len(records)),
        )

    def glob(self, asked: Arguments) -> ToolResult:
        """Return the files whose path matches; ``*`` crosses folders here."""
        pattern = asked.pattern.removeprefix("**/")
        paths = [
            path
            for path in self.below(asked.path)
            if fnmatch.fnmatch(path, asked.pattern) or fnmatch.fnmatch(path, pattern)
        ]
        entries = [{"path": path} for path in paths]
        text = "\n".join(paths) or "No match."
        return success(text, action="glob", records=entries, paths=paths, **page(len(paths)))

    # ------------------------------------------------------------ paths

    def inside(self, path: str) -> str:
        """Return the path below the root that is meant; in memory nothing else is there."""
        whole = posixpath.normpath(posixpath.join(self.root, path))
        if "\0" in path or posixpath.commonpath((self.root, whole)) != self.root:
            raise Refused(f"{path!r} leads out of the workspace.", reason="boundary_denied")
        return posixpath.relpath(whole, self.root)

    def below(self, path: str) -> list[str]:
        """Return the paths of all files at or below a path."""
        folder = self.inside(path)
        return sorted(
            name for name in self.files if folder in {".", name} or name.startswith(f"{folder}/")
        )

    def is_folder(self, path: str) -> bool:
        """Return whether files are below the path."""
        return any(name.startswith(f"{path}/") for name in self.files)

    def has_file_above(self, path: str) -> bool:
        """Return whether something above the path is a file."""
        return any(path.startswith(f"{name}/") for name in self.files)

    @staticmethod
    def name_below(path: str, start: str) -> str:
        """Return the name of what leads to the path in the folder, marked if it is a folder."""
        if not path.startswith(start):
            return ""
        name, below, _ = path.removeprefix(start).partition("/")
        return name + below

    def put(self, path: str, text: str, action: str, **facts: Any) -> ToolResult:
        """Store a text and tell of the change."""
        if len(text.encode()) > LARGEST_FILE_BYTES:
            return failure(
                "too_large", f"a file has at most {LARGEST_FILE_BYTES} bytes.", path=path
            )
        old = self.files.get(path)
        self.files[path] = text
        return success(
            f"{action}: {path} ({len(text.encode())} bytes).",
            action=action,
            path=path,
            old_file_sha="" if old is None else f"sha256:{digest(old)}",
            new_file_sha=f"sha256:{digest(text)}",
            written_bytes=len(text.encode()),
            **facts,
        )


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def page(total: int) -> dict[str, Any]:
    """Return what an answer says of itself that is always whole."""
    whole = {"offset": 0, "returned": total, "has_more": False, "next": None, "snapshot_token": ""}
    return {"total": total, "returned_count": total, "has_more": False, "page": whole}


def success(shown: str, /, **structured: Any) -> ToolResult:
    """Return a result: what a model reads, and the same as data."""
    return ToolResult(
        content=(ContentPart(type="text", text=shown),), structured_content=structured
    )


def failure(kind: str, sentence: str, **facts: Any) -> ToolResult:
    """Return an ordinary misfortune, which has changed nothing."""
    return ToolResult(
        content=(ContentPart(type="text", text=sentence),),
        structured_content={"error_kind": kind, "message": sentence, **facts},
        is_error=True,
    )


def main() -> None:
    """Serve the host that started this program."""
    memory = MemoryBackend()
    backend = moorage.ExecutionBackendV4(
        initialize=memory.initialize, methods={"execute": memory.execute}, close=memory.close
    )
    anyio.run(moorage.run_execution_backend_v4, backend)


if __name__ == "__main__":
    main()
