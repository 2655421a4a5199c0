"""What the first initialization fixes for good, and the checks that need no machine.

Creating directories and resolving links is the provider's work; comparing bindings is the state
machine's.
"""

from __future__ import annotations

import msgspec

from moorage.errors import InvalidArguments, ProtocolMismatch

PROTOCOL_VERSION = 4

PROCESS_START = "process.start.v1"
"""Start replies and later listings carry the host's ``operation_id``."""

BYTES = "moorage.bytes.v1"
"""Files and standard input of any size travel in pieces."""

MAX_COMPONENT_BYTES = 255
"""What file systems allow for one path component."""

MAX_ROOT_BYTES = 4096
"""What the kernel allows for one path."""


class Binding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The complete, immutable description of what one worker serves."""

    version: int
    root: str
    session: str
    identity: str = ""
    environment: dict[str, str] = {}
    require_existing_workspace: bool = False
    remove_workspace_on_exit: bool = False

    def __repr__(self) -> str:
        """Show everything but the values of forwarded variables, which may be secrets."""
        return (
            f"Binding(version={self.version}, root={self.root!r}, session={self.session!r}, "
            f"identity={self.identity!r}, environment={sorted(self.environment)}, "
            f"require_existing_workspace={self.require_existing_workspace}, "
            f"remove_workspace_on_exit={self.remove_workspace_on_exit})"
        )


class InitializeReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The worker's answer to a binding: its version, the resolved root, what it can do beyond."""

    version: int
    root: str
    capabilities: tuple[str, ...] = ()


def check_version(version: int) -> None:
    """Return when the other side speaks this version.

    Raises:
        ProtocolMismatch: it speaks another one.
    """
    if version != PROTOCOL_VERSION:
        raise ProtocolMismatch(
            f"the other side speaks execution protocol {version}, this side {PROTOCOL_VERSION}.",
            hint="Install the same Moorage revision on both sides.",
        )


def check_binding(binding: Binding) -> None:
    """Return when the binding is well formed.

    Raises:
        ProtocolMismatch: the version differs.
        InvalidArguments: a field says something impossible; the text names it.
    """
    check_version(binding.version)
    _check_root(binding.root)
    _check_component("session", binding.session)
    if binding.identity:
        _check_component("identity", binding.identity)
    for name, value in binding.environment.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise InvalidArguments(
                f"environment: {name!r} cannot be an environment variable.",
                hint="Names are non-empty and hold no '='; neither names nor values hold NUL.",
            )


def _check_root(root: str) -> None:
    if not root.startswith("/") or "\0" in root or len(root.encode()) > MAX_ROOT_BYTES:
        raise InvalidArguments(
            f"root: {root[:80]!r} is not an absolute path.",
            hint="Give the absolute path of the workspace inside the environment.",
        )


def _check_component(field: str, value: str) -> None:
    is_one_component = value not in {"", ".", ".."} and "/" not in value and "\0" not in value
    if not is_one_component or len(value.encode()) > MAX_COMPONENT_BYTES:
        raise InvalidArguments(
            f"{field}: {value[:80]!r} is not a single path component.",
            hint=f"Use a name without '/' of at most {MAX_COMPONENT_BYTES} bytes.",
        )
