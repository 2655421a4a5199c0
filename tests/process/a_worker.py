"""A worker in miniature, to be killed: it starts a program that spreads, and says who is who."""

from __future__ import annotations

import os
import sys

from moorage.confine.nursery import start_nursery
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.leftovers import remove_tree

nursery = start_nursery(remove_tree)

import anyio  # noqa: E402 - the nursery is forked before there is an event loop

from moorage.process.spec import ProgramSpec  # noqa: E402
from moorage.process.supervisor import Supervisor  # noqa: E402

COMMAND = "setsid sleep 1000 & echo $! $$ $PPID; trap '' TERM HUP; sleep 1000"
VARIABLES = {"PATH": os.environ["PATH"]}


async def work(mode: str, root: str) -> None:
    plan = Plan(PermissionMode(mode), (root,))
    spec = ProgramSpec(argv=("bash", "-c", COMMAND), plan=plan)
    async with (
        Supervisor(nursery, base_variables=lambda _: VARIABLES) as supervisor,
        supervisor.open(spec) as child,
    ):
        supervisor.remove_at_end(os.path.join(root, "temporary"))
        line = b""
        while not line.endswith(b"\n"):
            line += await child.stdout.read()
        os.write(1, b"%d %s" % (nursery.pid, line))
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(work, *sys.argv[1:])
