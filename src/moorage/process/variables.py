"""The variables that a command starts with: the user's own, made safe for a non-interactive shell.

Pure: takes variables and folders, returns variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode

NON_INTERACTIVE = {
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "DEBIAN_FRONTEND": "noninteractive",
    "NO_COLOR": "1",
    "TERM": "dumb",
}
"""What keeps an editor, a pager or a prompt from waiting for somebody."""

TERMINAL = {
    "TERM": "xterm-256color",
    "COLORTERM": "truecolor",
    "CLICOLOR": "1",
    "FORCE_COLOR": "1",
}
"""What a command in a terminal gets back; ``NO_COLOR`` goes."""

_CACHES = {
    "XDG_CACHE_HOME": "",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "CCACHE_DIR": "ccache",
    "COMPOSER_CACHE_DIR": "composer",
    "DENO_DIR": "deno",
    "GOCACHE": "go-build",
    "GOMODCACHE": "go-mod",
    "NUGET_PACKAGES": "nuget",
    "PIP_CACHE_DIR": "pip",
    "PRE_COMMIT_HOME": "pre-commit",
    "UV_CACHE_DIR": "uv",
    "YARN_CACHE_FOLDER": "yarn",
    "npm_config_cache": "npm",
}
"""Tool caches that would otherwise lie in the user's home, where nothing may be written."""

_SOCKETS = frozenset(
    {
        "CONTAINER_HOST",
        "DISPLAY",
        "DOCKER_HOST",
        "GPG_AGENT_INFO",
        "KITTY_LISTEN_ON",
        "NOTIFY_SOCKET",
        "NVIM",
        "NVIM_LISTEN_ADDRESS",
        "SSH_AGENT_PID",
        "SSH_AUTH_SOCK",
        "STY",
        "SUDO_ASKPASS",
        "TMUX",
        "TMUX_PANE",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
    }
)
_SOCKET_FAMILIES = (
    "DBUS_",
    "LISTEN_",
    "PULSE_",
    "VSCODE_GIT_",
    "VSCODE_IPC_",
    "WAYLAND_",
    "ZELLIJ",
)
"""Names of path sockets: the kernel cannot keep a command from them, so it is not told of them."""

_SHELL_STATE = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})


def prepared(
    variables: Mapping[str, str], *, mode: PermissionMode, temporary: str, cache: str
) -> dict[str, str]:
    """Return what every command of a plan starts with.

    ``temporary`` becomes ``TMPDIR``. In restricted modes the names of path sockets go, and tool
    caches lie in ``cache``.
    """
    kept = {name: value for name, value in variables.items() if _is_kept(name, mode)}
    kept |= NON_INTERACTIVE | {"TMPDIR": temporary}
    if mode.is_restricted:
        kept |= {name: f"{cache}/{folder}".rstrip("/") for name, folder in _CACHES.items()}
    return kept


def with_terminal(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a command that runs in a terminal."""
    return {name: value for name, value in variables.items() if name != "NO_COLOR"} | TERMINAL


def merged_login(base: Mapping[str, str], login: Mapping[str, str]) -> dict[str, str]:
    """Return the login's variables, keeping what the user put on the path of this very worker.

    A login resets ``PATH`` on many systems; the entries it does not know stay in front, so that an
    activated environment stays active.
    """
    known = login.get("PATH", "").split(":")
    own = [entry for entry in base.get("PATH", "").split(":") if entry and entry not in known]
    path = ":".join([*own, *filter(None, known)])
    return {**login, "PATH": path} if path else dict(login)


def _is_kept(name: str, mode: PermissionMode) -> bool:
    if name.upper() == "GOROOT" or name in _SHELL_STATE or name.startswith("MOORAGE_"):
        return False
    return not (mode.is_restricted and (name in _SOCKETS or name.startswith(_SOCKET_FAMILIES)))


BaseVariables = Callable[[Plan], Mapping[str, str]]


class _Base(NamedTuple):
    plain: Mapping[str, str]
    in_terminal: Mapping[str, str]


class Bases:
    """Base variables by plan; each mapping stays the same object until it is replaced."""

    def __init__(self, ask: BaseVariables | None) -> None:
        """Ask for the variables of a plan once, when they are first needed."""
        self._ask = ask
        self._known: dict[Plan, _Base] = {}

    def put(self, plan: Plan, variables: Mapping[str, str]) -> None:
        """Replace the variables of a plan."""
        self._known[plan] = _Base(variables, with_terminal(variables))

    def of(self, plan: Plan) -> Mapping[str, str]:
        """Return the variables of a program in pipes."""
        return self._find(plan).plain

    def of_terminal(self, plan: Plan) -> Mapping[str, str]:
        """Return the variables of a program in a terminal."""
        return self._find(plan).in_terminal

    def _find(self, plan: Plan) -> _Base:
        if plan not in self._known:
            self.put(plan, self._ask(plan) if self._ask is not None else {})
        return self._known[plan]
