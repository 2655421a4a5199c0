"""A container engine as its own command line speaks for it: Docker, or Podman by name."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import msgspec

from moorage.backends.container import Order
from moorage.backends.engine_socket import EngineSocket, NotHere, socket_of
from moorage.backends.transport_variables import transport_variables
from moorage.errors import BackendUnavailable, ProvisionError
from moorage.transports.stdio import ChildTransport
from moorage.transports.transport import Transport

INSTALL_HINT = "Install it, or choose another environment; nothing runs locally in its place."


class EngineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long one order to the engine may take."""

    look_seconds: float = 20.0
    create_seconds: float = 600.0
    """An image may have to be pulled."""

    start_seconds: float = 60.0
    remove_seconds: float = 15.0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one order printed, and how it ended."""

    exit_code: int
    output: bytes
    complaint: str


class Engine:
    """Gives orders to one engine."""

    def __init__(self, program: str, limits: EngineLimits | None = None) -> None:
        """Use the program of this name on the path."""
        self.program = program
        self.limits = limits or EngineLimits()

    def argv(self, *words: str) -> tuple[str, ...]:
        """Return the argument vector of one order."""
        return (self.program, *words)

    async def ask(self, *words: str, seconds: float, data: bytes | None = None) -> Answer:
        """Give an order, wait for its end, and return what it said, whatever that is.

        Raises:
            BackendUnavailable: the program is not there, or did not answer in time.
        """
        try:
            with anyio.fail_after(seconds):
                ended = await anyio.run_process(
                    self.argv(*words),
                    input=data,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    check=False,
                    env=transport_variables(),
                )
        except OSError as error:
            raise BackendUnavailable(
                f"the program {self.program!r} cannot be started: {error.strerror}.",
                hint=INSTALL_HINT,
            ) from error
        except TimeoutError as error:
            raise BackendUnavailable(
                f"`{self.program} {words[0]}` did not end within {seconds:g} s.",
                hint="See whether the engine is well; what was ordered may still happen.",
            ) from error
        return Answer(
            exit_code=ended.returncode,
            output=ended.stdout,
            complaint=ended.stderr.decode("utf-8", "replace").strip(),
        )

    async def order(
        self, *words: str, seconds: float, failing: str, data: bytes | None = None
    ) -> bytes:
        """Give an order that must succeed, and return what it printed.

        Raises:
            ProvisionError: it failed; ``failing`` says at what, and the engine why.
            BackendUnavailable: the engine cannot be reached.
        """
        answer = await self.ask(*words, seconds=seconds, data=data)
        if answer.exit_code != 0:
            await self.check_running()
            raise ProvisionError(f"{failing}: {last_line(answer.complaint)}")
        return answer.output

    async def check_running(self) -> None:
        """Return when the engine answers.

        Raises:
            BackendUnavailable: it does not.
        """
        words = ("info", "--format", "{{.ServerVersion}}")
        if self.program == "podman":
            words = ("info", "--format", "{{.Version.Version}}")
        answer = await self.ask(*words, seconds=self.limits.look_seconds)
        if answer.exit_code != 0 or not answer.output.strip():
            raise BackendUnavailable(
                f"the {self.program} engine does not answer: {last_line(answer.complaint)}",
                hint="Start it, and see that you may use it.",
            )

    async def inspect(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return what the engine knows of a container, image or volume, or ``None``: no such.

        Raises:
            BackendUnavailable: the engine cannot be reached.
        """
        seconds = self.limits.look_seconds
        if (near := socket_of(self.program)) is not None:
            with suppress(NotHere):
                return await near.inspect(kind, name, seconds)
        answer = await self.ask(kind, "inspect", name, seconds=seconds)
        if answer.exit_code == 0:
            found: list[dict[str, Any]] = msgspec.json.decode(answer.output)
            return found[0] if found else None
        if "no such" in answer.complaint.lower() or "not known" in answer.complaint.lower():
            return None
        await self.check_running()
        return None

    async def create(self, order: Order) -> None:
        """Make a container.

        Raises:
            ProvisionError: it cannot be made.
            BackendUnavailable: the engine cannot be reached.
        """
        seconds = self.limits.create_seconds
        await self._do(
            lambda near: near.create(order.wanted.name, order.body(), seconds),
            *order.words(),
            seconds=seconds,
            failing=f"no container could be made of {order.wanted.image}",
        )

    async def start(self, container: str) -> None:
        """Start a container.

        Raises:
            ProvisionError: it cannot be started.
            BackendUnavailable: the engine cannot be reached.
        """
        seconds = self.limits.start_seconds
        await self._do(
            lambda near: near.start(container, seconds),
            *("start", container),
            seconds=seconds,
            failing=f"the container {container} could not be started",
        )

    async def _do(
        self,
        tell: Callable[[EngineSocket], Awaitable[str]],
        *words: str,
        seconds: float,
        failing: str,
    ) -> None:
        """Have something done by way of the engine's socket, or else of its command line.

        ``tell`` returns what the engine complains of.
        """
        if (near := socket_of(self.program)) is not None:
            with suppress(NotHere):
                if complaint := await tell(near):
                    raise ProvisionError(f"{failing}: {last_line(complaint)}")
                return
        await self.order(*words, seconds=seconds, failing=failing)

    async def attach(
        self, container: str, argv: tuple[str, ...], grace_seconds: float
    ) -> Transport:
        """Start a program in a container, and return the way to its standard streams.

        Raises:
            BackendUnavailable: it cannot be started, or the engine cannot be reached.
        """
        if (near := socket_of(self.program)) is not None:
            with suppress(NotHere):
                return await near.attach(container, argv, self.limits.start_seconds, grace_seconds)
        return await ChildTransport.start(
            self.argv("exec", "--interactive", container, *argv),
            variables=transport_variables(),
            grace_seconds=grace_seconds,
        )


def last_line(complaint: str) -> str:
    """Return the line of a complaint that says what is wrong."""
    lines = [line for line in complaint.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Run '", "See '"))]
    return telling[-1].strip() if telling else "it did not say why."
