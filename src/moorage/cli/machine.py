"""What this machine can do for Moorage: its kernel, commands, engines and libraries."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from typing import Literal

import anyio
import msgspec

from moorage.cli.remedies import find_manager, install_command
from moorage.confine import landlock
from moorage.confine.code_places import linked_packages
from moorage.confine.plan import MINIMUM_ABI

State = Literal["ok", "limited", "missing"]


LEAST_LANDLOCK_KERNEL = (6, 2)


class ProbeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a look at the machine may take.

    ``answer_seconds`` is for one program that says what it is, ``main_path_seconds`` for a session
    that runs one command.
    """

    answer_seconds: float = 5.0
    main_path_seconds: float = 60.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the machine has or lacks, and the one command that mends it.

    ``is_required`` says that the main path, a confined local workspace, needs it.
    """

    name: str
    state: State
    detail: str
    fix: str = ""
    is_required: bool = False


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A command to look for, how it tells its version, and what Moorage uses it for."""

    name: str
    commands: tuple[str, ...]
    version: tuple[str, ...]
    purpose: str


PROGRAMS = (
    Program(
        name="ripgrep",
        commands=("rg",),
        version=("--version",),
        purpose="grep and glob use a slower walker of their own",
    ),
    Program(name="git", commands=("git",), version=("--version",), purpose="no git tool"),
    Program(name="ssh", commands=("ssh",), version=("-V",), purpose="no ssh environments"),
    Program(
        name="apptainer",
        commands=("apptainer", "singularity"),
        version=("--version",),
        purpose="no singularity environments",
    ),
    Program(
        name="node", commands=("node",), version=("--version",), purpose="no JavaScript projects"
    ),
    Program(
        name="bubblewrap",
        commands=("bwrap",),
        version=("--version",),
        purpose="no stand-in where the kernel lacks Landlock",
    ),
)

ENGINES = ("docker", "podman")


class Machine:
    """Looks at one machine; every look is bounded and changes nothing."""

    def __init__(
        self,
        *,
        which: Callable[[str], str | None] = shutil.which,
        landlock_abi: Callable[[], int] = landlock.abi,
        kernel: str = "",
        limits: ProbeLimits | None = None,
    ) -> None:
        """Keep how to look, so that a test can describe another machine."""
        self._which = which
        self._landlock_abi = landlock_abi
        self._kernel = kernel or platform.release()
        self._limits = limits or ProbeLimits()
        self._manager = find_manager(lambda name: which(name) is not None)

    async def look(self) -> list[Finding]:
        """Return everything there is to say about this machine, the required things first."""
        looks: list[Callable[[], Awaitable[Finding]]] = [
            self.confinement,
            *(partial(self.program, program) for program in PROGRAMS),
            *(partial(self.engine, engine) for engine in ENGINES),
            self.namespaces,
            self.quickjs,
            self.own_files,
        ]
        findings: dict[int, Finding] = {}

        async def keep(index: int, look: Callable[[], Awaitable[Finding]]) -> None:
            findings[index] = await look()

        async with anyio.create_task_group() as group:
            for index, look in enumerate(looks):
                group.start_soon(keep, index, look)
        return [findings[index] for index in range(len(looks))]

    async def confinement(self) -> Finding:
        """Return whether the kernel can confine commands."""
        abi = self._landlock_abi()
        kernel = f"kernel {self._kernel}"
        if abi >= MINIMUM_ABI:
            return Finding(
                name="Landlock", state="ok", detail=f"ABI {abi}, {kernel}", is_required=True
            )
        if kernel_version(self._kernel) >= LEAST_LANDLOCK_KERNEL:
            detail = f"{kernel} has it, but it is switched off at boot"
            fix = "add landlock to the lsm= list of the kernel command line, then reboot"
        else:
            detail = f"ABI {abi}, {kernel}; ABI 3 (kernel 6.2) is needed"
            fix = self._install("kernel")
        return Finding(name="Landlock", state="missing", detail=detail, fix=fix, is_required=True)

    async def program(self, program: Program) -> Finding:
        """Return whether a program is there, and its version."""
        found = next((path for name in program.commands if (path := self._which(name))), None)
        if found is None:
            return Finding(
                name=program.name,
                state="missing",
                detail=f"without it: {program.purpose}",
                fix=self._install(program.name),
            )
        answer = await self._ask(found, *program.version)
        return Finding(name=program.name, state="ok", detail=answer.text or found)

    async def engine(self, name: str) -> Finding:
        """Return whether a container engine is there and answers."""
        found = self._which(name)
        if found is None:
            return Finding(
                name=name,
                state="missing",
                detail="without it: no docker environments" if name == "docker" else "optional",
                fix=self._install(name),
            )
        path = "{{.Server.Version}}" if name == "docker" else "{{.Version.Version}}"
        verb = "version" if name == "docker" else "info"
        answer = await self._ask(found, verb, "--format", path)
        if answer.is_fine:
            return Finding(name=name, state="ok", detail=f"engine {answer.text}")
        return Finding(
            name=name,
            state="limited",
            detail="the command is there, but its engine does not answer",
            fix=_as_root("systemctl start docker") if name == "docker" else "podman info",
        )

    async def namespaces(self) -> Finding:
        """Return whether this user may make user and network namespaces."""
        unshare = self._which("unshare")
        if unshare and (await self._ask(unshare, "-U", "-r", "-n", "true")).is_fine:
            return Finding(name="namespaces", state="ok", detail="user and network namespaces")
        return Finding(
            name="namespaces",
            state="missing",
            detail="this user cannot make user namespaces (rootless containers need them)",
            fix=_as_root(
                "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000"
            ),
        )

    async def quickjs(self) -> Finding:
        """Return whether the JavaScript engine of programs is installed."""
        if find_spec("quickjs") is not None:
            return Finding(name="quickjs", state="ok", detail="quickjs-ng is installed")
        return Finding(
            name="quickjs",
            state="missing",
            detail="a base dependency of Moorage is not installed",
            fix="pip install quickjs-ng",
        )

    async def own_files(self) -> Finding:
        """Return whether Moorage's files are its own, or hard links that others may write."""
        linked = linked_packages()
        if not linked:
            return Finding(name="own files", state="ok", detail="shared with no other installation")
        return Finding(
            name="own files",
            state="limited",
            detail=f"{', '.join(linked)} came as hard links to an installer's cache; a command "
            "that may write in another environment made from it can change them",
            fix="install Moorage anew with `--link-mode copy` (uv), or with pipx",
        )

    def _install(self, tool: str) -> str:
        return install_command(tool, self._manager, is_root=os.geteuid() == 0)

    async def _ask(self, *argv: str) -> Answer:
        """Run a program to its end, within a bound, and return the first line it says."""
        try:
            with anyio.fail_after(self._limits.answer_seconds):
                done = await anyio.run_process(argv, check=False)
        except (OSError, TimeoutError):
            return Answer(is_fine=False)
        said = (done.stdout or done.stderr).decode(errors="replace").strip()
        return Answer(is_fine=done.returncode == 0, text=said.partition("\n")[0])


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a program said when it was asked."""

    is_fine: bool
    text: str = ""


def kernel_version(release: str) -> tuple[int, int]:
    """Return the two numbers at the head of a kernel release, zeros where there are none."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _as_root(command: str) -> str:
    return command if os.geteuid() == 0 else f"sudo {command}"
