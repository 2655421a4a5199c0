"""A confinement provider of the user's own: a program that confines what it is asked to start.

Pure. The user's configuration names it, for kernels without Landlock; Moorage never chooses one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from moorage.errors import ConfigError
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from moorage.confine.plan import Plan

FULL = "full"
"""The only enforcement that is accepted: the provider stands in for the kernel's own rules."""

PATH = "{path}"


class ConfinementProvider(NamedTuple):
    """How to start a program through the provider.

    The argument vector is ``argv``, then for each path of the plan the arguments that tell the
    provider about it (``{path}`` in them is replaced), then ``end``, then the program. The page on
    configuration shows it for bubblewrap, and a test runs what it shows.
    """

    argv: tuple[str, ...]
    enforcement: str
    hidden: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    end: tuple[str, ...] = ()

    def wrap(self, plan: Plan, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the argument vector that starts ``argv`` confined to the plan."""
        roots = plan.writable_roots
        may_write = plan.mode is PermissionMode.STANDARD
        # Hidden paths come first: what is granted may lie inside them.
        return (
            *self.argv,
            *_each(self.hidden, plan.hidden_paths),
            *_each(
                self.readable, plan.readable_paths if may_write else (*roots, *plan.readable_paths)
            ),
            *_each(
                self.writable, (*roots, *plan.private_paths) if may_write else plan.private_paths
            ),
            *self.end,
            *argv,
        )


def check_provider(provider: ConfinementProvider, *, path: str = "") -> ConfinementProvider:
    """Return the provider when it can stand in for the kernel; ``path`` names it in messages.

    Raises:
        ConfigError: it is not absolute, does not declare full enforcement, or could not be told
            what to hide and what to leave writable.
    """
    if not provider.argv or not provider.argv[0].startswith("/"):
        raise ConfigError(
            "a confinement provider starts with the absolute path of its program.",
            path=path,
            hint='Write for example "/usr/bin/bwrap".',
        )
    if provider.enforcement != FULL:
        raise ConfigError(
            f'enforcement is {provider.enforcement!r}; only "full" may stand in for the kernel.',
            path=path,
            hint='Set it to "full" if the provider enforces every rule that it is given.',
        )
    for name in ("hidden", "writable"):
        if not any(PATH in argument for argument in getattr(provider, name)):
            raise ConfigError(
                f"{name!r} must hold arguments with {PATH}, or the provider would not know "
                f"which paths are {name}.",
                path=path,
            )
    return provider


def _each(arguments: Sequence[str], paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(argument.replace(PATH, path) for path in paths for argument in arguments)
