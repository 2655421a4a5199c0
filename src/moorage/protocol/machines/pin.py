"""The token and binding that the first successful initialization fixes for good."""

from __future__ import annotations

from moorage.errors import InvalidArguments, LocalProtocolViolation, Refused
from moorage.protocol.binding import Binding, InitializeReply
from moorage.protocol.secret import Secret

MIN_TOKEN_CHARACTERS = 32
"""Shorter tokens can be guessed; they never authorize anything."""


class Pin:
    """What one worker is bound to, for every connection that it serves.

    A token handed over at start holds from the first request. Without one, the token of the first
    initialization is pinned, and only when that succeeds.
    """

    def __init__(self, token: Secret | None = None) -> None:
        """Start unbound.

        Raises:
            LocalProtocolViolation: the token is too short.
        """
        if token is not None and len(token) < MIN_TOKEN_CHARACTERS:
            raise LocalProtocolViolation(
                f"the connection's token has {len(token)} characters.",
                hint=f"Use at least {MIN_TOKEN_CHARACTERS}, made by a random generator.",
            )
        self._token = token
        self._candidate: Secret | None = None
        self._binding: Binding | None = None
        self._reply: InitializeReply | None = None

    @property
    def token(self) -> Secret | None:
        """Return what requests are compared with: the pinned token, or the one about to be."""
        return self._token or self._candidate

    def begin(self, token: str) -> None:
        """Start an initialization; several may run where the token was known from the start.

        Raises:
            Refused: another one is running, and it is to decide which token counts.
        """
        if self._token is not None:
            return
        if self._candidate is not None:
            raise Refused("another initialization is running.", reason="initializing")
        self._candidate = Secret(token)

    def succeed(self, binding: Binding, reply: InitializeReply) -> None:
        """Fix token and binding; whoever is first does, and those that waited join it."""
        if self._binding is not None:
            return
        self._token, self._candidate = self.token, None
        self._binding, self._reply = binding, reply

    def fail(self) -> None:
        """Forget the attempt; nothing is pinned by it."""
        self._candidate = None

    def repeat(self, binding: Binding) -> InitializeReply | None:
        """Return the first reply when the binding is the fixed one; None when nothing is fixed.

        Raises:
            InvalidArguments: the binding differs from the fixed one, which stays in force.
        """
        if self._binding is not None and binding != self._binding:
            changed = [
                name
                for name in binding.__struct_fields__
                if getattr(binding, name) != getattr(self._binding, name)
            ]
            raise InvalidArguments(
                f"the binding cannot change once it is made; {', '.join(changed)} would.",
                hint="Start another worker for another binding.",
            )
        return self._reply
