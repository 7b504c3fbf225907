"""What clients ask about the cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dafka.gateway.broker import NOBODY, ErrorCode, KafkaPartition
from dafka.gateway.patience import together
from dafka.limits import TOPIC_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import SimpleNamespace
    from uuid import UUID

    from dafka.gateway.broker import Broker, Topic

TOPIC_NAME = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{TOPIC_BYTES_MAX}}}")

ON_DEMAND_S = 1.0
"""How long a topic is waited for that is made because somebody asks for it. What else the client
sends waits meanwhile, and it asks again."""

_BEING_MADE = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS
"""What is said of a topic that is not known here yet: the client asks again."""


async def metadata(
    broker: Broker, version: int, body: SimpleNamespace, partitions: int | None
) -> dict[str, Any]:
    """Return the gateways, and the topics asked for; makes those that are not there, if it may.

    Args:
        broker: The node.
        version: Of the request.
        body: What is asked for.
        partitions: Of topics that are made because somebody asks for them; None to make none.
    """
    made = partitions if getattr(body, "allow_auto_topic_creation", True) else None
    if body.topics is None or (version == 0 and not body.topics):
        # One name that clients cannot read would keep all others from them.
        named = [topic for topic in broker.topics() if TOPIC_NAME.fullmatch(topic.name)]
        topics = [_topic(broker, topic) for topic in named]
    else:
        # Each is told once: of a topic with thousands of partitions a name asks for much.
        asked = {one.topic_id if one.name is None else one.name: one for one in body.topics}
        ids = by_id(broker) if any(one.name is None for one in body.topics) else {}
        names = [one.name for one in asked.values() if one.name is not None]
        await look_for(broker, names)
        errors = {} if made is None else await _made(broker, names, made)
        topics = [_asked(broker, one, ids, errors) for one in asked.values()]
    return {
        "brokers": _brokers(broker, "node_id"),
        "cluster_id": broker.cluster_id,
        "controller_id": broker.controller(),
        "topics": topics,
    }


async def _made(broker: Broker, names: Iterable[str], partitions: int) -> dict[str, ErrorCode]:
    """Make the topics that are not there; by name, what came of it."""
    new = [name for name in names if broker.topic(name) is None and TOPIC_NAME.fullmatch(name)]
    making = (broker.create(name, partitions, {}, ON_DEMAND_S) for name in new)
    return dict(zip(new, await together(making), strict=True))


def _asked(
    broker: Broker,
    asked: SimpleNamespace,
    ids: dict[UUID, Topic],
    made: dict[str, ErrorCode],
) -> dict[str, Any]:
    """One topic that was asked for by name, or else by id."""
    if asked.name is None:
        topic = ids.get(asked.topic_id)
        if topic is None:
            return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "topic_id": asked.topic_id}
        return _topic(broker, topic)
    topic = broker.topic(asked.name)
    if topic is not None:
        return _topic(broker, topic)
    error = made.get(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not TOPIC_NAME.fullmatch(asked.name):
        error = ErrorCode.INVALID_TOPIC
    error = ErrorCode.LEADER_NOT_AVAILABLE if error in _BEING_MADE else error
    return {"error_code": error, "name": asked.name}


def _topic(broker: Broker, topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.name.startswith("__"),
        "partitions": [
            _partition(broker, KafkaPartition(topic.name, number))
            for number in range(topic.partitions)
        ],
    }


def _partition(broker: Broker, partition: KafkaPartition) -> dict[str, Any]:
    node, epoch = broker.leader(partition)
    replicas = () if node == NOBODY else (node,)
    return {
        "error_code": ErrorCode.LEADER_NOT_AVAILABLE if node == NOBODY else ErrorCode.NONE,
        "partition_index": partition.number,
        "leader_id": node,
        "leader_epoch": epoch,
        "replica_nodes": replicas,
        "isr_nodes": replicas,
    }


def _brokers(broker: Broker, number: str) -> list[dict[str, Any]]:
    return [{number: node, "host": host, "port": port} for node, host, port in broker.gateways()]


async def look_for(broker: Broker, names: Iterable[str]) -> None:
    """Hear of topics that another gateway may have made, before it is said that they are not there.

    A group that shares partitions may not ask again for minutes, a reader begins at the end.
    """
    if any(broker.topic(name) is None for name in names):
        await broker.look()


def by_id(broker: Broker) -> dict[UUID, Topic]:
    """All topics by their ids."""
    return {topic.id: topic for topic in broker.topics()}


def describe_cluster(broker: Broker) -> dict[str, Any]:
    """Return the gateways."""
    return {
        "cluster_id": broker.cluster_id,
        "controller_id": broker.controller(),
        "brokers": _brokers(broker, "broker_id"),
    }


async def init_producer_id(broker: Broker, body: SimpleNamespace) -> dict[str, Any]:
    """Give a producer its number; none to one that wants transactions."""
    nobody = {"producer_id": -1, "producer_epoch": -1}
    if body.transactional_id is not None:
        return nobody | {"error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    given = await broker.producer_id()
    if isinstance(given, ErrorCode):
        return nobody | {"error_code": given}
    return {"producer_id": given[0], "producer_epoch": given[1]}
