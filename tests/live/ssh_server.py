"""An SSH server of the tests' own: a loopback port, throw-away keys and a throw-away account."""

from __future__ import annotations

import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS = 20


class SshServer:
    """A server that runs, and what a client needs to get in as the account."""

    def __init__(self, folder: Path, account: str, port: int) -> None:
        self.folder = folder
        self.account = account
        self.port = port
        self.identity_file = folder / "client"
        self.known_hosts_file = folder / "known_hosts"
        self.home = folder / "home"

    def profile(self, **more) -> dict[str, object]:
        """Return the fields of a profile for the account."""
        return {
            "backend": "ssh",
            "host": f"{self.account}@127.0.0.1",
            "port": self.port,
            "identity_file": str(self.identity_file),
            "known_hosts_file": str(self.known_hosts_file),
            "workspace": str(self.home / "work"),
        } | more


@contextmanager
def ssh_server() -> Iterator[SshServer]:
    """Start a server, lend it, and remove all that was made for it."""
    name = f"moorage-{secrets.token_hex(4)}"
    # Not below a folder that others can write: the server would not trust keys there.
    folder = Path("/run") / name
    folder.mkdir(mode=0o755)
    try:
        with _account(name, folder / "home"), socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            server = SshServer(folder, name, reserved.getsockname()[1])
            _make_keys(server)
            reserved.close()
            with _running(server):
                yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _account(name: str, home: Path) -> Iterator[None]:
    home.mkdir(mode=0o700)
    # No password, yet no locked account either: the server lets none of those in.
    words = ["useradd", "--no-create-home", f"--home-dir={home}", "--shell=/bin/bash"]
    words += ["--password=*", name]
    subprocess.run(words, check=True, timeout=20)
    try:
        shutil.chown(home, name, name)
        yield
    finally:
        _end_processes_of(home.stat().st_uid)
        subprocess.run(["userdel", "--force", name], check=False, timeout=20, capture_output=True)


def _end_processes_of(uid: int) -> None:
    """End what the account still runs, such as a worker that waits for its idle time."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                os.kill(int(entry.name), signal.SIGKILL)


def _make_keys(server: SshServer) -> None:
    for name in ("host", "client"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(server.folder / name)]
        subprocess.run(words, check=True, timeout=20)
    public = (server.folder / "host.pub").read_text().split()[:2]
    entry = f"[127.0.0.1]:{server.port} {' '.join(public)}\n"
    server.known_hosts_file.write_text(entry)
    shutil.copy(server.folder / "client.pub", server.folder / "authorized")
    (server.folder / "sshd_config").write_text(
        f"Port {server.port}\n"
        "ListenAddress 127.0.0.1\n"
        f"HostKey {server.folder / 'host'}\n"
        f"AuthorizedKeysFile {server.folder / 'authorized'}\n"
        f"PidFile {server.folder / 'pid'}\n"
        "PasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\n"
        "UsePAM no\n"
        "MaxStartups 100\n"
        f"AllowUsers {server.account}\n"
    )


@contextmanager
def _running(server: SshServer) -> Iterator[None]:
    Path("/run/sshd").mkdir(exist_ok=True)
    with (server.folder / "log").open("wb") as log:
        program = subprocess.Popen(
            [shutil.which("sshd"), "-D", "-e", "-f", str(server.folder / "sshd_config")],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _await_port(server.port)
        yield
    finally:
        program.terminate()
        program.wait(timeout=START_SECONDS)


def _await_port(port: int) -> None:
    for _ in range(START_SECONDS * 10):
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        select.select((), (), (), 0.1)
    raise RuntimeError("sshd does not listen")
