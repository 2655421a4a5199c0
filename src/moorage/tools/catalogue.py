"""The workspace tools by name: list them, and take one call from encoded arguments to a result.

What a tool may do is decided in ``policy.decide``; what it does is its own module's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from moorage.errors import InvalidArguments, UnknownTool
from moorage.policy.decide import check_call
from moorage.policy.permission import PermissionMode
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ToolArguments, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from moorage.confine.plan import Plan
    from moorage.process.managed.control import ProcessManager
    from moorage.process.supervisor import Supervisor
    from moorage.protocol.tool_calls import ToolCall, ToolResult
    from moorage.workspace.redact import Redactor
    from moorage.workspace.root import WorkspaceRoot

# Names of earlier designs that a model may still remember, and what serves instead.
_RETIRED_TOOLS = {
    "apply_patch": "Use edit_file for changes and write_file for new files.",
    "process": "Use bash; it runs commands and controls what it started.",
}


class Export(Protocol):
    """An immutable snapshot that the host can read by its token."""

    @property
    def token(self) -> str:
        """Return the name under which ``export/read`` finds the snapshot."""

    @property
    def name(self) -> str:
        """Return the base name of the file."""

    @property
    def size(self) -> int:
        """Return how many bytes the snapshot has."""


class Exports(Protocol):
    """The place that keeps snapshots; the worker provides it."""

    async def publish(self, fd: int, name: str) -> Export:
        """Copy what ``fd`` reads into a snapshot; the caller keeps ``fd``."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a tool may use during one call.

    ``variables`` are additions to the launcher's own; ``input_fd`` holds the bytes of a command's
    standard input, and the caller closes it.
    """

    root: WorkspaceRoot
    mode: PermissionMode
    actor: str
    session: str
    plan: Plan
    supervisor: Supervisor
    redactor: Redactor
    variables: Mapping[str, str]
    state_dir: Path
    exports: Exports
    find_processes: Callable[[], ProcessManager] | None = None
    input_fd: int | None = None
    git_attribution: bool = False

    @property
    def processes(self) -> ProcessManager | None:
        """Return the background processes of the session, ready for use; ``None`` without any.

        Raises:
            ConfigError: their records cannot be kept.
        """
        return self.find_processes() if self.find_processes is not None else None


class Tool(Protocol):
    """One workspace tool: what it is called and takes, and what it does."""

    @property
    def spec(self) -> ToolSpec:
        """Return the tool's entry in the shared vocabulary."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        """Do what is asked; ``arguments`` is an instance of ``spec.arguments``.

        Raises:
            Refused: policy or a boundary says no.
            InvalidArguments: the arguments contradict each other.
        """


class Catalogue:
    """Tools by name, loaded when they are first called."""

    def __init__(self, places: Mapping[str, str], *, highest: PermissionMode) -> None:
        """Keep where each tool is found, as ``module:attribute``; nothing is imported yet.

        ``highest`` is the widest permission mode that the user granted.
        """
        self._places = dict(places)
        self._highest = highest
        self._tools: dict[str, Tool] = {}
        self._decoders: dict[str, msgspec.json.Decoder[ToolArguments]] = {}

    @classmethod
    def of(cls, tools: Iterable[Tool], *, highest: PermissionMode) -> Catalogue:
        """Return a catalogue of tools that are there already."""
        catalogue = cls({}, highest=highest)
        catalogue._tools = {tool.spec.name: tool for tool in tools}
        return catalogue

    def describe(self) -> tuple[ToolSpec, ...]:
        """Return what each tool is called, takes and does."""
        loaded = {name: tool.spec for name, tool in self._tools.items()}
        return tuple(
            loaded.get(name) or WORKSPACE_TOOLS[name]
            for name in dict.fromkeys((*self._places, *loaded))
        )

    def load(self, *names: str) -> None:
        """Import these tools now, or all of them, so that a call does not pay for it.

        Raises:
            UnknownTool: no tool has one of the names.
        """
        for name in names or tuple(self._places):
            self._find(name)

    async def dispatch(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run one call and return its result.

        Raises:
            UnknownTool: no tool has this name.
            InvalidArguments: the arguments are not what the tool takes.
            Refused: policy or a boundary says no.
        """
        tool = self._find(call.name)
        check_call(call.name, tool.spec.effect, mode=context.mode, highest=self._highest)
        return await tool.run(self._decode(tool.spec, call.arguments), context)

    def _find(self, name: str) -> Tool:
        tool = self._tools.get(name)
        if tool is None:
            place = self._places.get(name)
            if place is None:
                known = ", ".join(spec.name for spec in self.describe())
                raise UnknownTool(
                    f"{name} is not a workspace tool.",
                    hint=_RETIRED_TOOLS.get(name, f"Known tools: {known}."),
                )
            module_name, _, attribute = place.partition(":")
            tool = self._tools[name] = getattr(import_module(module_name), attribute)
        return tool

    def _decode(self, spec: ToolSpec, arguments: str) -> ToolArguments:
        decoder = self._decoders.get(spec.name)
        if decoder is None:
            decoder = self._decoders[spec.name] = msgspec.json.Decoder(spec.arguments)
        try:
            return decoder.decode(arguments if arguments.strip() else "{}")
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise InvalidArguments(_explain(spec, error)) from error


def workspace_catalogue(*, highest: PermissionMode = PermissionMode.STANDARD) -> Catalogue:
    """Return the nine workspace tools, none of them imported yet."""
    places = {name: f"moorage.tools.{name}:TOOL" for name in WORKSPACE_TOOLS}
    return Catalogue(places, highest=highest)


def _explain(spec: ToolSpec, error: Exception) -> str:
    """Return one sentence that names the field and what it takes."""
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return f"{spec.name}: the arguments are not valid JSON: {text}."
    reason, _, place = text.partition(" - at `$")
    field = place.strip("`.")
    where = f"argument {field}: " if field else ""
    choices = _choices(spec, field)
    if choices:
        return f"{spec.name}: {where}{reason}. It is one of: {choices}."
    takes = ", ".join(spec.arguments.__struct_fields__)
    return f"{spec.name}: {where}{reason}. It takes: {takes}."


def _choices(spec: ToolSpec, field: str) -> str:
    """Return the values that a field is limited to, or nothing when it takes any."""
    schema = spec.input_schema()["properties"].get(field, {})
    for alternative in (schema, *schema.get("anyOf", ())):
        if "enum" in alternative:
            return ", ".join(value for value in alternative["enum"] if value)
    return ""
