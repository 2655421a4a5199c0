"""Torture background processes for a while, then prove that nothing was lost, left or hit.

Starts, reads, writes, stops, hands over and kills at random in a plain session and in one that
stays, and kills their workers. Exits with 1 when a proof fails, and tells the evidence.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import anyio
import anyio.to_thread

from torture import ending, proofs, report, table
from torture.proofs import Deliveries
from torture.report import Verdict
from torture.running import Torture
from torture.stage import Place, sessions
from torture.strangers import Stranger, strangers
from torture.subjects import Chronicle

DEFAULT_SEED = 20_260_101
LONGEST_SECONDS = 300
QUICK_SECONDS = 60
TEMPORARY = Path(gettempdir()).resolve()
SHARE_OF_TORTURE = 0.7
"""Of the time; the rest is for the end, the proofs, and machines that are busy."""


def main() -> int:
    """Run as the command line says; the exit code is 0 when everything was proven."""
    parser = argparse.ArgumentParser(prog="torture-processes", description=__doc__)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="of all choices")
    parser.add_argument(
        "--seconds", type=int, default=LONGEST_SECONDS, help="at most 300, the default"
    )
    parser.add_argument("--quick", action="store_true", help="take a minute")
    options = parser.parse_args()
    seconds = QUICK_SECONDS if options.quick else options.seconds
    if not 1 <= seconds <= LONGEST_SECONDS:
        parser.error(f"--seconds is between 1 and {LONGEST_SECONDS}")
    print(f"torture-processes: seed {options.seed}, {seconds} s", flush=True)
    found, chronicle = anyio.run(_bounded, options.seed, seconds)
    print(f"{report.actions(chronicle)}\n\n{report.verdicts(found)}")
    is_proven = not any(each.findings for each in found)
    print("torture-processes: all proven" if is_proven else "torture-processes: FAILED")
    return 0 if is_proven else 1


async def _bounded(seed: int, seconds: int) -> tuple[list[Verdict], Chronicle]:
    """Run within the time; a run that does not end is a failure of its own."""
    chronicle = Chronicle()
    token = f"torture-{secrets.token_hex(8)}"
    found: list[Verdict] = []
    with TemporaryDirectory(prefix=f"moorage-{token}-", dir=TEMPORARY) as folder:
        with anyio.move_on_after(seconds) as scope:
            found = await _tortured(Path(folder), seed, seconds, chronicle)
        # What a failed run leaves must not go on: whatever it was, the proofs have seen it.
        left = table.marked(Path(folder).name)
        table.end(left)
        if scope.cancelled_caught:
            text = f"it was not at its end after {seconds} s; {len(left)} processes were left"
            found.append(Verdict("in time", f"{seconds} s", [text, *chronicle.surprises]))
    return found, chronicle


async def _tortured(root: Path, seed: int, seconds: int, chronicle: Chronicle) -> list[Verdict]:
    home, workspace = root / "home", root / "workspace"
    workspace.mkdir()
    deliveries, evidence = Deliveries(), list[ending.Evidence]()
    token = root.name
    with strangers(root, workspace) as known:
        async with anyio.create_task_group() as progress:
            progress.start_soon(report.show_progress, chronicle, seconds)
            async with sessions(home, workspace) as places:
                torture = Torture(seed, token, chronicle, deliveries, known)
                await torture.run(places, seconds * SHARE_OF_TORTURE)
                for place in places:
                    evidence.append(await ending.wind_down(place, token, chronicle, deliveries))
            progress.cancel_scope.cancel()
        return await _proven(token, chronicle, deliveries, evidence, known)


async def _proven(
    token: str,
    chronicle: Chronicle,
    deliveries: Deliveries,
    evidence: Sequence[ending.Evidence],
    known: Sequence[Stranger],
) -> list[Verdict]:
    left = await ending.left_behind(token, {each.first_seen.pid for each in known})
    records = [record for each in evidence for record in each.listed.values()]
    bytes_logged = sum(record.total_bytes for record in records)
    owed = sum(map(proofs.is_owed, records))

    def look() -> list[Verdict]:
        lost = [line for each in evidence for line in ending.lost_bytes(each, chronicle)]
        differing = [line for each in evidence for line in ending.inconsistent(each)]
        return [
            Verdict("no orphan", ending.described(chronicle.subjects), proofs.orphans(left)),
            Verdict("no lost byte of a finished log", f"{bytes_logged:,} bytes", lost),
            Verdict(
                "no completion twice or lost",
                f"{owed} owed, {len(deliveries.told)} told",
                proofs.misdelivered(records, deliveries),
            ),
            Verdict("no signal to a stranger", f"{len(known)} strangers", proofs.signalled(known)),
            Verdict("records as the worker told", f"{len(records)} records", differing),
            Verdict(
                "nothing unexplained", f"{_kills(evidence)} killed workers", chronicle.surprises
            ),
        ]

    return await anyio.to_thread.run_sync(look)


def _kills(evidence: Sequence[ending.Evidence]) -> int:
    places: list[Place] = [each.place for each in evidence]
    return sum(place.crashes for place in places)


if __name__ == "__main__":
    sys.exit(main())
