"""Exit codes: one table from error codes, and what a command's own outcome becomes.

``moorage run`` passes on the exit code of its command and keeps 124 to 127 for itself, as ``env``
and ``timeout`` do. Other commands use 0, 1 and 2 in the usual way and the same table for errors.
"""

from __future__ import annotations

from collections.abc import Mapping

from moorage.errors import ExecutionError

OK = 0
FAILED = 1
"""The command did its work and the answer is no: a check, a tool or a step failed."""

USAGE = 2
"""An unknown option, a missing argument, a value of the wrong type."""

TIMED_OUT = 124
OWN_FAILURE = 125
REFUSED = 126
NOT_FOUND = 127
SIGNALLED = 128
"""Added to the number of the signal that ended the command."""

INTERRUPTED = 130
BROKEN_PIPE = 141

EXIT_CODES: Mapping[str, int] = {
    "backend_unavailable": OWN_FAILURE,
    "cancelled": INTERRUPTED,
    "config_error": OWN_FAILURE,
    "confinement_unavailable": REFUSED,
    "connection_lost": OWN_FAILURE,
    "environment_died": OWN_FAILURE,
    "execution_error": OWN_FAILURE,
    "invalid_arguments": USAGE,
    "local_protocol_violation": OWN_FAILURE,
    "not_found": NOT_FOUND,
    "outcome_unknown": OWN_FAILURE,
    "protocol_mismatch": OWN_FAILURE,
    "protocol_violation": OWN_FAILURE,
    "provision_error": OWN_FAILURE,
    "refused": REFUSED,
    "remote_protocol_violation": OWN_FAILURE,
    "retained_state_missing": OWN_FAILURE,
    "shutdown_incomplete": OWN_FAILURE,
    "step_failed": FAILED,
    "tool_failed": FAILED,
    "unknown_tool": NOT_FOUND,
    "usage_error": USAGE,
    "worker_failure": OWN_FAILURE,
}


def exit_code_of(error: ExecutionError) -> int:
    """Return the exit code of an error; a code that the table does not know is our own failure."""
    return EXIT_CODES.get(error.code, OWN_FAILURE)


def exit_code_of_outcome(outcome: str, exit_code: int | None) -> int:
    """Return the exit code that tells how a command ended.

    ``exit_code`` is the command's own, already 128 plus the signal when a signal ended it.
    """
    match outcome:
        case "exited" | "signalled" if exit_code is not None and exit_code >= 0:
            return exit_code
        case "timed_out":
            return TIMED_OUT
        case "cancelled":
            return INTERRUPTED
        case _:
            return OWN_FAILURE


def without_clash(exit_code: int) -> int:
    """Return a code of ours that cannot be taken for one of an ordinary command.

    ``moorage run`` uses it: a command may well end with 1 or 2 itself.
    """
    return OWN_FAILURE if exit_code in {FAILED, USAGE} else exit_code
