"""Background processes on the wire: exact keys and units, and ids that are not the caller's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import msgspec
import pytest

from moorage.connection.host_end import HostConnection
from moorage.errors import InvalidArguments
from moorage.protocol.binding import Binding
from moorage.protocol.processes import (
    ZERO_TIME,
    CompletionDeliveredRequest,
    CompletionModeRequest,
    ProcessRecord,
    ProcessRequest,
    ReadOptions,
    ReadRequest,
    ResizeRequest,
    StartRequest,
    WriteRequest,
)
from moorage.worker.options import WorkerOptions

Connect = Callable[[WorkerOptions], AbstractAsyncContextManager[HostConnection]]
MS = 1_000_000

ALWAYS = {
    "id", "owner_kind", "owner_id", "lifecycle", "status", "pid", "pgid", "log_path", "command",
    "cwd", "started_at", "updated_at", "stopped_at", "completion_delivered_at", "next_recheck_at",
    "pending_recheck_at",
}  # fmt: skip
# What a process in pipes of a confined session has beside these, as long as it runs.
RUNNING = {
    "operation_id", "root_thread_id", "host_generation_id", "completion_mode", "exit_code",
    "process_start_time", "sandbox_mode",
}  # fmt: skip


async def ask(connection: HostConnection, method: str, data: msgspec.Struct | None) -> Any:
    """Return the answer as it came."""
    with anyio.fail_after(10):
        return await connection.request(f"process/{method}", data, Any)  # type: ignore[arg-type]


async def start(connection: HostConnection, command: str, **changes: Any) -> dict[str, Any]:
    request = StartRequest(operation_id="op-1", command=command, actor="s-1", **changes)
    answer: dict[str, Any] = await ask(connection, "start", request)
    return answer


async def read(
    connection: HostConnection, process_id: str, offset: int | None, wait_ms: int
) -> dict[str, Any]:
    options = ReadOptions(offset_bytes=offset, wait_ns=wait_ms * MS)
    answer: dict[str, Any] = await ask(
        connection, "read", ReadRequest(id=process_id, options=options)
    )
    return answer


async def test_a_record_has_the_keys_of_the_wire_and_no_other(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    async with connect(options) as connection:
        await connection.initialize(binding)
        record = await start(connection, "read line")
        assert set(record) == ALWAYS | RUNNING
        assert (record["exit_code"], record["sandbox_mode"]) == (-1, "workspace-write")
        unset = ("stopped_at", "completion_delivered_at", "next_recheck_at", "pending_recheck_at")
        assert {record[key] for key in unset} == {ZERO_TIME}

        await ask(connection, "write", WriteRequest(id=record["id"], input="\n"))
        ended = (await read(connection, record["id"], 0, 10_000))["Process"]
        receipt = {"terminal_cause", "log_sha256"}
        assert set(ended) == ALWAYS | RUNNING - {"exit_code"} | receipt
        assert ended["stopped_at"] > ended["started_at"]


async def test_waits_and_durations_are_nanoseconds_and_no_offset_means_the_tail(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    async with connect(options) as connection:
        await connection.initialize(binding)
        record = await start(connection, "seq 1 9999; read line; echo end; sleep 1000")
        process_id = record["id"]
        printed = 48_888
        total = 0
        while total < printed:
            total = (await read(connection, process_id, total, 10_000))["TotalBytes"]
        tail = await read(connection, process_id, None, 0)
        assert (tail["EndOffset"], tail["Truncated"], tail["TimedOut"]) == (printed, True, False)
        assert tail["EndOffset"] - tail["StartOffset"] == 32_768
        assert tail["Output"].endswith("9999\n")

        silent = await read(connection, process_id, printed, 50)
        assert (silent["Output"], silent["TimedOut"]) == ("", True)
        assert silent["Duration"] >= 50 * MS
        found: list[dict[str, Any]] = []
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                found.append(await read(connection, process_id, printed, 9_000))

            tasks.start_soon(wait)
            await ask(connection, "write", WriteRequest(id=process_id, input="\n"))
        assert (found[0]["Output"], found[0]["TimedOut"]) == ("end\n", False)
        assert found[0]["Process"]["status"] == "running"


OPERATIONS: dict[str, Callable[[str], msgspec.Struct]] = {
    "get": lambda process_id: ProcessRequest(id=process_id),
    "read": lambda process_id: ReadRequest(id=process_id, options=ReadOptions()),
    "write": lambda process_id: WriteRequest(id=process_id, input="x"),
    "resize": lambda process_id: ResizeRequest(id=process_id, cols=80, rows=24),
    "stop": lambda process_id: ProcessRequest(id=process_id),
    "input_available": lambda process_id: ProcessRequest(id=process_id),
    "completion_pending": lambda process_id: ProcessRequest(id=process_id),
    "completion_delivered": lambda process_id: CompletionDeliveredRequest(
        id=process_id, consumer="thief"
    ),
    "completion_mode": lambda process_id: CompletionModeRequest(id=process_id, mode="detached"),
}


async def test_an_id_of_another_session_is_refused_in_every_operation(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    other = msgspec.structs.replace(binding, session="s-2")
    async with connect(options) as ours, connect(options) as theirs:
        await ours.initialize(binding)
        await theirs.initialize(other)
        record = await start(ours, "read line; exit 3", tty=True)
        for method, request in OPERATIONS.items():
            with pytest.raises(InvalidArguments, match="No background process of this session"):
                await ask(theirs, method, request(record["id"]))
        assert await ask(theirs, "list", None) == []
        assert await ask(theirs, "cleanup", None) == {"Cleaned": None}
        assert await ask(ours, "get", ProcessRequest(id=record["id"])) == record


async def test_a_record_of_another_session_in_ones_own_folder_is_refused_as_well(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    async with connect(options) as connection:
        await connection.initialize(binding)
        record = await start(connection, "true")
        while (await read(connection, record["id"], 10, 10_000))["Process"]["status"] == "running":
            pass
    path = options.state / "env-1" / "s-1" / "processes" / f"{record['id']}.json"
    kept = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**kept, "root_thread_id": "s-2"}))
    async with connect(options) as connection:
        await connection.initialize(binding)
        for method, request in OPERATIONS.items():
            with pytest.raises(InvalidArguments, match="No background process of this session"):
                await ask(connection, method, request(record["id"]))
        assert await ask(connection, "list", None) == []


async def test_a_blocked_and_cancelled_write_does_not_block_a_stop(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    async with connect(options) as connection:
        await connection.initialize(binding)
        record = await start(connection, "read -r -N 1 x; echo read; sleep 1000")
        blocked = WriteRequest(id=record["id"], input="x" * 1_000_000)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, connection, "write", blocked)
            # The first of it has arrived; for the rest there is no room.
            assert (await read(connection, record["id"], 0, 10_000))["Output"] == "read\n"
            tasks.cancel_scope.cancel()
        stopped = await ask(connection, "stop", ProcessRequest(id=record["id"]))
        assert (stopped["status"], stopped["terminal_cause"]) == ("stopped", "requested_stop")
        with pytest.raises(InvalidArguments, match="has ended; nothing was written"):
            await ask(connection, "write", WriteRequest(id=record["id"], input="y"))
        assert await connection.request("process/list", None, tuple[ProcessRecord, ...])
