"""An SSH server of the tests' own: a loopback port, throw-away keys and throw-away accounts.

It runs with mounts of its own, in which /etc names its accounts: nothing of the machine is changed,
and whatever runs among those mounts was started by it and is ended with it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.leftovers import end_process, end_processes, is_in_mounts_of, unmount_below
from tests.live.lending import State, lent
from tests.live.ssh_accounts import BARE, BARE_HOME, FILES, ORDINARY, make_accounts

START_SECONDS = 20
TRIES = 3
HOST = "127.0.0.1"
LISTENS = b"Server listening on"

_CONFIGURATION = f"""
ListenAddress {HOST}:{{port}}
HostKey {{place}}/host
AuthorizedKeysFile {{place}}/authorized
AllowUsers root {ORDINARY} {BARE}
PidFile none
StrictModes yes
UsePAM no
UseDNS no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 200
MaxSessions 200
LogLevel VERBOSE
Match User {BARE}
  ChrootDirectory {{place}}/bare
"""
_START = f"""
set -e
cd "$1"
echo $$ >pid
for name in {" ".join(FILES)}; do mount --bind $name /etc/$name; done
mount --rbind /dev bare/dev
mount --bind /proc bare/proc
exec "$2" -D -e -f "$1/configuration"
"""


@dataclass(frozen=True)
class SshServer:
    """A server that runs, and what a client needs to get in as one of its accounts."""

    host: str
    port: int
    identity_file: Path
    known_hosts_file: Path
    account: str
    home: Path
    root_home: Path | None = None
    """The home of root; a server that the user has named lets nobody in but its account."""

    def profile(self, account: str = "", **more: Any) -> dict[str, Any]:
        """Return the fields of a profile for an account; the ordinary one, unless told."""
        name = account or self.account
        homes = {"root": self.root_home, BARE: BARE_HOME}
        return {
            "backend": "ssh",
            "host": f"{name}@{self.host}" if name else self.host,
            "port": self.port,
            "identity_file": str(self.identity_file),
            "known_hosts_file": str(self.known_hosts_file),
            "workspace": str((homes.get(name) or self.home) / "work"),
        } | more

    def argv(self, *command: str, account: str = "") -> list[str]:
        """Return what runs a command there, and trusts no host key that it was not told."""
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": self.known_hosts_file,
            "GlobalKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
        }
        given = [f"-o{name}={value}" for name, value in options.items()]
        way = ["-F/dev/null", f"-p{self.port}", f"-i{self.identity_file}", *given]
        return ["ssh", *way, self.profile(account)["host"], "--", *command]


@contextmanager
def ssh_server(run: str) -> Iterator[SshServer]:
    """Lend the server of this test run."""
    with lent("ssh", run, _start, _end) as state:
        place, folder = Path(state["place"]), Path(state["folder"])
        yield SshServer(
            host=HOST,
            port=state["port"],
            identity_file=place / "client",
            known_hosts_file=place / "known_hosts",
            account=ORDINARY,
            home=folder / "home",
            root_home=folder / "root",
        )


def server_of_profile(text: str) -> SshServer:
    """Return the server that the user has told to test with, by a profile in JSON."""
    told: Mapping[str, Any] = json.loads(text)
    account, _, host = told["host"].rpartition("@")
    return SshServer(
        host=host,
        port=told.get("port") or 22,
        identity_file=Path(told.get("identity_file") or Path.home() / ".ssh" / "id_ed25519"),
        known_hosts_file=Path(told.get("known_hosts_file") or Path.home() / ".ssh" / "known_hosts"),
        account=account,
        home=Path(told.get("workspace") or "/tmp/moorage-live"),  # noqa: S108 - on the other machine
    )


def _start(folder: Path) -> State:
    # The server trusts keys and worlds only where nobody but root can write; /tmp is none of that.
    place = Path(tempfile.mkdtemp(prefix="moorage-live-ssh-", dir="/run"))
    (folder / "place").write_text(str(place))
    place.chmod(0o711)
    for name in ("host", "client"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
        subprocess.run(words, check=True, timeout=START_SECONDS, stdin=subprocess.DEVNULL)
    shutil.copy(place / "client.pub", place / "authorized")
    make_accounts(folder, place)
    port = _listening(folder, place)
    public = (place / "host.pub").read_text().split()[:2]
    (place / "known_hosts").write_text(f"[{HOST}]:{port} {' '.join(public)}\n")
    return {"folder": str(folder), "place": str(place), "port": port}


def _end(folder: Path, _state: State) -> None:
    """End the server and everything that its accounts have left running."""
    if not (folder / "place").exists():
        return
    place = Path((folder / "place").read_text())
    try:
        if pid := _pid(place):
            end_process(pid)
        if (folder / "mounts").exists():
            end_processes(is_in_mounts_of((folder / "mounts").read_text()))
    finally:
        unmount_below(place)
        shutil.rmtree(place, ignore_errors=True)


def _listening(folder: Path, place: Path) -> int:
    """Start the server and return the port at which it listens."""
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    log = folder / "log"
    for _ in range(TRIES):
        # The server cannot choose one; between this and its start another may take it.
        with socket.create_server((HOST, 0)) as free:
            port = int(free.getsockname()[1])
        (place / "configuration").write_text(_CONFIGURATION.format(port=port, place=place))
        _start_apart(place, log)
        if _does_listen(place, log):
            namespace = os.readlink(f"/proc/{_pid(place)}/ns/mnt")
            (folder / "mounts").write_text(namespace)
            return port
    raise RuntimeError(f"sshd did not start: {log.read_text(errors='replace')[-2000:]}")


def _start_apart(place: Path, log: Path) -> None:
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "sshd"
    (place / "pid").unlink(missing_ok=True)
    # No child of ours: the one who ends it may be another process of the run.
    apart = ["setsid", "--fork", "unshare", "--mount", "--propagation=slave"]
    with log.open("wb") as written:
        subprocess.run(
            [*apart, "sh", "-c", _START, "sh", str(place), sshd],
            stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            check=True, timeout=START_SECONDS,
        )  # fmt: skip


def _does_listen(place: Path, log: Path) -> bool:
    """Return whether the server has come to listen, as soon as it has or has ended."""
    for _ in range(START_SECONDS * 20):
        pid = _pid(place)
        is_alive = not pid or Path(f"/proc/{pid}/cmdline").exists()
        if LISTENS in log.read_bytes():
            return True
        if not is_alive:
            return False
        select.select((), (), (), 0.05)
    return False


def _pid(place: Path) -> int:
    file = place / "pid"
    return int(file.read_text() or 0) if file.exists() else 0
