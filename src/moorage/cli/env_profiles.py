"""``moorage env add`` and ``remove``: profiles in the user's configuration file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click

from moorage.app.home import Home, find_home
from moorage.app.profiles import add_profile, remove_profile
from moorage.app.sessions import list_sessions
from moorage.backends.catalogue import backend_names
from moorage.cli import exit_codes
from moorage.cli.parameters import Folder, WholeNumber
from moorage.cli.render import count, print_json, print_note
from moorage.cli.session_options import complete_environments
from moorage.errors import ConfigError

R = TypeVar("R")

EPILOG = """\b
Examples:
  moorage env add box --backend docker --image debian:12 --network none
  moorage env add gpu --backend ssh --host gpu.example.org --workspace /home/me/agents
  moorage env add lab --backend singularity --image ~/lab.sif --persistent
  moorage env add mine --backend command --command 'python3 /opt/mine/adapter.py' --default
"""

FLAGS: Mapping[str, tuple[str, Any, str]] = MappingProxyType(
    {
        "backend": ("NAME", str, f"Kind of environment: {', '.join(backend_names())}."),
        "image": ("IMAGE", str, "Image of a container."),
        "host": ("HOST", str, "Machine, or an alias of your ssh configuration."),
        "port": ("PORT", WholeNumber(0, 65535), "Port of its SSH server."),
        "identity_file": ("FILE", str, "Private key for ssh."),
        "known_hosts_file": ("FILE", str, "File with the keys of known machines."),
        "workspace": ("PATH", str, "Workspace inside the environment."),
        "host_workspace": ("DIR", Folder(), "Folder of this machine to mount as the workspace."),
        "mount_read_only": ("", bool, "Mount it so that nothing can be written in it."),
        "user": ("USER", str, "User, or uid:gid, inside a container."),
        "worker": ("PROGRAM", str, "Worker that is installed there already."),
        "shared": ("", bool, "All sessions share one environment, which is kept."),
        "persistent": ("", bool, "Keep each session's environment when the session is closed."),
        "network": ("MODE", click.Choice(["enabled", "none"]), "enabled or none."),
        "cpus": ("NUMBER", float, "How many processors it may use."),
        "memory_mb": ("MB", WholeNumber(0), "How much memory it may use."),
        "lifetime_seconds": ("SECONDS", WholeNumber(0), "Idle time after which its worker ends."),
        "shutdown_timeout_ms": ("MS", WholeNumber(0), "Time for an end in good order."),
        "forward_env": ("NAME", str, "Variable of yours that commands get; repeatable."),
        "python": ("PROGRAM", str, "Python that cloud backends are driven with."),
        "command": ("WORDS", str, "Command line of an adapter; split as a shell would."),
    }
)
"""Of every field of a profile: what its value is called, its type, and what it means."""

_FILES = ("identity_file", "known_hosts_file", "host_workspace")


def _field_options(command: Callable[..., R]) -> Callable[..., R]:
    for field, (metavar, kind, meaning) in reversed(list(FLAGS.items())):
        flag = f"--{field.replace('_', '-')}"
        if kind is bool:
            option = click.option(flag, field, is_flag=True, help=meaning)
        else:
            option = click.option(
                flag,
                field,
                metavar=metavar,
                type=kind,
                multiple=field == "forward_env",
                required=field == "backend",
                help=meaning,
            )
        command = option(command)
    return command


@click.command("add", epilog=EPILOG)
@click.argument("name")
@_field_options
@click.option("--default", "is_default", is_flag=True, help="Use it when none is named.")
@click.option("--replace", "replaces", is_flag=True, help="Replace the profile of this name.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def add(name: str, *, is_default: bool, replaces: bool, as_json: bool, **options: Any) -> int:
    """Configure an environment called NAME; nothing is started.

    Sessions that are saved keep the profile that they were opened with.
    """
    fields = _fields(options)
    file = add_profile(find_home(), name, fields, is_default=is_default, replaces=replaces)
    if as_json:
        told = {"name": name, "file": str(file), "is_default": is_default, "profile": fields}
        print_json(told)
    else:
        print_note(f"{name} stands in {file}. See whether it works: moorage env check {name}")
    return exit_codes.OK


@click.command("remove")
@click.argument("name", shell_complete=complete_environments)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def remove(name: str, *, as_json: bool) -> int:
    """Take the environment called NAME out of the configuration.

    Sessions that are saved keep the profile that they were opened with.
    """
    home = find_home()
    file = remove_profile(home, name)
    sessions = _sessions_in(home, name)
    if as_json:
        print_json({"removed": name, "file": str(file), "sessions": sessions})
        return exit_codes.OK
    print_note(f"{name} is no longer in {file}.")
    if sessions:
        has = "keeps" if len(sessions) == 1 else "keep"
        print_note(
            f"{count(len(sessions), 'session')} of it {has} the saved profile and can still be "
            "opened; moorage session rm removes one with its environment."
        )
    return exit_codes.OK


def _sessions_in(home: Home, name: str) -> list[str]:
    return [each.id for each in list_sessions(home) if each.environment == name]


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given, as they stand in a file."""
    fields = {name: value for name, value in options.items() if value not in (None, False, ())}
    if "forward_env" in fields:
        fields["forward_env"] = list(fields["forward_env"])
    if "command" in fields:
        fields["command"] = _words(fields["command"])
    for name in _FILES:
        if fields.get(name):
            fields[name] = str(Path(fields[name]).absolute())
    # A file is the same one wherever a session is opened; other images are names.
    if fields["backend"] == "singularity" and Path(fields.get("image", "")).is_file():
        fields["image"] = str(Path(fields["image"]).absolute())
    return fields


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} cannot be split: {error}.", path="command") from error
