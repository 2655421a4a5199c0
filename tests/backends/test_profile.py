from __future__ import annotations

from typing import Any

import pytest

from moorage.backends.grace import grace_seconds
from moorage.backends.profile import Profile, check_name, parse_profile
from moorage.errors import ConfigError

PATH = "execution_environments.profiles.box"
DOCKER = {"backend": "docker", "image": "img:1"}
SSH = {"backend": "ssh", "host": "box"}
COMMAND = {"backend": "command", "command": ["node", "/a.mjs"]}


def test_a_profile_of_each_backend_is_accepted() -> None:
    for value in (
        {"backend": "local"},
        DOCKER,
        SSH,
        COMMAND,
        {"backend": "singularity", "image": "a.sif"},
        {"backend": "modal", "image": "i", "cpus": 1.5},
        {"backend": "daytona", "command": ["adapter"]},
        {"backend": "vercel_sandbox", "image": "i", "cpus": 2},
        DOCKER | {"host_workspace": "/src", "mount_read_only": True, "network": "none"},
    ):
        assert parse_profile(value, PATH).backend == value["backend"]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"backend": "nowhere"}, "backend"),
        (DOCKER | {"image": ""}, "image"),
        (DOCKER | {"image": "-x"}, "image"),
        ({"backend": "modal"}, "image"),
        ({"backend": "ssh"}, "host"),
        (SSH | {"host": "-oProxyCommand=x"}, "host"),
        (SSH | {"host": "a b"}, "host"),
        (SSH | {"port": 65536}, "port"),
        (SSH | {"port": -1}, "port"),
        (SSH | {"network": "none"}, "network"),
        (SSH | {"cpus": 1}, "cpus"),
        (SSH | {"memory_mb": 1}, "memory_mb"),
        (DOCKER | {"network": "some"}, "network"),
        (DOCKER | {"cpus": -1}, "cpus"),
        ({"backend": "daytona", "image": "i", "cpus": 1.5}, "cpus"),
        ({"backend": "vercel_sandbox", "image": "i", "memory_mb": 5}, "memory_mb"),
        (DOCKER | {"memory_mb": -1}, "memory_mb"),
        (DOCKER | {"lifetime_seconds": -1}, "lifetime_seconds"),
        (DOCKER | {"shutdown_timeout_ms": -1}, "shutdown_timeout_ms"),
        (DOCKER | {"shutdown_timeout_ms": 2_147_483_648}, "shutdown_timeout_ms"),
        (DOCKER | {"shutdown_timeout_ms": 1.5}, "shutdown_timeout_ms"),
        (DOCKER | {"shutdown_timeout_ms": "7"}, "shutdown_timeout_ms"),
        (DOCKER | {"workspace": "relative"}, "workspace"),
        (DOCKER | {"workspace": "/a/../b"}, "workspace"),
        (DOCKER | {"workspace": "/a//b"}, "workspace"),
        (DOCKER | {"forward_env": ["1X"]}, "forward_env"),
        (DOCKER | {"host_workspace": "a"}, "host_workspace"),
        (DOCKER | {"host_workspace": "/a:b"}, "host_workspace"),
        (DOCKER | {"mount_read_only": True}, "mount_read_only"),
        (DOCKER | {"worker": " "}, "worker"),
        ({"backend": "command"}, "command"),
        ({"backend": "command", "command": [" "]}, "command"),
        ({"backend": "local", "network": "none"}, "network"),
        ({"backend": "local", "cpus": 2}, "cpus"),
        (DOCKER | {"user": 5}, "user"),
        (DOCKER | {"shared": "yes"}, "shared"),
    ],
)
def test_an_invalid_field_is_refused_and_named(value: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_profile(value, PATH)
    assert caught.value.path == f"{PATH}.{field}"
    assert str(caught.value).startswith(f"{PATH}.{field}: ")


def test_an_unknown_field_is_refused_and_named() -> None:
    with pytest.raises(ConfigError, match="unknown field `imgae`"):
        parse_profile({"backend": "docker", "imgae": "x"}, PATH)


@pytest.mark.parametrize("name", ["local", "", "-a", "a b", "x" * 65, "a/b"])
def test_a_name_that_no_profile_can_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        check_name(name, PATH)


def test_the_grace_follows_the_backend_unless_the_profile_sets_it() -> None:
    seconds = {
        "docker": 7.0,
        "ssh": 7.0,
        "local": 7.0,
        "modal": 90.0,
        "daytona": 90.0,
        "vercel_sandbox": 90.0,
        "command": 60.0,
    }
    assert {name: grace_seconds(Profile(backend=name)) for name in seconds} == seconds
    assert grace_seconds(Profile(backend="docker", shutdown_timeout_ms=1)) == 0.001
    assert grace_seconds(Profile(backend="docker", shutdown_timeout_ms=2_147_483_647)) > 2e6
