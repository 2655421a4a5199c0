"""A program of the user's own as the environment: what it is told, and how it can disappoint."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import moorage
from moorage.backends.catalogue import load_backend
from moorage.errors import (
    BackendUnavailable,
    ConnectionLost,
    ExecutionError,
    OutcomeUnknown,
    ProtocolMismatch,
    ShutdownIncomplete,
    WorkerFailure,
)
from moorage.host import environments

# An adapter written without any help: it says what its variables are, or what the test says.
ADAPTER = """
import json, os, sys
script = json.loads(sys.argv[1])
def say(**frame):
    sys.stdout.write(json.dumps(frame) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    asked = json.loads(line)
    method, data = asked["method"], asked.get("data") or {}
    with open(script["log"], "a") as log:
        log.write(json.dumps([os.getpid(), method, asked["token"], data]) + "\\n")
    if method in script.get("dies_at", []):
        sys.exit(script.get("code", 3))
    if method == "initialize":
        reply = {"version": data["version"], "root": data["root"]}
        say(id=asked["id"], data=reply | script.get("reply", {}))
    elif method == "execute":
        told = {"variables": dict(os.environ)} | script.get("result", {})
        say(id=asked["id"], data={"content": [], "structured_content": told})
    elif method in script.get("answers", {}):
        say(id=asked["id"], data=script["answers"][method])
    else:
        say(id=asked["id"], error="this adapter has no " + method)
"""

Open = Callable[..., AbstractAsyncContextManager[moorage.Session]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "heard.ndjson"


@pytest.fixture
def open_with(tmp_path: Path, log: Path) -> Open:
    """Open sessions whose environment is the adapter above, playing a script."""
    program = tmp_path / "adapter.py"
    program.write_text(ADAPTER)

    @asynccontextmanager
    async def make(
        script: dict[str, Any] | None = None,
        *,
        session_id: str | None = None,
        **fields: Any,
    ) -> AsyncIterator[moorage.Session]:
        played = json.dumps({"log": str(log)} | (script or {}))
        profile = {"backend": "command", "command": [sys.executable, str(program), played]}
        write_profile(tmp_path / "home", profile | fields)
        chosen = {"session_id": session_id} if session_id else {"environment": "box"}
        with anyio.fail_after(20):
            async with moorage.open_session(**chosen, home=tmp_path / "home") as session:
                yield session

    return make


def write_profile(home: Path, profile: dict[str, Any]) -> None:
    home.mkdir(exist_ok=True)
    environments = {"profiles": {"box": profile}}
    (home / "config.json").write_text(json.dumps({"execution_environments": environments}))


def heard(log: Path) -> list[list[Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def variables_of(session: moorage.Session) -> dict[str, str]:
    result = await session.list_files()
    assert result.structured_content is not None
    told: dict[str, str] = result.structured_content["variables"]
    return told


async def test_the_adapter_is_told_its_profile_identity_session_and_state_under_both_names(
    open_with: Open, tmp_path: Path
) -> None:
    async with open_with(network="none", cpus=2, persistent=True) as session:
        told = await variables_of(session)
    for name in ("PROFILE", "ID", "SESSION", "STATE"):
        assert told[f"MOORAGE_EXECUTION_{name}"] == told[f"WUU_EXECUTION_{name}"]
    profile = json.loads(told["MOORAGE_EXECUTION_PROFILE"])
    assert profile["backend"] == "command"
    assert profile["workspace"] == "/workspace"
    assert (profile["network"], profile["cpus"], profile["persistent"]) == ("none", 2, True)
    assert "image" not in profile
    assert told["MOORAGE_EXECUTION_SESSION"] == session.id
    state = Path(told["MOORAGE_EXECUTION_STATE"])
    assert state.name == told["MOORAGE_EXECUTION_ID"]
    assert state == tmp_path / "home" / "state" / "environments" / state.name
    assert permissions(state) == 0o700


async def test_the_adapter_gets_an_allow_list_of_the_hosts_variables_and_forwarded_ones_not(
    open_with: Open, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_THE_HOST", "no")
    monkeypatch.setenv("MOORAGE_HOME", "/nowhere")
    monkeypatch.setenv("FORWARDED", "yes")
    monkeypatch.setenv("LC_TIME", "C")
    async with open_with(forward_env=["FORWARDED"]) as session:
        told = await variables_of(session)
    assert told["LC_TIME"] == "C"
    assert "PATH" in told
    assert not {"A_SECRET_OF_THE_HOST", "MOORAGE_HOME", "FORWARDED"} & told.keys()
    (_, method, _, binding), *_ = heard(log)
    assert (method, binding["environment"]) == ("initialize", {"FORWARDED": "yes"})


async def test_the_binding_is_complete_and_the_token_is_long_and_kept_for_the_session(
    open_with: Open, log: Path
) -> None:
    async with open_with() as session:
        await session.list_files()
        session_id = session.id
    async with open_with(session_id=session_id) as session:
        await session.list_files()
    first, second = (line for line in heard(log) if line[1] == "initialize")
    assert first[0] != second[0]
    assert first[2] == second[2]
    assert len(first[2]) == 64
    assert first[3] == second[3]
    assert first[3]["version"] == 4
    assert first[3]["root"] == "/workspace"
    assert first[3]["session"] == session_id


def test_the_backend_is_in_the_catalogue() -> None:
    assert load_backend("command").name == "command"


async def fails(open_with: Open, *arguments: Any, **fields: Any) -> ExecutionError:
    async with open_with(*arguments, **fields) as session:
        with pytest.raises(ExecutionError) as caught:
            await session.list_files()
    return caught.value


async def test_a_missing_program_is_named_and_nothing_runs_locally(
    open_with: Open, log: Path
) -> None:
    error = await fails(open_with, command=["/nowhere/adapter", "x"])
    assert isinstance(error, BackendUnavailable)
    assert "/nowhere/adapter" in str(error)
    assert heard(log) == []


async def test_a_program_that_exits_at_once_is_told_with_its_code_and_last_words(
    open_with: Open,
) -> None:
    words = "import sys; sys.stderr.write('no credentials'); sys.exit(7)"
    error = await fails(open_with, command=[sys.executable, "-c", words])
    assert isinstance(error, ConnectionLost)
    assert "exited with 7" in str(error)
    assert "no credentials" in str(error)


async def test_an_adapter_that_never_answers_is_given_up_and_ended(
    open_with: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "ADAPTER_INITIALIZE_SECONDS", 0.05)
    error = await fails(open_with, command=[sys.executable, "-c", "import sys; sys.stdin.read()"])
    assert isinstance(error, BackendUnavailable)
    assert "does not answer" in str(error)


async def test_garbage_on_standard_output_ends_the_connection_and_is_called_malformed(
    open_with: Open,
) -> None:
    words = "print('Welcome to the adapter!', flush=True); import sys; sys.stdin.read()"
    error = await fails(open_with, command=[sys.executable, "-c", words])
    assert isinstance(error, ConnectionLost)
    assert "malformed frame" in str(error)


@pytest.mark.parametrize("version", [3, 5])
async def test_an_adapter_of_another_version_is_refused(open_with: Open, version: int) -> None:
    error = await fails(open_with, {"reply": {"version": version}})
    assert isinstance(error, ProtocolMismatch)
    assert f"protocol {version}" in str(error)


async def test_an_adapter_that_serves_another_root_is_refused(open_with: Open) -> None:
    error = await fails(open_with, {"reply": {"root": "/elsewhere"}})
    assert isinstance(error, ProtocolMismatch)
    assert "/elsewhere" in str(error)
    assert "/workspace" in str(error)


async def test_without_the_capability_no_start_is_sent(open_with: Open, log: Path) -> None:
    async with open_with({"reply": {"capabilities": ["something.else.v9"]}}) as session:
        with pytest.raises(ProtocolMismatch):
            await session.processes.start("true")
    assert [line[1] for line in heard(log)] == ["initialize"]


async def test_a_start_answered_with_another_operation_is_an_error(open_with: Open) -> None:
    record = {
        "id": "proc-1",
        "owner_kind": "main_agent",
        "owner_id": "a",
        "lifecycle": "session",
        "status": "running",
        "operation_id": "another",
        **dict.fromkeys(("pid", "pgid"), 1),
        **dict.fromkeys(("log_path", "command", "cwd", "started_at", "updated_at"), "x"),
    }
    script = {
        "reply": {"capabilities": ["process.start.v1"]},
        "answers": {"process/start": record, "process/list": []},
    }
    async with open_with(script) as session:
        with pytest.raises(WorkerFailure, match="another"):
            await session.processes.start("true", operation_id="mine")


async def test_a_method_that_the_adapter_does_not_have_is_its_error_and_no_local_substitute(
    open_with: Open,
) -> None:
    async with open_with({"reply": {"capabilities": ["process.start.v1"]}}) as session:
        with pytest.raises(WorkerFailure, match="this adapter has no process/start"):
            await session.processes.start("true")


async def test_an_adapter_that_dies_in_a_call_leaves_it_unknown_and_is_started_anew_by_the_next(
    open_with: Open, log: Path
) -> None:
    async with open_with({"dies_at": ["execute"]}) as session:
        for _ in range(2):
            with pytest.raises(OutcomeUnknown):
                await session.list_files()
    methods = [line[1] for line in heard(log)]
    assert methods == ["initialize", "execute"] * 2
    assert len({line[0] for line in heard(log)}) == 2


async def test_an_adapter_that_ignores_the_end_of_input_is_killed_at_its_budget_and_told(
    open_with: Open, tmp_path: Path
) -> None:
    stubborn = f"import time\ntry:\n    exec({ADAPTER!r})\nfinally:\n    time.sleep(600)"
    played = json.dumps({"log": str(tmp_path / "heard.ndjson")})
    command = [sys.executable, "-c", stubborn, played]
    with pytest.raises(ShutdownIncomplete, match=r"0\.1 s"):
        async with open_with(command=command, shutdown_timeout_ms=100) as session:
            state = Path((await variables_of(session))["MOORAGE_EXECUTION_STATE"])
    assert "provisioned" in names_in(state)
