"""The owner of all children: starts them under their plan and ends what is left of them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVarTuple, Unpack

import anyio
import msgspec

from moorage.confine.nursery import FIRST_CALL
from moorage.confine.plan import TERMINALS, Plan, check
from moorage.errors import ProvisionError, ShutdownIncomplete
from moorage.policy.permission import PermissionMode
from moorage.process.child import Child, Drains, PipeReader, open_terminal
from moorage.process.launching import LauncherEnd, keep_no_more
from moorage.process.spec import SupervisorLimits
from moorage.process.variables import Bases, BaseVariables

if TYPE_CHECKING:
    from types import TracebackType

    from anyio.abc import TaskGroup

    from moorage.confine.nursery import EarlyChild, Nursery
    from moorage.confine.provider import ConfinementProvider
    from moorage.process.launching import Call
    from moorage.process.spec import ProgramSpec

Arguments = TypeVarTuple("Arguments")


class Supervisor:
    """Children and the launchers that start them; an async context manager.

    ``base_variables`` is asked once per plan; the variables of a program are added to them.
    """

    def __init__(
        self,
        nursery: Nursery,
        *,
        base_variables: BaseVariables | None = None,
        limits: SupervisorLimits | None = None,
        provider: ConfinementProvider | None = None,
        found_abi: int | None = None,
    ) -> None:
        """Start nothing yet; ``found_abi`` stands in for the kernel's Landlock ABI."""
        self._nursery = nursery
        self._limits = limits or SupervisorLimits()
        self._provider = provider
        self._found_abi = found_abi
        self._bases = Bases(base_variables)
        self._launchers: dict[Plan, LauncherEnd] = {}
        self._all_launchers: set[LauncherEnd] = set()
        self._launching = anyio.Lock(fast_acquire=True)
        self._drains = Drains(self._limits.drain_bytes)
        self._held: dict[Child, tuple[LauncherEnd, Call]] = {}
        self._scoped: set[Child] = set()
        self._tasks: TaskGroup | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        """Open the supervisor."""
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the supervisor."""
        assert self._tasks is not None  # noqa: S101 - it was entered
        try:
            await self.aclose()
        finally:
            # Without the body's own error, which goes on as it is instead of in a group.
            await self._tasks.__aexit__(None, None, None)

    # Before a start.

    @property
    def provider(self) -> ConfinementProvider | None:
        """Return the user's provider, where one confines commands in place of the kernel."""
        return self._provider

    def set_base_variables(self, plan: Plan, variables: Mapping[str, str]) -> None:
        """Replace the base variables that every later child of this plan starts with."""
        self._bases.put(plan, variables)

    def remove_at_end(self, folder: str) -> None:
        """Have a folder removed should this process be killed, once nothing that it held is left.

        Raises:
            ProvisionError: the nursery is gone.
        """
        self._nursery.remove_at_end(folder)

    async def prepare(self, plan: Plan) -> None:
        """Have a launcher for the plan ready, so that its first child does not wait for one.

        Raises:
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            EnvironmentDied: the launcher was lost at once.
            ProvisionError: the nursery is gone.
        """
        await self._launcher_for(plan)

    async def _launcher_for(self, plan: Plan) -> LauncherEnd:
        launcher = self._launchers.get(plan)
        if launcher is not None and launcher.is_usable():
            return launcher
        async with self._launching:
            launcher = self._launchers.get(plan)
            if launcher is not None and launcher.is_usable():
                return launcher
            if launcher is not None:
                self._retire(launcher)
            return await self._launch(plan)

    async def _launch(self, plan: Plan) -> LauncherEnd:
        check(plan)
        if self._is_closed:
            raise ProvisionError("This supervisor is closed; nothing ran.")
        kernel_plan = plan
        if self._provider is not None and plan.mode.is_restricted:
            # The provider confines each program; the launcher itself only starts it.
            kernel_plan = plan._replace(mode=PermissionMode.UNCONFINED)
        launch = self._nursery.launch(kernel_plan, found_abi=self._found_abi)
        launcher = LauncherEnd(self._nursery, launch, self._limits)
        self._take_in(launcher)
        await launcher.ready()
        self._launchers[plan] = launcher
        return launcher

    def _take_in(self, launcher: LauncherEnd) -> None:
        assert self._tasks is not None  # noqa: S101 - children are opened inside the context
        self._all_launchers.add(launcher)
        self._tasks.start_soon(self._run, launcher)

    async def _run(self, launcher: LauncherEnd) -> None:
        try:
            await launcher.run()
        finally:
            self._all_launchers.discard(launcher)
            launcher.release()

    def _retire(self, launcher: LauncherEnd) -> None:
        """Start nothing here any more; it goes when its last program has."""
        launcher.is_retired = True
        if launcher.is_idle() and self._tasks is not None:
            self._tasks.start_soon(launcher.close, 0.0)

    # Children.

    @asynccontextmanager
    async def open(self, spec: ProgramSpec) -> AsyncIterator[Child]:
        """Order a program; leaving ends its tree if the program itself still runs.

        Whether it could be started is told by ``Child.started`` and ``Child.wait``. A child that
        was given to ``keep`` meanwhile is left as it is.

        Raises:
            ConfigError: the plan contradicts itself; nothing ran.
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            InvalidArguments: an argument or variable holds a NUL byte; nothing ran.
            ProvisionError: there are no pipes left for it; nothing ran.
            EnvironmentDied: the launcher was lost before it could start the program; nothing ran.
        """
        child = await self.start(spec)
        self._scoped.add(child)
        try:
            yield child
        finally:
            if child in self._scoped:
                self._scoped.discard(child)
                await self.let_go(child)

    async def start(self, spec: ProgramSpec, *, is_merged: bool = False) -> Child:
        """Order a program that is kept until ``let_go``.

        With ``is_merged`` its output and its complaints come in order by one pipe, ``stdout``. It
        raises what ``open`` does.
        """
        launcher = await self._launcher_for(spec.plan)
        await launcher.use_base(self._bases.of(spec.plan))
        ends = _pipes(1 if is_merged else 2)
        readers = [PipeReader(fd) for fd in ends[::2]]
        outputs = ends[1::2]
        return await self._order(
            launcher,
            _wrapped(self._provider, spec),
            (readers[0], readers[-1]),
            (outputs[0], outputs[-1]),
        )

    async def open_terminal(self, spec: ProgramSpec, size: tuple[int, int]) -> Child:
        """Order a program in a terminal of its own, kept until ``let_go``.

        ``size`` is its rows and columns. ``stdout`` of the child is our side of the terminal: what
        is written to it is the program's input. It raises what ``open`` does, and ``NoTerminal``
        where there is none to be had.
        """
        launcher = await self._launcher_for(spec.plan._replace(terminals=(TERMINALS,)))
        await launcher.use_base(self._bases.of_terminal(spec.plan))
        ours, theirs = open_terminal(size)
        reader = PipeReader(ours)
        spec = msgspec.structs.replace(_wrapped(self._provider, spec), terminal=os.ttyname(theirs))
        return await self._order(launcher, spec, (reader, reader), (theirs, theirs))

    def keep(self, child: Child) -> None:
        """Take a child out of its ``open``, which leaves it running; ``let_go`` closes it later."""
        self._scoped.discard(child)

    async def leave_at_crash(self, child: Child, log: Sequence[int]) -> None:
        """Have a kept child outlive a loss of this very process; its output goes to ``log``.

        Raises:
            EnvironmentDied: its launcher was lost.
            ProvisionError: the nursery is gone.
        """
        if (held := self._held.get(child)) is not None:
            await held[0].leave_at_crash(held[1], (*log, *{child.stdout.fd, child.stderr.fd}))

    async def let_go(self, child: Child) -> None:
        """Close a child that was kept; ends its tree if the program itself still runs.

        Raises:
            ShutdownIncomplete: something of it survived SIGKILL.
        """
        if (held := self._held.pop(child, None)) is not None:
            await keep_no_more(*held)
            await self._leave(*held, child)

    def start_soon(
        self,
        function: Callable[[Unpack[Arguments]], Coroutine[Any, Any, object]],
        *arguments: *Arguments,
    ) -> None:
        """Run a task that follows children; it must end once they and their pipes have."""
        assert self._tasks is not None  # noqa: S101 - children are started inside the context
        self._tasks.start_soon(function, *arguments)

    async def _order(
        self,
        launcher: LauncherEnd,
        spec: ProgramSpec,
        readers: tuple[PipeReader, PipeReader],
        outputs: tuple[int, int],
    ) -> Child:
        """Order a program; the ends that it writes to are closed here."""
        call = launcher.expect()
        child = Child(launcher, call, *readers)
        try:
            await launcher.start(call, spec, outputs)
        except BaseException:
            # It may have started all the same: the order is out, only the answer is missing.
            await self._leave(launcher, call, child)
            raise
        finally:
            for end in set(outputs):
                os.close(end)
        self._held[child] = launcher, call
        return child

    @asynccontextmanager
    async def adopt(self, early: EarlyChild) -> AsyncIterator[Child]:
        """Take over a program that the nursery began before this supervisor existed.

        Raises:
            ConfinementUnavailable: the kernel could not enforce its plan; it did not run.
            EnvironmentDied: its launcher was lost.
        """
        launcher = LauncherEnd(self._nursery, early.launch, self._limits)
        call = launcher.expect(FIRST_CALL)
        child = Child(launcher, call, PipeReader(early.stdout), PipeReader(early.stderr))
        self._take_in(launcher)
        try:
            await launcher.ready()
            await launcher.started(call)
            self._launchers.setdefault(early.launch.plan, launcher)
            yield child
        finally:
            await self._leave(launcher, call, child)

    async def _leave(self, launcher: LauncherEnd, call: Call, child: Child) -> None:
        was_running = child.is_running
        try:
            if was_running:
                with anyio.CancelScope(shield=True):
                    await child.end(self._limits.end_grace_seconds)
        finally:
            is_shared = call.has_orphans and not was_running and self._tasks is not None
            for reader in {child.stdout, child.stderr}:
                # Closing it would end a descendant that writes to it.
                if is_shared and not reader.drop_waiting():
                    self.start_soon(self._drains.drain, reader)
                else:
                    reader.close()
            if was_running or not call.has_orphans:
                launcher.forget(call)
                if launcher.is_retired:
                    self._retire(launcher)

    # The end.

    async def aclose(self) -> None:
        """End every launcher and everything it started.

        Raises:
            ShutdownIncomplete: something survived SIGKILL.
        """
        self._is_closed = True
        left = 0

        async def close(launcher: LauncherEnd) -> None:
            nonlocal left
            left += await launcher.close(self._limits.end_grace_seconds)

        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as closing:
                for launcher in list(self._all_launchers):
                    closing.start_soon(close, launcher)
        self._drains.close()
        if left:
            raise ShutdownIncomplete(
                f"{left} processes survived SIGKILL; the kernel holds them.",
                hint="They end when the file system or device they wait for answers.",
            )


def _wrapped(provider: ConfinementProvider | None, spec: ProgramSpec) -> ProgramSpec:
    if provider is None or not spec.plan.mode.is_restricted:
        return spec
    return msgspec.structs.replace(spec, argv=provider.wrap(spec.plan, spec.argv))


def _pipes(number: int) -> list[int]:
    """Return the reading and the writing end of each of so many pipes.

    Raises:
        ProvisionError: this process has no descriptors left.
    """
    ends: list[int] = []
    try:
        for _ in range(number):
            ends += os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        for descriptor in ends:
            os.close(descriptor)
        raise ProvisionError(
            f"No pipes for the output of a program: {error.strerror}. Nothing ran.",
            hint="Run fewer commands at once, or raise the limit of open files.",
        ) from error
    return ends
