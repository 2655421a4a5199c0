"""The worker's entry point: serves one host on standard streams.

Its first act, before an event loop is imported, is to fork the nursery that later starts every
command; so this module imports nothing heavy at the top.
"""

from __future__ import annotations

import argparse
import os
import sys

from moorage.confine.nursery import start_nursery
from moorage.errors import ExecutionError
from moorage.process import login
from moorage.process.leftovers import remove_tree
from moorage.worker.options import options_of

_STDERR = 2


def parser() -> argparse.ArgumentParser:
    """Return the parser of the worker's command line."""
    described = argparse.ArgumentParser(
        prog="moorage-worker",
        description="Serve workspace tools to one host over standard input and output.",
        epilog="The host starts this program; see `moorage run --help` for the way in for people.",
    )
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
    return described


def main(arguments: list[str] | None = None) -> int:
    """Run the worker until its host closes the connection; return the exit code."""
    parsed = parser().parse_args(arguments)
    token = _token(parsed.token_fd)
    frames_in, frames_out = _private_streams()
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
    from moorage.worker.serving import Streams, serve_streams  # noqa: PLC0415

    return serve_streams(options, nursery, capture, Streams(frames_in, frames_out, token))


def _token(descriptor: int | None) -> str:
    """Return the token that the host wrote to a descriptor, or nothing."""
    if descriptor is None:
        return ""
    with os.fdopen(descriptor) as file:
        return file.read().strip()


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
