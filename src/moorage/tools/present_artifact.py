"""``present_artifact``: offer an immutable copy of a file to the user."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec

from moorage.errors import Refused, ToolFailed
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, PresentArtifactArguments
from moorage.tools.file_names import readable
from moorage.tools.misfortunes import MISFORTUNES, told
from moorage.tools.results import failure, success

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext


class PresentArtifact:
    """Publishes a file; its bytes stay as they are, whatever happens to the file."""

    spec = WORKSPACE_TOOLS["present_artifact"]

    async def run(self, arguments: PresentArtifactArguments, context: ToolContext) -> ToolResult:
        """Return the token under which the host reads the copy.

        Raises:
            Refused: the path leads outside or is protected, the file is too large, or the quotas
                of published files are used up.
        """
        try:
            fd, location = context.root.open_read(arguments.path, context.mode)
        except MISFORTUNES as error:
            return told(error, arguments.path)
        try:
            if location.is_protected:  # nothing in a copy can be masked
                raise Refused(
                    f"{location.display} is a protected file and is not published in any mode.",
                    reason="protected_path",
                    hint="The user can copy it.",
                )
            name = readable(PurePath(location.absolute).name)
            export = await context.exports.publish(fd, name)
        except ToolFailed as error:
            return failure("not_published", str(error), path=location.display)
        finally:
            os.close(fd)
        offer = {"execution_export": export.token, "name": export.name, "size": export.size}
        return success(msgspec.json.encode(offer).decode(), offer)


TOOL = PresentArtifact()
