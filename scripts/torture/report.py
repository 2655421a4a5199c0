"""What a person sees: a quiet line while it runs, then the actions, and each proof's verdict."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

import anyio

from torture.subjects import Chronicle

MOST_FINDINGS = 10
_WIDTH = 34
_TICK_SECONDS = 1.0
_TICKS_WITHOUT_TERMINAL = 20
"""Where nobody watches, a line now and then tells that it goes on."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One proof, what was looked at for it, and what speaks against it."""

    claim: str
    looked_at: str
    findings: Sequence[str]


async def show_progress(chronicle: Chronicle, seconds: float) -> None:
    """Tell how far it is, on one line, until cancelled."""
    is_terminal = sys.stderr.isatty()
    begun = anyio.current_time()
    ticks = 0
    try:
        while True:
            passed = anyio.current_time() - begun
            if is_terminal or ticks % _TICKS_WITHOUT_TERMINAL == 0:
                text = (
                    f"{passed:4.0f} of {seconds:.0f} s: {chronicle.counts.total()} actions, "
                    f"{len(chronicle.subjects)} processes, {len(chronicle.surprises)} surprises"
                )
                print(
                    f"\r\033[K{text}" if is_terminal else text,
                    end="" if is_terminal else "\n",
                    file=sys.stderr,
                    flush=True,
                )
            ticks += 1
            await anyio.sleep(_TICK_SECONDS)
    finally:
        if is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def actions(chronicle: Chronicle) -> str:
    """Return the table of actions."""
    counted = sorted((name, number) for name, number in chronicle.counts.items() if number)
    return "\n".join(["actions", *(f"  {name:<{_WIDTH}} {number:>6}" for name, number in counted)])


def verdicts(found: Sequence[Verdict]) -> str:
    """Return the table of proofs, with the evidence where one failed."""
    lines = ["proofs"]
    for each in found:
        state = f"FAILED, {len(each.findings)} findings" if each.findings else "proven"
        lines.append(f"  {each.claim:<{_WIDTH}} {state:<22} {each.looked_at}")
        lines += [f"    - {finding}" for finding in each.findings[:MOST_FINDINGS]]
        if len(each.findings) > MOST_FINDINGS:
            lines.append(f"    - and {len(each.findings) - MOST_FINDINGS} more")
    return "\n".join(lines)
