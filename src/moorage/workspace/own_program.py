"""The start of a program of our own: Python, with a module of ours, as a command that is confined.

For work that may never end, or that a file made by anybody may turn against us.
"""

from __future__ import annotations

import os
import sys

import moorage
from moorage.confine.own_interpreter import is_bundled, own_interpreter
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode

# Nothing of the user's Python setup counts, only where the worker itself finds its modules.
_START = "import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); from {} import main; main()"
_LOADER_VARIABLES = ("LD_LIBRARY_PATH",)


def own_argv(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the argument vector that calls ``main`` of a module of ours with the arguments."""
    home = os.path.dirname(os.path.dirname(moorage.__file__))
    folders = "\n".join([home, *filter(os.path.isabs, sys.path)])
    # -I and -S leave the user's variables and site folders out; names are always in UTF-8.
    flags = ("-I", "-S", "-X", "utf8")
    return (*own_interpreter(), *flags, "-c", _START.format(module), folders, *arguments)


def reading_plan(plan: Plan) -> Plan:
    """Return the plan of a program that needs no file of the session: it writes nothing.

    It is confined in every mode, and may not read what the session may not.
    """
    return Plan(mode=PermissionMode.READ_ONLY, hidden_paths=plan.hidden_paths)


def loader_variables() -> dict[str, str]:
    """Return the variables without which our Python may not start; no others are needed."""
    if is_bundled():
        return {}
    return {name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ}
