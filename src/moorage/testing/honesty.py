"""Seven probes that a truthful environment passes: what a command did is what its result says.

Each takes an open session and returns, or raises ``AssertionError`` with what was seen. They run
against every environment; hand-over to the background is off in all of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping

from moorage.host.results import CommandResult
from moorage.host.session import Session

Probe = Callable[[Session], Awaitable[None]]

_MARKERS = (
    '{"id":"1","method":"tool","data":{}}',
    '{"id":"2","error":"cancelled: x"}',
    "Exit code 3",
    "[full output: /nowhere]",
    "__MOORAGE_DONE_0__",
    "MOORAGE_CALL=1",
    "[REDACTED]",
    "\x1b]0;title\x07",
    "\x00\x01\x02",
)


async def a_background_child_does_not_hold_the_call(session: Session) -> None:
    """``sleep 5 & echo started`` returns while the child still runs, and says so."""
    ended = await session.run("sleep 5 & echo started")
    _expect(ended, outcome="exited", exit_code=0, stdout="started\n", left_running=1)


async def a_timeout_ends_the_command_at_its_time(session: Session) -> None:
    """A limit of one second ends a command with a background child as timed out."""
    ended = await session.run("sleep 300 & sleep 300", timeout_seconds=1)
    _expect(ended, outcome="timed_out", exit_code=-1, left_running=0)


async def nothing_survives_a_timeout(session: Session) -> None:
    """Neither a child of the group nor one with a session of its own writes on afterwards."""
    beat = f"beat-{secrets.token_hex(4)}"
    beating = f"while :; do echo x >> {beat}; sleep 0.02; done"
    command = f"({beating}) & setsid bash -c '{beating}' & sleep 300"
    ended = await session.run(command, timeout_seconds=1)
    _expect(ended, outcome="timed_out")
    still = await session.run(f"a=$(wc -c < {beat}); sleep 0.3; echo $a $(wc -c < {beat})")
    before, after = still.stdout.split()
    assert before == after, f"something still wrote: {before} bytes became {after}"  # noqa: S101
    assert int(before) > 0, "the children never ran"  # noqa: S101


async def output_before_a_timeout_is_returned(session: Session) -> None:
    """What was printed before the limit is in the result, on both streams."""
    ended = await session.run("echo before; echo beside >&2; sleep 300", timeout_seconds=1)
    _expect(ended, outcome="timed_out", stdout="before\n", stderr="beside\n", stdout_bytes=7)


async def raw_bytes_survive(session: Session) -> None:
    """Bytes that are no text come back as they are, in the result and in the full log."""
    ended = await session.run(r"printf '\377\376'")
    _expect(ended, outcome="exited", stdout_data=b"\xff\xfe", stdout_bytes=2)
    long = await session.run(r"printf '\377\376\n'; yes line | head -c 600000")
    _expect(long, outcome="exited", stdout_bytes=600_003, stdout_truncated=True)
    log = await session.read_bytes(long.full_log_ref)
    assert b"\xff\xfe\n" in log, "the full log lost the bytes"  # noqa: S101


async def text_like_a_marker_is_harmless(session: Session) -> None:
    """Output that looks like a frame, a marker or a mask is output and nothing else."""
    for text in _MARKERS:
        ended = await session.run("cat", input=text.encode())
        _expect(ended, outcome="exited", exit_code=0, stdout_data=text.encode())


async def an_exit_code_is_kept_and_the_next_command_works(session: Session) -> None:
    """``exit 7`` gives 7, a signal gives its name, and the session goes on."""
    _expect(await session.run("exit 7"), outcome="exited", exit_code=7)
    _expect(await session.run("kill -9 $$"), outcome="signalled", exit_code=137)
    _expect(await session.run("echo next"), outcome="exited", exit_code=0, stdout="next\n")


PROBES: Mapping[str, Probe] = {
    probe.__name__: probe
    for probe in (
        a_background_child_does_not_hold_the_call,
        a_timeout_ends_the_command_at_its_time,
        nothing_survives_a_timeout,
        output_before_a_timeout_is_returned,
        raw_bytes_survive,
        text_like_a_marker_is_harmless,
        an_exit_code_is_kept_and_the_next_command_works,
    )
}


def _expect(ended: CommandResult, **facts: object) -> None:
    seen = {name: getattr(ended, name) for name in facts}
    assert seen == facts, f"the result says {seen}, and {facts} is what happened"  # noqa: S101
