"""The variables that a program on the way to an environment gets: what it needs, not all there are.

What is in the host's variables is the user's, and none of it is for the environment: that gets what
its profile forwards, inside the authenticated connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LANGUAGE"),
        *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "KRB5CCNAME", "DBUS_SESSION_BUS_ADDRESS"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    }
)
_PREFIXES = ("LC_", "DOCKER_", "CONTAINER_", "APPTAINER_", "SINGULARITY_")


def transport_variables(
    also: Iterable[str] = (), variables: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the host's variables that such a program gets, and those named in ``also``."""
    wanted = _NAMES | set(also)
    return {
        name: value
        for name, value in variables.items()
        if name in wanted or name.startswith(_PREFIXES)
    }
