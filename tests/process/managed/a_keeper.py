"""A worker in miniature, to be killed: it keeps processes, and says which."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from moorage.confine.nursery import start_nursery
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode

nursery = start_nursery()

import anyio  # noqa: E402 - the nursery is forked before there is an event loop

from moorage.process.kept.log import OutputLog  # noqa: E402
from moorage.process.managed.control import ProcessManager  # noqa: E402
from moorage.process.managed.live import Owner, StartSpec  # noqa: E402
from moorage.process.supervisor import Supervisor  # noqa: E402
from moorage.workspace.redact import Redactor  # noqa: E402

VARIABLES = {"PATH": os.environ["PATH"]}
# It goes on printing once the file named "go" is there, and ends with it when it is "end".
COMMAND = """
trap '' TERM; echo before
until test -e go; do sleep 0.02; done
echo after; setsid sleep 1000 &
until test -e end; do sleep 0.02; done
"""


def die_halfway() -> None:
    """Have this worker killed between taking output of a terminal and moving it into its log."""
    OutputLog.take = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign,return-value]


async def work(mode: str, root: str, folder: str, halfway: str = "") -> None:
    plan = Plan(PermissionMode(mode), (root,))
    redactor = Redactor()
    async with Supervisor(nursery, base_variables=lambda _: VARIABLES) as supervisor:
        manager = ProcessManager(
            supervisor, Path(folder), redactor=lambda: redactor, on_event=lambda _: None
        )
        await manager.open()
        ids = []
        kinds = [(True, "managed"), (False, "managed"), (True, "session")]
        if halfway:
            die_halfway()
            kinds = kinds[:1]
        for tty, lifecycle in kinds:
            record = await manager.start(
                StartSpec(
                    command=COMMAND,
                    cwd=root,
                    plan=plan,
                    owner=Owner("main_agent", "main", "session-1"),
                    tty=tty,
                    lifecycle=lifecycle,
                )
            )
            ids.append(f"{record.id} {record.pid}")
        os.write(1, f"{' '.join(ids)}\n".encode())
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(work, *sys.argv[1:])
