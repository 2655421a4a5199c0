"""The services that the tests of environments stand on: each does its own work."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.live.apptainer import Apptainer
from tests.live.engine import DockerEngine, own_engine
from tests.live.places import BARE_ARCHIVE
from tests.live.services import named_by_user
from tests.live.ssh_accounts import BARE
from tests.live.ssh_server import SshServer, server_of_profile

SECONDS = 50
TOOLS = "bash --version && git --version && rg --version && python3 --version && node --version"


def run(
    *words: str | Path, expected: int = 0, seconds: float = SECONDS, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which has to be the expected one."""
    ended = subprocess.run(
        words,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ended.returncode == expected, f"{words}: {ended.stdout}{ended.stderr}"
    return ended


def docker(engine: str, *words: str, expected: int = 0) -> str:
    chosen = {"DOCKER_HOST": engine} if engine else {}
    return run("docker", *words, expected=expected, **chosen).stdout.strip()


# Docker.


def test_a_container_runs_from_the_image_with_all_its_tools(
    docker_engine: str, docker_image: str
) -> None:
    docker(docker_engine, "run", "--rm", docker_image, "true")
    docker(docker_engine, "run", "--rm", "--entrypoint=sh", docker_image, "-c", TOOLS)


def test_a_command_runs_in_a_container_that_is_there(docker_engine: str, docker_image: str) -> None:
    words = ("run", "--detach", "--init", "--entrypoint=sleep", docker_image, "1000")
    container = docker(docker_engine, *words)
    try:
        assert docker(docker_engine, "exec", container, "echo", "here") == "here"
    finally:
        docker(docker_engine, "rm", "--force", container)


def test_the_bare_image_has_a_shell_and_no_python(
    running_engine: DockerEngine, bare_image: str
) -> None:
    order = ("run", "--rm", bare_image, "bash", "-c")
    assert docker(running_engine.host, *order, "busybox echo here") == "here"
    docker(running_engine.host, *order, "exec python3", expected=127)


@pytest.mark.parametrize(("network", "devices"), [("bridge", {"lo", "eth0"}), ("none", {"lo"})])
def test_a_container_has_the_network_that_it_is_given(
    running_engine: DockerEngine, bare_image: str, network: str, devices: set[str]
) -> None:
    words = ("run", "--rm", f"--network={network}", bare_image, "ls", "/sys/class/net")
    assert set(docker(running_engine.host, *words).split()) == devices


def test_a_container_that_takes_more_memory_than_it_may_is_ended(
    running_engine: DockerEngine, docker_image: str
) -> None:
    limits = ("--memory=64m", "--memory-swap=64m")
    hog = ("python3", "-c", "bytearray(256 << 20)")
    docker(running_engine.host, "run", "--rm", *limits, docker_image, *hog, expected=137)
    docker(running_engine.host, "run", "--rm", docker_image, *hog)


def test_an_engine_that_was_ended_finds_its_images_again_and_leaves_nothing(
    running_engine: DockerEngine,
) -> None:
    with own_engine() as engine:
        with BARE_ARCHIVE.open("rb") as archive:
            engine.run("import", "-", "kept", stdin=archive)
        engine.end()
        engine.start()
        assert engine.said("image", "ls", "--format={{.Repository}}") == "kept"
    assert not engine.folder.exists()
    assert not Path("/sys/class/net", engine.bridge).exists()
    assert str(engine.folder) not in Path("/proc/self/mountinfo").read_text()


def test_an_image_for_sessions_is_built_of_a_base_and_gets_only_what_that_lacks(
    running_engine: DockerEngine, docker_image: str, bare_image: str
) -> None:
    context = str(Path(__file__).parents[2] / "containers" / "execution")
    name = f"moorage-test/execution-{os.getpid()}"
    words = ["docker", "build", "--tag", name, context, "--build-arg"]
    run(*words, f"BASE={docker_image}", **running_engine.variables)
    try:
        order = ("run", "--rm", "--user=1234:1234", name, "sh", "-c")
        docker(running_engine.host, *order, f"touch /workspace/x && {TOOLS}")
    finally:
        docker(running_engine.host, "rmi", name)
    # The bare one lacks Git and more, and the means to get them.
    refused = run(*words, f"BASE={bare_image}", expected=1, **running_engine.variables)
    assert (
        "put git ripgrep python3 nodejs ca-certificates into it" in refused.stdout + refused.stderr
    )


# SSH.


@pytest.mark.parametrize(("account", "user"), [("", "61"), ("root", "0"), (BARE, "61")])
def test_each_account_of_the_server_lets_its_key_in(
    running_ssh_server: SshServer, account: str, user: str
) -> None:
    ended = run(*running_ssh_server.argv("id -u && cd && touch here && rm here", account=account))
    assert ended.stdout.strip().startswith(user)


def test_the_bare_account_has_no_python(running_ssh_server: SshServer) -> None:
    run(*running_ssh_server.argv("command -v busybox && ! command -v python3", account=BARE))
    run(*running_ssh_server.argv("test -r /proc/self/status && : >/dev/null", account=BARE))


def test_a_command_runs_at_the_server(ssh_server: SshServer) -> None:
    run(*ssh_server.argv("true"))
    run(*ssh_server.argv("exit 7"), expected=7)


def test_a_server_with_another_host_key_is_not_trusted(
    running_ssh_server: SshServer, tmp_path: Path
) -> None:
    unknown = tmp_path / "known_hosts"
    unknown.touch()
    stranger = dataclasses.replace(running_ssh_server, known_hosts_file=unknown)
    ended = run(*stranger.argv("true"), expected=255)
    assert "Host key verification failed" in ended.stderr


def test_another_key_is_refused(running_ssh_server: SshServer, tmp_path: Path) -> None:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key")
    stranger = dataclasses.replace(running_ssh_server, identity_file=tmp_path / "key")
    assert "Permission denied" in run(*stranger.argv("true"), expected=255).stderr


def test_the_accounts_are_not_those_of_the_machine(running_ssh_server: SshServer) -> None:
    run(*running_ssh_server.argv("whoami"))
    assert running_ssh_server.account not in Path("/etc/passwd").read_text()


# Apptainer.


@pytest.mark.parametrize("options", [(), ("--userns",)], ids=["plain", "userns"])
def test_a_command_runs_in_an_apptainer_container(
    apptainer: Apptainer, options: tuple[str, ...]
) -> None:
    run(apptainer.program, "exec", *options, apptainer.image, "true")
    run(apptainer.program, "exec", *options, apptainer.image, "sh", "-c", TOOLS)
    if apptainer.sandbox:
        run(apptainer.program, "exec", *options, apptainer.sandbox, "true")


def test_an_apptainer_container_can_be_written_to_and_forgets_it(apptainer: Apptainer) -> None:
    words = ("--userns", "--containall", "--writable-tmpfs", apptainer.image, "touch", "/written")
    run(apptainer.program, "exec", *words)
    run(
        apptainer.program, "exec", *words[:3], apptainer.image, "test", "-e", "/written", expected=1
    )


@pytest.mark.parametrize("options", [(), ("--userns",)], ids=["plain", "userns"])
def test_an_apptainer_container_without_a_network_has_its_own_loopback_alone(
    apptainer: Apptainer, options: tuple[str, ...]
) -> None:
    words = (*options, "--net", "--network=none", apptainer.image, "cat", "/proc/net/dev")
    devices = run(apptainer.program, "exec", *words).stdout.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]


@pytest.mark.needs("root")
def test_an_apptainer_container_that_takes_more_memory_than_it_may_is_ended(
    apptainer: Apptainer,
) -> None:
    hog = (apptainer.image, "python3", "-c", "bytearray(256 << 20)")
    run(apptainer.program, "exec", "--memory=64M", *hog, expected=-signal.SIGKILL)
    run(apptainer.program, "exec", *hog)


# A user's own services.


@pytest.mark.parametrize("prefix", ["MOORAGE", "WUU_EXECUTION"])
def test_a_user_can_name_a_server_of_their_own(
    monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    for name in ("MOORAGE", "WUU_EXECUTION"):
        monkeypatch.delenv(f"{name}_E2E_SSH", raising=False)
    profile = {"backend": "ssh", "host": "me@there.example.test", "port": 2222}
    monkeypatch.setenv(f"{prefix}_E2E_SSH", json.dumps(profile))
    server = server_of_profile(named_by_user("SSH"))
    assert (server.account, server.host, server.port) == ("me", "there.example.test", 2222)
    assert server.profile()["host"] == "me@there.example.test"
