"""DeleteRecords: clients let the offsets of a partition begin later; the records are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.fetch import refusal
from dafka.gateway.patience import patience_s, together

if TYPE_CHECKING:
    from types import SimpleNamespace

    from dafka.gateway.broker import Broker, Offsets

_NO_OFFSET = -1


async def delete_records(broker: Broker, body: SimpleNamespace) -> dict[str, Any]:
    """Let partitions begin at the offsets that a client names; the answer is where they do."""
    timeout_s = patience_s(body)
    asked = [(topic.name, one) for topic in body.topics for one in topic.partitions]
    begun = await together(_delete(broker, name, one, timeout_s) for name, one in asked)
    answers: dict[str, list[dict[str, Any]]] = {topic.name: [] for topic in body.topics}
    for (name, _), fields in zip(asked, begun, strict=True):
        answers[name].append(fields)
    return {
        "topics": [{"name": name, "partitions": partitions} for name, partitions in answers.items()]
    }


async def _delete(
    broker: Broker, topic: str, asked: SimpleNamespace, timeout_s: float
) -> dict[str, Any]:
    partition = KafkaPartition(topic, asked.partition_index)
    begun: Offsets | ErrorCode = refusal(broker, partition, epoch=-1)
    if begun is ErrorCode.NONE:
        begun = await broker.delete_records(partition, asked.offset, timeout_s)
    error, start = (begun, _NO_OFFSET) if isinstance(begun, ErrorCode) else (0, begun.start)
    return {"partition_index": partition.number, "low_watermark": start, "error_code": error}
