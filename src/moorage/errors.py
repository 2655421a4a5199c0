"""Every error Moorage raises, in one tree.

The families answer the caller's question: whose problem is it, and did it happen? Every class has a
stable ``code``; the tables that map codes to wire text, exit codes and tool errors live with
``protocol.failures``, ``cli.exit_codes`` and ``mcp_server``.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ExecutionError(Exception):
    """The root of the tree.

    ``hint`` says what a person can do about it; it is part of ``str(error)``.
    """

    code: ClassVar[str] = "execution_error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep the sentence that says what happened and the one that says what to do."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return what happened, then what to do."""
        return f"{self.message} {self.hint}".strip()


class ConfigError(ExecutionError):
    """The user's configuration or an argument of the user says something impossible.

    ``path`` names the field, such as ``execution_environments.profiles.isolated.cpus``.
    """

    code = "config_error"

    def __init__(self, message: str, *, path: str = "", hint: str = "") -> None:
        """Keep the path of the offending field beside the sentence."""
        super().__init__(f"{path}: {message}" if path else message, hint=hint)
        self.path = path


class NotFound(ConfigError):
    """No environment, profile or session has the name that was given; nothing happened."""

    code = "not_found"


class ProvisionError(ExecutionError):
    """No environment could be had; nothing ran."""

    code = "provision_error"


class RetainedStateMissing(ProvisionError):
    """An environment that was kept is gone; nothing was recreated in its place."""

    code = "retained_state_missing"


class BackendUnavailable(ProvisionError):
    """The command, service or package that a backend needs is missing."""

    code = "backend_unavailable"


class ProtocolMismatch(ExecutionError):
    """Versions or capabilities of the two sides differ; nothing ran."""

    code = "protocol_mismatch"


class ProtocolViolation(ExecutionError):
    """One side broke the protocol."""

    code = "protocol_violation"


class LocalProtocolViolation(ProtocolViolation):
    """Our own side asked for something that the protocol does not allow; nothing was sent."""

    code = "local_protocol_violation"


class RemoteProtocolViolation(ProtocolViolation):
    """The other side sent something that the protocol does not allow."""

    code = "remote_protocol_violation"


class ConnectionLost(ExecutionError):
    """The worker went away while nothing was in flight."""

    code = "connection_lost"


class OutcomeUnknown(ExecutionError):
    """The worker went away mid-call; the effect may or may not have happened.

    It is never retried by itself. ``result`` is what was known so far, if anything was.
    """

    code = "outcome_unknown"

    def __init__(self, message: str, *, result: Any = None, hint: str = "") -> None:
        """Keep the result so far."""
        super().__init__(message, hint=hint)
        self.result = result


class EnvironmentDied(ExecutionError):
    """The place where the command ran ended before the command did.

    ``result`` is what was known so far, if anything was.
    """

    code = "environment_died"

    def __init__(self, message: str, *, result: Any = None, hint: str = "") -> None:
        """Keep the result so far."""
        super().__init__(message, hint=hint)
        self.result = result


class ShutdownIncomplete(ExecutionError):
    """The grace ran out before everything had ended; state may remain."""

    code = "shutdown_incomplete"


class Refused(ExecutionError):
    """Policy, permission mode or a boundary said no; nothing happened.

    ``reason`` is a stable word such as ``boundary_denied``, ``read_only``, ``protected_path``.
    """

    code = "refused"

    def __init__(self, message: str, *, reason: str = "policy", hint: str = "") -> None:
        """Keep the reason code."""
        super().__init__(message, hint=hint)
        self.reason = reason


class ConfinementUnavailable(ExecutionError):
    """The kernel cannot enforce what the permission mode demands; nothing ran."""

    code = "confinement_unavailable"


class InvalidArguments(ExecutionError):
    """A tool or method was called with arguments that it does not take; nothing happened."""

    code = "invalid_arguments"


class UnknownTool(ExecutionError):
    """No workspace tool has this name; nothing happened."""

    code = "unknown_tool"


class RequestCancelled(ExecutionError):
    """The request was cancelled and its handler has ended."""

    code = "cancelled"


class WorkerFailure(ExecutionError):
    """The worker answered with a failure that has no class of its own."""

    code = "worker_failure"


class ToolFailed(ExecutionError):
    """A tool ran and reports that it could not do what was asked.

    ``result`` is the tool's whole result; its ``structured_content`` names the ``error_kind``.
    """

    code = "tool_failed"

    def __init__(self, message: str, *, result: Any = None, hint: str = "") -> None:
        """Keep the tool's result."""
        super().__init__(message, hint=hint)
        self.result = result
