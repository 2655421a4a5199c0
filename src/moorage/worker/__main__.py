"""The worker's entry point: serves one host on standard streams, or many on a private socket.

Its first act, before an event loop is imported, is to fork the nursery that later starts every
command; so this module imports nothing heavy at the top, and what only passes bytes to a worker
that runs imports nothing more.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from moorage.errors import ExecutionError

_STDERR = 2
_HELP_COLUMNS = 98
"""Told its width, ``argparse`` does not load what finds it out."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the worker's command line."""
    described = argparse.ArgumentParser(
        prog="moorage-worker",
        description="Serve workspace tools to one host over standard input and output.",
        epilog="The host starts this program; see `moorage run --help` for the way in for people. "
        "`moorage-worker connect --help` tells how a host reaches one that stays.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=_HELP_COLUMNS),
    )
    described.add_argument("--version", action="store_true", help="print the version and end")
    described.add_argument(
        "--state", metavar="DIR", help="where the worker keeps logs and exports (default: in $HOME)"
    )
    described.add_argument(
        "--mode",
        default="standard",
        choices=("read_only", "standard", "unconfined"),
        help="the widest permission mode that a request may ask for",
    )
    described.add_argument(
        "--writable",
        metavar="DIR",
        action="append",
        default=[],
        help="one more folder that tools and commands may write; may be repeated",
    )
    described.add_argument(
        "--hide",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder that confined commands cannot read; may be repeated",
    )
    described.add_argument(
        "--confine-with",
        metavar="JSON",
        default="",
        help="a provider that fully confines what it starts, in place of the kernel's own means",
    )
    described.add_argument(
        "--token-fd", metavar="N", type=int, help="descriptor to read the connection's token from"
    )
    described.add_argument(
        "--stay",
        metavar="DIR",
        default="",
        help="outlive the host, listening on a socket in this folder; without --token-fd the first "
        "host's token counts",
    )
    described.add_argument(
        "--idle-seconds",
        metavar="N",
        type=float,
        default=600.0,
        help="with --stay: end after so long without a host and without a running process",
    )
    described.add_argument(
        "--ready-fd", metavar="N", type=int, help="with --stay: descriptor to tell that it listens"
    )
    return described


def main(arguments: list[str] | None = None) -> int:
    """Run the worker until its host closes the connection; return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["connect"]:
        from moorage.worker.staying.connecting import main as connect  # noqa: PLC0415

        return connect(words[1:], main)
    if words == ["--version"]:
        from importlib.metadata import version  # noqa: PLC0415 - it is slow

        sys.stdout.write(f"moorage-worker {version('moorage')}\n")
        return 0
    return _work(words)


def _work(words: list[str]) -> int:
    """Be the worker."""
    from moorage.confine.nursery import start_nursery  # noqa: PLC0415
    from moorage.process import login  # noqa: PLC0415
    from moorage.process.leftovers import remove_tree  # noqa: PLC0415
    from moorage.worker.options import options_of  # noqa: PLC0415

    described = parser()
    parsed = described.parse_args(words)
    if parsed.stay and parsed.ready_fd is None:
        described.error("--stay needs --ready-fd.")
    token = _token(parsed.token_fd)
    frames_in, frames_out = _leave_host(parsed.ready_fd) if parsed.stay else _private_streams()
    try:
        options = options_of(parsed)
        nursery = start_nursery(remove_tree)
    except ExecutionError as error:
        sys.stderr.write(f"moorage-worker: {error}\n")
        return 1
    capture = login.begin(
        nursery,
        dict(os.environ),
        options.state / "login",
        plan=options.login_plan(),
        provider=options.confinement,
    )
    # An event loop's threads and descriptors must not exist in the nursery.
    from moorage.worker.serving import (  # noqa: PLC0415
        Stay,
        Streams,
        serve_socket,
        serve_streams,
    )

    if parsed.stay:
        stay = Stay(Path(parsed.stay), token, parsed.ready_fd, parsed.idle_seconds)
        return serve_socket(options, nursery, capture, stay)
    return serve_streams(options, nursery, capture, Streams(frames_in, frames_out, token))


def _token(descriptor: int | None) -> str:
    """Return the token that the host wrote to a descriptor, or nothing."""
    if descriptor is None:
        return ""
    with os.fdopen(descriptor) as file:
        return file.read().strip()


def _leave_host(ready_fd: int) -> tuple[int, int]:
    """Go on as a process of its own session that no terminal and no host's end reaches."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    # No command may keep it open: its end tells the host that the start has failed.
    os.set_inheritable(ready_fd, False)
    return -1, -1


def _private_streams() -> tuple[int, int]:
    """Move the frames away from the standard streams, so that no stray print can mix with them."""
    frames_in, frames_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(_STDERR, 1)
    return frames_in, frames_out


if __name__ == "__main__":
    sys.exit(main())
