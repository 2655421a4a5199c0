from __future__ import annotations

import pytest

from moorage.errors import ConfigError
from moorage.mcp_server.guard import Door, check_reach, host_values, is_loopback, origin_values
from moorage.protocol.secret import Secret

TOKEN = "t" * 40
HOSTS = host_values("127.0.0.1", 8123, ["box.example", "proxy.example:443"])
DOOR = Door(
    hosts=HOSTS,
    origins=origin_values(HOSTS, ["https://app.example/"]),
    token=Secret(TOKEN),
)


def status(path: str = "/mcp", **headers: str) -> int | None:
    headers = {"host": "127.0.0.1:8123", "authorization": f"Bearer {TOKEN}"} | headers
    raw = {name.encode(): value.encode() for name, value in headers.items()}
    refusal = DOOR.refusal(path, raw)
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8123", "LOCALHOST:8123", "[::1]:8123", "box.example", "proxy.example:443"]
)
def test_the_servers_own_names_come_in(host: str) -> None:
    assert status(host=host) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:80", "box.example:1"]
)
def test_a_name_that_was_rebound_to_this_machine_is_turned_away(host: str) -> None:
    assert status(host=host) == 421


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8123", "http://localhost:8123", "https://app.example"]
)
def test_an_origin_of_the_server_or_of_the_users_choice_comes_in(origin: str) -> None:
    assert status(origin=origin) is None


@pytest.mark.parametrize(
    "origin", ["", "null", "https://evil.example", "http://localhost:3000", "http://127.0.0.1"]
)
def test_a_web_page_is_turned_away_even_with_the_token(origin: str) -> None:
    assert status(origin=origin) == 403


@pytest.mark.parametrize("authorization", ["", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}"])
def test_without_the_token_nobody_comes_in(authorization: str) -> None:
    assert status(authorization=authorization) == 401


def test_only_the_endpoint_exists() -> None:
    assert status("/.well-known/oauth-protected-resource", authorization="") == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_leave(host: str) -> None:
    assert is_loopback(host)
    check_reach(host, allow_remote=False)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "192.0.2.1", "box.example", ""],  # noqa: S104 - what leave is needed for
)
def test_a_reachable_address_needs_leave_and_the_refusal_says_how(host: str) -> None:
    with pytest.raises(ConfigError, match="--allow-remote"):
        check_reach(host, allow_remote=False)
    check_reach(host, allow_remote=True)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert "[2001:db8::1]:80" in host_values("2001:db8::1", 80, [])
