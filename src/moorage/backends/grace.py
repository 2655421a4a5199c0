"""How long an environment may take to end in good order (pure)."""

from __future__ import annotations

from moorage.backends.profile import Profile

NATIVE_SECONDS = 7.0
CLOUD_SECONDS = 90.0
COMMAND_SECONDS = 60.0
"""35 s for draining a cancelled request, 10 s for a delegate's own end, and the way there."""

_BY_BACKEND = {
    "modal": CLOUD_SECONDS,
    "daytona": CLOUD_SECONDS,
    "vercel_sandbox": CLOUD_SECONDS,
    "command": COMMAND_SECONDS,
}


def grace_seconds(profile: Profile) -> float:
    """Return the whole time from end of input to exit that the profile allows."""
    if profile.shutdown_timeout_ms:
        return profile.shutdown_timeout_ms / 1000
    return _BY_BACKEND.get(profile.backend, NATIVE_SECONDS)
