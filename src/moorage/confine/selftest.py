"""The self-tests of ``doctor``: real attacks by real confined commands, judged from outside."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

import msgspec

from moorage.confine.attacks import ATTACKS, BREACH, PRELUDE, Attack
from moorage.confine.hardening import KEPT_MASK
from moorage.confine.nursery import Nursery, start_nursery
from moorage.confine.nursery.messages import Kind, Message, encode_texts
from moorage.confine.own_interpreter import own_interpreter
from moorage.confine.plan import Plan
from moorage.confine.report import GAPS
from moorage.errors import ConfinementUnavailable, EnvironmentDied, ProvisionError
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from types import TracebackType

    from moorage.confine.nursery import Launch

ATTACK_SECONDS = 10.0
"""How long one attack may take; it takes about 30 ms."""

ALL_ATTACKS_SECONDS = 120.0

_FILE = b"as it was\n"
_SECRET_NAME = "configuration"  # noqa: S105 - the name of a file


class SelfTest(msgspec.Struct, frozen=True, kw_only=True):
    """One attack and whether the kernel refused it."""

    name: str
    is_enforced: bool
    detail: str = ""


def run_self_tests() -> list[SelfTest]:
    """Let confined commands attack this machine's own scratch folders and return what was refused.

    They run under a fresh interpreter, so that nothing of the caller is forked.

    Raises:
        ProvisionError: the attacks could not be tried.
    """
    answers, answers_end = os.pipe2(os.O_CLOEXEC)
    # -P: a file of the current folder must not be imported in place of a library's module.
    argv = [*own_interpreter(), "-P", "-m", "moorage.confine.selftest"]
    try:
        actions = [(os.POSIX_SPAWN_DUP2, answers_end, 1)]
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    finally:
        os.close(answers_end)
    try:
        text = _read_within(answers, ALL_ATTACKS_SECONDS)
    finally:
        os.close(answers)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    try:
        return msgspec.json.decode(text, type=list[SelfTest])
    except msgspec.DecodeError as error:
        raise ProvisionError("The confinement's self-tests ended without an answer.") from error


def run_here(nursery: Nursery, *, found_abi: int | None = None) -> list[SelfTest]:
    """Run every attack under launchers of this nursery."""
    try:
        with Scene() as scene, Attackers(nursery, scene, found_abi) as attackers:
            return [judge(attack, scene, attackers) for attack in ATTACKS]
    except ConfinementUnavailable as error:
        return [
            SelfTest(name="run a command unconfined instead", is_enforced=True, detail=str(error))
        ]


def judge(attack: Attack, scene: Scene, attackers: Attackers) -> SelfTest:
    """Let one attack run, look at what it reached, and clean up after it."""
    scene.set_up()
    output, complaint = attackers.run(attack)
    breach = scene.what_was_reached(output, attack.mode)
    if not breach:
        return SelfTest(name=attack.name, is_enforced=True, detail=complaint)
    reason = f" {GAPS[attack.gap]}" if attack.gap else ""
    return SelfTest(name=attack.name, is_enforced=False, detail=f"{breach}.{reason}")


class Scene:
    """A scratch folder with an inside, an outside and a home, and a victim to attack."""

    def __enter__(self) -> Self:
        """Make the folders, the sockets and the victim."""
        with ExitStack() as stack:
            self.folder = os.path.realpath(tempfile.mkdtemp(prefix="moorage-selftest-"))
            stack.callback(shutil.rmtree, self.folder)
            self.inside = f"{self.folder}/inside"
            self.outside = f"{self.folder}/outside"
            self.hidden = f"{self.folder}/home"
            self.private = f"{self.hidden}/private"
            for path in (self.inside, self.outside, self.hidden, self.private):
                os.mkdir(path)
            self.secret = os.urandom(16).hex()
            self.abstract = f"moorage-selftest-{os.urandom(8).hex()}"
            # A socket's address holds 107 bytes, and a temporary folder may lie deeper than that.
            folder = os.open(self.outside, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            self.listeners = [
                stack.enter_context(_listener(address))
                for address in (f"\0{self.abstract}", f"/proc/self/fd/{folder}/socket")
            ]
            keyboard, slave = os.openpty()
            stack.callback(os.close, keyboard)
            stack.callback(os.close, slave)
            self.terminal = os.ttyname(slave)
            self._heard, self._heard_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            stack.callback(os.close, self._heard)
            stack.callback(os.close, self._heard_end)
            self.victim = self._start_victim()
            stack.callback(self._end_victim)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove all of it."""
        self._stack.close()

    def _start_victim(self) -> int:
        """Start a process with a terminal and a secret; it repeats what is typed into it."""
        cat = shutil.which("cat") or "/bin/cat"
        return os.posix_spawn(
            cat,
            ["cat"],
            {"SECRET": self.secret},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, self.terminal, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, self._heard_end, 1),
                (os.POSIX_SPAWN_DUP2, self._heard_end, 2),
            ],
            setsid=True,
        )

    def _end_victim(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.victim, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.victim, 0)

    def set_up(self) -> None:
        """Put everything back to where an attack finds it."""
        for folder in (self.inside, self.outside):
            for name in os.listdir(folder):
                path = f"{folder}/{name}"
                if name == "socket":
                    continue
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
            _write(f"{folder}/file", _FILE)
            os.chmod(f"{folder}/file", 0o600)
        _write(f"{self.hidden}/{_SECRET_NAME}", self.secret.encode())
        self._before = (_look(self.outside), _look(self.inside))

    def what_was_reached(self, output: str, mode: PermissionMode) -> str:
        """Return in a few words what the attack reached; empty when it was nothing."""
        outside, inside = self._before
        is_dead = os.waitpid(self.victim, os.WNOHANG)[0] != 0
        arrivals = [_accept(listener) for listener in self.listeners]
        findings = {
            "the secret was read": self.secret in output,
            "it reports success": BREACH in output,
            "something outside has changed": _look(self.outside) != outside,
            "the workspace has changed": mode is PermissionMode.READ_ONLY
            and _look(self.inside) != inside,
            "the victim is dead": is_dead,
            "the victim heard it": bool(_read_waiting(self._heard)),
            "a connection arrived": any(arrivals),
        }
        reached = [finding for finding, is_true in findings.items() if is_true]
        if reached:
            # It may have been hit without showing it yet.
            self._end_victim()
            self.victim = self._start_victim()
        return ", ".join(reached)


class Attackers:
    """The launchers that attacks are started by, one per permission mode."""

    def __init__(self, nursery: Nursery, scene: Scene, found_abi: int | None) -> None:
        """Launch nothing yet."""
        self._nursery = nursery
        self._scene = scene
        self._found_abi = found_abi
        self._launches: dict[PermissionMode, Launch] = {}
        self._calls = 0

    def __enter__(self) -> Self:
        """Launch on demand."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the launchers and all they started: they end when their channel does."""
        for launch in self._launches.values():
            launch.channel.close()
            _read_within(launch.tombstone, ATTACK_SECONDS)
            os.close(launch.tombstone)

    def run(self, attack: Attack) -> tuple[str, str]:
        """Let the attack run to its end; return its output and its last complaint."""
        launch = self._launches.get(attack.mode) or self._launch(attack.mode)
        self._calls += 1
        output, output_end = os.pipe2(os.O_CLOEXEC)
        errors, errors_end = os.pipe2(os.O_CLOEXEC)
        with ExitStack() as stack:
            stack.callback(os.close, output)
            stack.callback(os.close, errors)
            texts = (encode_texts(self._argv(attack)), (), (self._scene.inside.encode(),))
            launch.channel.try_send(
                Message(Kind.SPAWN, self._calls, (0, 0), texts), (output_end, errors_end)
            )
            os.close(output_end)
            os.close(errors_end)
            said = _read_within(output, ATTACK_SECONDS).decode("utf-8", "replace")
            complaints = _read_within(errors, ATTACK_SECONDS).decode("utf-8", "replace")
        _await(launch, Kind.EXITED)
        return said, (complaints.strip().splitlines() or [""])[-1]

    def _launch(self, mode: PermissionMode) -> Launch:
        scene = self._scene
        plan = Plan(
            mode=mode,
            writable_roots=(scene.inside,),
            hidden_paths=(scene.hidden,),
            private_paths=(scene.private,),
        )
        launch = self._launches[mode] = self._nursery.launch(plan, found_abi=self._found_abi)
        _await(launch, Kind.READY)
        return launch

    def _argv(self, attack: Attack) -> tuple[str, ...]:
        scene = self._scene
        code = PRELUDE + attack.code.replace("{kept}", str(KEPT_MASK))
        places = (scene.inside, scene.outside, scene.hidden, scene.terminal, scene.abstract)
        return (
            *own_interpreter(),
            *("-I", "-S", "-c", code),
            *places,
            str(scene.victim),
            _SECRET_NAME,
        )


def _await(launch: Launch, kind: Kind) -> Message:
    """Return the next message of this kind.

    Raises:
        ConfinementUnavailable: the launcher could not confine itself.
        EnvironmentDied: the launcher is gone, or does not answer.
    """
    while select.select([launch.channel], [], [], ATTACK_SECONDS)[0]:
        received = launch.channel.receive()
        if received is None:
            break
        message, _ = received
        if message.kind is kind:
            return message
        if message.kind is Kind.UNAVAILABLE:
            text, hint = (part.decode() for part in message.texts[0])
            raise ConfinementUnavailable(text, hint=hint)
    raise EnvironmentDied("The launcher of the self-tests ended or did not answer.")


def _listener(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.setblocking(False)
    listener.bind(address)
    listener.listen()
    return listener


def _accept(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _look(folder: str) -> dict[str, tuple[int, int, int, bytes]]:
    """Return each entry of a folder with its mode, owner, inode and content."""
    found = {}
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        status = os.lstat(path)
        content = _read(path) if os.path.isfile(path) else b""
        found[name] = (status.st_mode, status.st_uid, status.st_ino, content)
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _read_waiting(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return b""


def _read_within(descriptor: int, seconds: float) -> bytes:
    """Read to the end, or until nothing came for a while."""
    chunks = []
    while select.select([descriptor], [], [], seconds)[0]:
        chunk = os.read(descriptor, 65536)
        if not chunk:
            break
        chunks.append(chunk)
    return b"".join(chunks)


if __name__ == "__main__":
    _nursery = start_nursery()
    sys.stdout.buffer.write(msgspec.json.encode(run_here(_nursery)))
    _nursery.close()
