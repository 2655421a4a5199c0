"""What a model has to know of a command beside its output, one line each. Pure."""

from __future__ import annotations

import signal

from moorage.policy.permission import PermissionMode
from moorage.process.foreground import ForegroundResult
from moorage.tools.denials import guidance
from moorage.tools.envelope import Facts
from moorage.tools.views import duration


def notes_on(result: ForegroundResult, facts: Facts, *, is_incomplete: bool) -> list[str]:
    """Return the lines that the model needs beside the output, in their fixed order."""
    notes: list[str] = []
    if facts.command.resolved:
        notes.append(f"Ran: {facts.command.resolved}")
    if is_incomplete and result.outcome != "promoted":
        notes.append(_log_note(result))
    notes += _end_notes(result)
    if facts.sandbox is not None and facts.sandbox["denied"]:
        notes.append(guidance(PermissionMode(facts.sandbox["mode"])))
    if is_incomplete and facts.verification and facts.verification["passed"] is False:
        # Imported already, by who made the summary.
        from moorage.tools.failure_summary import in_words  # noqa: PLC0415

        notes.append(in_words(facts.verification["failure_summary"]))
    return notes


def _log_note(result: ForegroundResult) -> str:
    if result.saved_log is None:
        return f"Full log unavailable: {result.log.error or 'it was not kept'}"
    missing = result.saved_log.omitted_bytes
    lack = f", without {missing} bytes beyond the largest log" if missing else ""
    return f"Full log: {result.saved_log.path} ({result.saved_log.size} bytes{lack})"


def _end_notes(result: ForegroundResult) -> list[str]:
    match result.outcome:
        case "timed_out":
            return _timeout_notes(result)
        case "promoted":
            return [
                f"Handed over to the background after {duration(result.duration_ms)}: it goes on "
                f"as {result.promoted_process_id} and has not ended. Its whole output: "
                f"action=read, process_id={result.promoted_process_id}, offset_bytes=0."
            ]
        case "environment_died":
            return [
                "The environment died while the command ran; everything it had started was ended, "
                "and what it did until then is done."
            ]
        case "signalled":
            return [f"Exit code {result.exit_code} ({_signal_name(result.signal)})"]
        case "exited" if result.exit_code == 0:
            return []
        case "exited":
            return [f"Exit code {result.exit_code}"]
        case _:
            return ["How the command ended is not known; it may have finished."]


def _timeout_notes(result: ForegroundResult) -> list[str]:
    what = "the command and everything it started were ended"
    if result.left_running:
        what = f"the command was ended, but {result.left_running} processes do not end"
    notes = [f"Timed out after {duration(result.duration_ms)}; {what}."]
    if result.hand_over_error:
        notes.append(f"It could not go on in the background: {result.hand_over_error}")
    return notes


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"
