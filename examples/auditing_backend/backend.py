"""An execution backend that hands everything to a peer, and writes one line for every call.

The peer's program and its arguments follow on the command line, and nothing else is ever started::

    python backend.py /home/me/audit.ndjson moorage-worker --state={state}/worker --mode=standard

``{state}`` stands for the private folder that the host keeps for the environment.

Files and processes are the peer's: one world. What is added here changes nothing of it.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import msgspec

import moorage

PEER_VARIABLES = ("HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "USER")
"""All that the peer's program gets of this one's variables."""


class AuditLog:
    """A file to which one line of JSON is added per call, before and after it."""

    def __init__(self, file: Path) -> None:
        """Open the file for adding; nobody else may read it."""
        self._fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, **facts: Any) -> None:
        """Add one line; its text is whole or not there, as it is written at once."""
        line = {"at": datetime.now(UTC).isoformat(), **facts}
        os.write(self._fd, msgspec.json.encode(line) + b"\n")


def audited(peer: moorage.ExecutionBackendV4, log: AuditLog) -> moorage.ExecutionBackendV4:
    """Return the peer with its tool calls and starts written down."""

    async def execute(
        request: moorage.ExecutionToolRequestV4, context: moorage.ExecutionContextV4
    ) -> Any:
        facts = {
            "session": context.binding.session,
            "actor": request.actor,
            "tool": request.call.name,
            "mode": request.permission_mode or "standard",
        }
        log.write(event="asked", **facts)
        outcome = "cancelled"
        try:
            result = await peer.methods["execute"](request, context)
            outcome = "is_error" if result.is_error else "done"
        except moorage.ExecutionError as error:
            outcome = error.code
            raise
        finally:
            log.write(event="answered", outcome=outcome, **facts)
        return result

    async def start(request: Any, context: moorage.ExecutionContextV4) -> Any:
        log.write(event="start", operation=request.operation_id, actor=request.actor)
        return await peer.methods["process/start"](request, context)

    methods = {**peer.methods, "execute": execute, "process/start": start}
    return msgspec.structs.replace(peer, methods=methods)


def main() -> None:
    """Serve the host that started this program, by the peer that the user named."""
    state = os.environ.get("MOORAGE_EXECUTION_STATE", ".")
    file, *command = (word.replace("{state}", state) for word in sys.argv[1:])
    peer = moorage.delegate_execution_backend_v4(
        command=command,
        capabilities=("process.start.v1", "moorage.bytes.v1"),
        env={name: os.environ[name] for name in PEER_VARIABLES if name in os.environ},
    )
    anyio.run(moorage.run_execution_backend_v4, audited(peer, AuditLog(Path(file))))


if __name__ == "__main__":
    main()
