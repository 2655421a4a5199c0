"""What a worker that stays was started with; it is kept, so that no host uses it otherwise."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from moorage.backends.stay import Grants, Stay
from moorage.confine.private_folders import replace_private
from moorage.errors import ConfigError, ProtocolMismatch

_RECORD = "grants.json"


class _Started(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept beside the socket about the worker that listens on it."""

    grants: Grants
    started_at: datetime


def write_record(stay: Stay) -> None:
    """Keep what the worker is about to be started with."""
    started = _Started(grants=stay.grants, started_at=datetime.now(UTC))
    replace_private(stay.folder / _RECORD, msgspec.json.encode(started), is_synced=False)


def check_grants(stay: Stay) -> None:
    """Return when the running worker was started with what the session has now.

    Raises:
        ConfigError: with something else, or with nobody knows what.
        ProtocolMismatch: it belongs to another version of Moorage.
    """
    remedy = (
        f"`moorage session restart {stay.session}` ends it, with everything that it runs, and "
        "starts another."
    )
    try:
        data = (stay.folder / _RECORD).read_bytes()
        found = msgspec.json.decode(data, type=_Started).grants
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"nothing says what the worker of session {stay.session} was started with.",
            hint=remedy,
        ) from error
    if found.version != stay.grants.version:
        raise ProtocolMismatch(
            f"the worker of session {stay.session} belongs to Moorage {found.version}, "
            f"and this is {stay.grants.version}.",
            hint=remedy,
        )
    fields = Grants.__struct_fields__
    differing = [name for name in fields if getattr(found, name) != getattr(stay.grants, name)]
    if differing:
        raise ConfigError(
            f"the worker of session {stay.session} was started with another "
            f"{', '.join(differing)}, and keeps what it was started with.",
            hint=remedy,
        )
