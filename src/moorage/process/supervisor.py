"""The owner of all children: starts them under their plan and ends what is left of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Self

from moorage.confine.plan import Plan

if TYPE_CHECKING:
    from types import TracebackType

    from moorage.confine.nursery import Nursery
    from moorage.process.child import Child
    from moorage.process.spec import ProgramSpec, SupervisorLimits

BaseVariables = Callable[[Plan], Mapping[str, str]]


class Supervisor:
    """Children and the launchers that start them; an async context manager.

    ``base_variables`` is asked once per launcher; ``ProgramSpec.variables`` are added to its answer.
    """

    def __init__(
        self,
        nursery: Nursery,
        *,
        base_variables: BaseVariables | None = None,
        limits: SupervisorLimits | None = None,
    ) -> None:
        """Start nothing yet."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Open the supervisor."""
        raise NotImplementedError

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Close the supervisor."""
        raise NotImplementedError

    def set_base_variables(self, plan: Plan, variables: Mapping[str, str]) -> None:
        """Replace the base variables that every later child of this plan starts with."""
        raise NotImplementedError

    async def prepare(self, plan: Plan) -> None:
        """Have a launcher for the plan ready, so that its first child does not wait for one.

        Raises:
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
        """
        raise NotImplementedError

    def open(self, spec: ProgramSpec) -> AbstractAsyncContextManager[Child]:
        """Start a program; leaving ends its tree if the program itself still runs.

        Raises:
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            ProvisionError: the program or its directory cannot be used; nothing ran.
            EnvironmentDied: the launcher was lost while it started the program.
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        """End every launcher and everything it started.

        Raises:
            ShutdownIncomplete: something survived SIGKILL.
        """
        raise NotImplementedError
