"""Produce: batches are checked by their headers, and go to the node as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.errors import RecordError, RequestError
from dafka.gateway.broker import ErrorCode, KafkaPartition, Placed
from dafka.gateway.configs import batch_bytes_max
from dafka.gateway.patience import patience_s
from dafka.records.client_batch import checked_batch
from dafka.records.compression import Codec
from dafka.records.header import CODEC_MASK

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import SimpleNamespace

    from dafka.gateway.broker import Broker

_ACKS = (-1, 0, 1)
_ZSTD_FROM = 7
"""The version of Produce from which a client knows that readers can take zstd."""


async def produce(broker: Broker, version: int, body: SimpleNamespace) -> dict[str, Any] | None:
    """Store what a client sends; None if it wants no answer.

    All of it is given to the node before anything is waited for, so that the next request of the
    same client comes behind it.

    Raises:
        RequestError: It was not stored, and the client wants no answer: to be disconnected is how
            it hears of that.
    """
    begun = [
        (topic.name, one.index, _begin(broker, version, body, topic.name, one))
        for topic in body.topic_data
        for one in topic.partition_data
    ]
    answers: dict[str, list[dict[str, Any]]] = {topic.name: [] for topic in body.topic_data}
    for name, index, begin in begun:
        done = begin if isinstance(begin, Placed) else await begin
        if body.acks == 0 and done.error is not ErrorCode.NONE:
            raise RequestError(f"produce without an answer: {done.error.name}")
        answers[name].append(
            {
                "index": index,
                "error_code": done.error,
                "base_offset": done.offset,
                "log_start_offset": done.start,
            }
        )
    if body.acks == 0:
        return None
    return {
        "responses": [
            {"name": name, "partition_responses": partitions}
            for name, partitions in answers.items()
        ]
    }


def _begin(
    broker: Broker, version: int, body: SimpleNamespace, name: str, sent: SimpleNamespace
) -> Placed | Awaitable[Placed]:
    """Give one batch to the node, or say why not."""
    if body.acks not in _ACKS:
        return Placed(ErrorCode.INVALID_REQUIRED_ACKS)
    if body.transactional_id is not None:
        return Placed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topic = broker.topic(name)
    if topic is None or not 0 <= sent.index < topic.partitions:
        return Placed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = _refusal(version, sent.records or b"", batch_bytes_max(topic.configs))
    if error is not None:
        return Placed(error)
    partition = KafkaPartition(name, sent.index)
    return broker.append(partition, sent.records, body.acks, patience_s(body))


def _refusal(version: int, batch: bytes, bytes_max: int) -> ErrorCode | None:
    """Why a batch cannot be stored; None if it can."""
    if len(batch) > bytes_max:
        return ErrorCode.MESSAGE_TOO_LARGE
    try:
        fields = checked_batch(batch)
    except RecordError as error:
        damaged = error.reason == "batch checksum"  # clients send it again, and nothing else
        return ErrorCode.CORRUPT_MESSAGE if damaged else ErrorCode.INVALID_RECORD
    if fields.producer_id >= 0 and min(fields.producer_epoch, fields.base_sequence) < 0:
        return ErrorCode.INVALID_RECORD
    if fields.attributes & CODEC_MASK == Codec.ZSTD and version < _ZSTD_FROM:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return None
