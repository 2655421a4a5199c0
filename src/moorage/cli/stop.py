"""``moorage stop``: end background processes, and say how each ended."""

from __future__ import annotations

from typing import Any

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.failures import as_document as failure_document
from moorage.cli.failures import described
from moorage.cli.process_choice import open_process, processes_argument
from moorage.cli.process_view import as_document, how_it_ended
from moorage.cli.render import print_failure, print_json, print_note
from moorage.errors import ExecutionError

EPILOG = """\b
Examples:
  moorage stop proc-1a2b3c4d
  moorage stop site/proc-1a2b3c4d proc-5e6f7a8b
  moorage stop --json proc-1a2b3c4d
"""


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@processes_argument
def command(names: tuple[str, ...], *, as_json: bool) -> int:
    """End each PROCESS with all it started, and say how it ended.

    It is asked with SIGTERM, and killed when it has not ended two seconds later. This returns when
    nothing of it is left. One that had ended already stays as it is.
    """
    return anyio.run(end_all, names, False, as_json)


async def end_all(names: tuple[str, ...], force: bool, as_json: bool) -> int:
    """End processes at once with one another; return the exit code."""
    told: dict[str, dict[str, Any]] = {}
    codes: list[int] = [exit_codes.OK]

    async def end(name: str) -> None:
        try:
            async with open_process(name) as (session, before):
                record = await session.processes.stop(before.id, force=force)
                told[name] = as_document(record, session.id)
                if not as_json:
                    is_late = "nothing to do: " if before.is_terminal else ""
                    print_note(f"{is_late}{how_it_ended(record)}")
        except (ExecutionError, ExceptionGroup) as error:
            failures = described(error)
            codes.append(max(failure.exit_code for failure in failures))
            told[name] = {"name": name, "error": failure_document(failures)}
            for failure in () if as_json else failures:
                print_failure(f"{failure.message} {failure.hint}".strip())

    distinct = tuple(dict.fromkeys(names))
    async with anyio.create_task_group() as tasks:
        for name in distinct:
            tasks.start_soon(end, name)
    if as_json:
        documents = [told[name] for name in distinct]
        print_json(
            {
                "processes": [each for each in documents if "id" in each],
                "failed": [each for each in documents if "id" not in each],
            }
        )
    return max(codes)
