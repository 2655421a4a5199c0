"""Which calls of git are allowed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.errors import InvalidArguments
from moorage.workspace.git.call import GitCall, not_allowed
from moorage.workspace.git.reading import READ_COMMANDS, plan_reading
from moorage.workspace.git.writing import plan_add, plan_commit, plan_restore

WRITE_COMMANDS = frozenset({"add", "commit", "restore"})


def plan_call(subcommand: str, arguments: Sequence[str]) -> GitCall:
    """Return the call that a tool's arguments ask for.

    Raises:
        Refused: this call of git is not allowed (reason ``git_not_allowed``).
        InvalidArguments: the arguments are incomplete.
    """
    if any("\0" in argument for argument in arguments):
        raise InvalidArguments("git: an argument contains a NUL character.")
    match subcommand:
        case "add":
            return plan_add(arguments)
        case "restore":
            return plan_restore(arguments)
        case "commit":
            return plan_commit(arguments)
        case _ if subcommand in READ_COMMANDS:
            return plan_reading(subcommand, arguments)
        case _:
            known = ", ".join(sorted(READ_COMMANDS | WRITE_COMMANDS))
            raise not_allowed(f"git {subcommand}", f"The git tool knows: {known}.")
