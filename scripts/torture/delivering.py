"""Tells consumers how processes ended, and keeps account of who was told.

What is asked of the session is here alone: to list, and to claim one end for one consumer.
"""

from __future__ import annotations

from itertools import count

from moorage.errors import ExecutionError
from moorage.host.session import Session
from torture.proofs import Deliveries, is_owed

_numbers = count(1)


def new_consumer() -> str:
    """Return the name of a consumer that hears of one end only."""
    return f"consumer-{next(_numbers)}"


async def deliver(session: Session, deliveries: Deliveries) -> int:
    """Claim every end that nobody has heard of; return how many were ours."""
    number = 0
    for record in await session.processes.list():
        if is_owed(record) and not record.completion_consumed_by:
            number += await _claim(session, record.id, deliveries)
    return number


async def _claim(session: Session, process_id: str, deliveries: Deliveries) -> bool:
    consumer = new_consumer()
    try:
        record = await session.processes.acknowledge(process_id, consumer=consumer)
    except ExecutionError:
        deliveries.unanswered.add((process_id, consumer))
        raise
    is_ours = record.completion_consumed_by == consumer
    if is_ours:
        deliveries.told.append((process_id, consumer))
    return is_ours


async def read_as_model(session: Session, process_id: str, deliveries: Deliveries) -> str:
    """Read the newest output as a model would, which also takes note of an end."""
    actor = new_consumer()
    arguments = {"action": "read", "process_id": process_id}
    try:
        result = await session.call("bash", arguments, actor=actor)
    except ExecutionError:
        deliveries.unanswered.add((process_id, f"read:{actor}"))
        raise
    told = (result.structured_content or {}).get("process", {})
    if told.get("completion_consumed_by") == f"read:{actor}":
        deliveries.told.append((process_id, f"read:{actor}"))
    return result.text if result.is_error else ""
