"""Which tools a session offers, of the workspace and of extensions, and how one is found."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.errors import InvalidArguments, UnknownTool
from moorage.host.extending.enabling import Extensions, ToolHandler
from moorage.protocol.tool_calls import ToolCall, ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ToolSpec


class Toolbox:
    """The tools of one session, as they are now."""

    def __init__(self, extensions: Extensions) -> None:
        """Offer the workspace tools and those of the extensions."""
        self._extensions = extensions

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return all tools, those of the workspace first."""
        return (*WORKSPACE_TOOLS.values(), *self._extensions.specs)

    def spec(self, name: str) -> ToolSpec:
        """Return one tool.

        Raises:
            UnknownTool: there is none of this name.
        """
        for spec in self.specs:
            if spec.name == name:
                return spec
        raise UnknownTool(
            f"{name!r} is not a workspace tool.",
            hint=f"The tools are {', '.join(spec.name for spec in self.specs)}.",
        )

    def search(self, query: str) -> tuple[ToolSpec, ...]:
        """Return the tools that have every word of the query in their name or description."""
        words = query.lower().split()
        return tuple(
            spec
            for spec in self.specs
            if all(word in f"{spec.name} {spec.description}".lower() for word in words)
        )

    def describe(self, name: str) -> dict[str, Any]:
        """Return the name, the description and the JSON Schema of the arguments of a tool.

        Raises:
            UnknownTool: there is none of this name.
        """
        spec = self.spec(name)
        return {
            "name": spec.name,
            "description": spec.description,
            "input_schema": spec.input_schema(),
        }

    def is_of_extension(self, name: str) -> bool:
        """Return whether an extension answers this tool."""
        return name not in WORKSPACE_TOOLS

    async def answer(self, call: ToolCall) -> ToolResult:
        """Have an extension answer a call.

        Raises:
            UnknownTool: it was disabled.
            InvalidArguments: the arguments are not those of the tool.
        """
        spec = self.spec(call.name)
        handler: ToolHandler | None = self._extensions.handler(call.name)
        if handler is None:
            raise UnknownTool(f"the extension of {call.name!r} has failed; its tools are gone.")
        try:
            arguments = msgspec.json.decode(call.arguments, type=spec.arguments)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"{call.name}: {error}; nothing happened.") from error
        return await handler(arguments)
