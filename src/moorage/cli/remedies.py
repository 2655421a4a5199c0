"""The one command that installs what a machine lacks, by package manager (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

MANAGERS: Mapping[str, str] = {
    "apt-get": "apt-get install -y",
    "dnf": "dnf install -y",
    "zypper": "zypper install -y",
    "pacman": "pacman -S --noconfirm",
    "apk": "apk add",
    "brew": "brew install",
}
"""Commands that install packages, in the order in which they are looked for."""

PACKAGES: Mapping[str, Mapping[str, str]] = {
    "ripgrep": {},
    "git": {},
    "bubblewrap": {},
    "podman": {},
    "docker": {"apt-get": "docker.io", "dnf": "moby-engine"},
    "ssh": {
        "apt-get": "openssh-client",
        "dnf": "openssh-clients",
        "zypper": "openssh-clients",
        "pacman": "openssh",
        "apk": "openssh-client",
        "brew": "openssh",
    },
    "node": {
        "apt-get": "nodejs",
        "dnf": "nodejs",
        "zypper": "nodejs",
        "pacman": "nodejs",
        "apk": "nodejs",
    },
    "apptainer": {},
    "kernel": {
        "apt-get": "-t $(. /etc/os-release; echo $VERSION_CODENAME)-backports linux-image-amd64"
    },
}
"""What each manager calls a package, where that is not the plain name."""


def find_manager(is_there: Callable[[str], bool]) -> str:
    """Return the first package manager that the machine has, or nothing."""
    return next((name for name in MANAGERS if is_there(name)), "")


def install_command(tool: str, manager: str, *, is_root: bool) -> str:
    """Return the command that installs ``tool``, or advice where no package manager is known."""
    if not manager:
        return f"install {tool} with your system's package manager"
    package = PACKAGES.get(tool, {}).get(manager, tool)
    prefix = "" if is_root or manager == "brew" else "sudo "
    return f"{prefix}{MANAGERS[manager]} {package}"
