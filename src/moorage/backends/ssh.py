"""The SSH backend: a worker on another machine, reached by the user's own ``ssh``.

The machine's key must be known beforehand and nothing is ever asked: what needs a password or an
answer fails, and says what to do.
"""

from __future__ import annotations

import shlex
import subprocess
from importlib.metadata import version

import anyio
import msgspec

from moorage.backends.attaching import connect_words
from moorage.backends.backend import Backend, Placement
from moorage.backends.bundle import WorkerBundle, bundle_argv, find_bundle
from moorage.backends.engine import last_line
from moorage.backends.grace import grace_seconds
from moorage.backends.profile import Profile
from moorage.backends.steps import step
from moorage.backends.transport_variables import transport_variables
from moorage.confine.private_folders import make_private
from moorage.errors import BackendUnavailable, ProtocolMismatch, ProvisionError, ShutdownIncomplete
from moorage.transports.stdio import ChildTransport
from moorage.transports.transport import Transport

NO_WORKER = 93
"""Exit code of our own remote command: there is no worker, neither installed nor delivered."""

OTHER_VERSION = 94
"""Exit code of ``moorage-worker connect``: it is not the version that was expected."""

_SSH_FAILED = 255
_CAUSES = {
    "host key verification failed": "Connect once with ssh, check the key, and accept it there.",
    "permission denied (": "Set up a key that needs no password, or name it as identity_file.",
    "could not resolve hostname": "See whether the name is right; ssh's own aliases may be used.",
    "connection refused": "See whether its SSH server runs, and on which port.",
    "timed out": "See whether the machine is up and can be reached.",
}


class SshLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long the steps may take."""

    connect_seconds: int = 15
    deliver_seconds: float = 120.0
    end_seconds: float = 40.0


class SshBackend:
    """Reaches one worker per session on another machine."""

    name = "ssh"

    def __init__(self, limits: SshLimits | None = None) -> None:
        """Know of no earlier connection."""
        self._limits = limits or SshLimits()
        self._former: dict[tuple[str, str], ChildTransport] = {}

    def keeps_worker(self, placement: Placement) -> bool:
        """Return that it does: it outlives the connection for its idle time."""
        del placement
        return True

    def root(self, placement: Placement) -> str:
        """Return the folder of the environment, below the workspace of the profile."""
        return f"{placement.profile.workspace.rstrip('/')}/{placement.identity}"

    async def open_transport(self, placement: Placement) -> Transport:
        """Connect; what the connection before this one has failed of is mended or said first."""
        make_private(placement.host_state)
        key = (placement.identity, placement.session)
        former = self._former.pop(key, None)
        if former is not None:
            await self._learn_from(former, placement)
        words = connect_words(placement, *self._more_words(placement))
        transport = await ChildTransport.start(
            self._argv(placement.profile, _remote_command(placement.profile.worker, words)),
            variables=transport_variables(),
            grace_seconds=grace_seconds(placement.profile),
        )
        self._former[key] = transport
        return transport

    async def end_worker(self, placement: Placement) -> None:
        """End the session's worker there, if there is one."""
        words = connect_words(placement, "--end")
        answer = await self.ask(
            placement.profile,
            _remote_command(placement.profile.worker, words),
            seconds=self._limits.end_seconds,
        )
        if answer.returncode not in {0, NO_WORKER}:
            raise ShutdownIncomplete(
                f"the worker on {placement.profile.host} did not end: {_complaint(answer.stderr)}"
            )

    async def release(self, placement: Placement) -> None:
        """Do nothing: the worker goes when it is idle, and takes with it what is not retained."""

    def _more_words(self, placement: Placement) -> tuple[str, ...]:
        expected = f"--expect={version('moorage')}"
        # The one time that a retained workspace may be made; later its absence is a loss.
        is_first = placement.profile.persistent and not placement.provisioned.exists()
        return (expected, f"--make={self.root(placement)}") if is_first else (expected,)

    async def _learn_from(self, former: ChildTransport, placement: Placement) -> None:
        """Do what the failed connection before this one calls for.

        Raises:
            BackendUnavailable: the machine cannot be reached, or did not let us in.
            ProtocolMismatch: the worker there is of another version.
        """
        host = placement.profile.host
        match former.exit_code:
            case code if code == NO_WORKER:
                with step("delivery", f"delivering the worker to {host}, once"):
                    await self._deliver(placement.profile)
            case code if code == OTHER_VERSION:
                raise ProtocolMismatch(
                    f"on {host}: {last_line(former.complaint)}",
                    hint="Install this version there, or take the worker away: then it is "
                    "delivered.",
                )
            case code if code == _SSH_FAILED:
                raise unreachable(host, former.complaint)

    async def _deliver(self, profile: Profile) -> None:
        """Put the portable worker into the account, once."""
        bundle = find_bundle()
        data = bundle.read_verified()
        answer = await self.ask(
            profile, _unpacking(bundle), seconds=self._limits.deliver_seconds, data=data
        )
        if answer.returncode == _SSH_FAILED:
            raise unreachable(profile.host, answer.stderr.decode("utf-8", "replace"))
        if answer.returncode != 0:
            raise ProvisionError(
                f"the worker could not be delivered to {profile.host}: {_complaint(answer.stderr)}",
                hint="It needs tar, gzip and room in the home of the account.",
            )

    async def ask(
        self, profile: Profile, command: str, *, seconds: float, data: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one command line there, and return how it ended, whatever that is.

        Raises:
            BackendUnavailable: it did not end in time, or there is no ssh.
        """
        try:
            with anyio.fail_after(seconds):
                return await anyio.run_process(
                    self._argv(profile, command),
                    input=data if data is not None else b"",
                    check=False,
                    env=transport_variables(),
                )
        except TimeoutError as error:
            raise BackendUnavailable(
                f"{profile.host} did not answer within {seconds:g} s."
            ) from error
        except OSError as error:
            raise BackendUnavailable(
                f"ssh cannot be started: {error.strerror}.", hint="Install an OpenSSH client."
            ) from error

    def _argv(self, profile: Profile, command: str) -> tuple[str, ...]:
        options = ["-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
        options += ["-o", f"ConnectTimeout={self._limits.connect_seconds}"]
        options += ["-p", str(profile.port)] if profile.port else []
        if profile.known_hosts_file:
            options += ["-o", f"UserKnownHostsFile={profile.known_hosts_file}"]
        options += ["-i", profile.identity_file] if profile.identity_file else []
        return ("ssh", *options, "--", profile.host, command)


def _folder(bundle: WorkerBundle) -> str:
    return f"$HOME/.local/share/moorage-worker/{bundle.sha256[:24]}"


def _remote_command(worker: str, words: tuple[str, ...]) -> str:
    """Return the command line that reaches the worker there, whatever the login shell is."""
    said = shlex.join(words)
    tries = [
        f"command -v {shlex.quote(worker)} >/dev/null 2>&1 && exec {shlex.quote(worker)} {said}"
    ]
    try:
        bundle = find_bundle()
    except ProvisionError:
        pass  # Said when it is needed.
    else:
        argv = bundle_argv("/FOLDER")
        start = " ".join(_in_folder(word, bundle) for word in argv)
        tries.append(f"[ -x {_in_folder(argv[0], bundle)} ] && exec {start} {said}")
    script = "; ".join([*tries, f"exit {NO_WORKER}"])
    return f"exec /bin/sh -c {shlex.quote(script)}"


def _in_folder(word: str, bundle: WorkerBundle) -> str:
    """Return a word of the command line, quoted, with the folder of the account's home in it."""
    if "/FOLDER" not in word:
        return shlex.quote(word)
    before, _, after = word.partition("/FOLDER")
    return f'{shlex.quote(before) if before else ""}"{_folder(bundle)}"{shlex.quote(after)}'


def _unpacking(bundle: WorkerBundle) -> str:
    """Return the command line that unpacks the bundle from its input, all or nothing."""
    folder = _folder(bundle)
    script = (
        f'umask 077; d="{folder}"; t="$d.$$"; mkdir -p "$t" || exit 1; '
        'gzip -dc | tar -xf - -C "$t" || { rm -rf "$t"; exit 1; }; '
        'mv "$t" "$d" 2>/dev/null || rm -rf "$t"; [ -d "$d" ]'
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


def _complaint(stderr: bytes) -> str:
    return last_line(stderr.decode("utf-8", "replace"))


def unreachable(host: str, complaint: str) -> BackendUnavailable:
    """Return the error that says why a machine cannot be reached, and what helps."""
    lowered = complaint.lower()
    hints = [hint for words, hint in _CAUSES.items() if words in lowered]
    return BackendUnavailable(
        f"{host} cannot be reached by ssh: {last_line(complaint)}", hint=hints[0] if hints else ""
    )


BACKEND: Backend = SshBackend()
