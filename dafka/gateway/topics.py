"""Topics that clients make, and what they ask about their configs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dafka.gateway.admin import TOPIC_NAME
from dafka.gateway.broker import ErrorCode
from dafka.gateway.catalog import INTERNAL
from dafka.gateway.configs import (
    ConfigSource,
    cluster_configs,
    described,
    gateway_configs,
    refusal,
)
from dafka.gateway.patience import patience_s, together
from dafka.limits import TOPIC_BYTES_MAX
from dafka.model import SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import SimpleNamespace

    from dafka.gateway.broker import Broker
    from dafka.gateway.configs import ConfigKind

_DEFAULT = -1
"""In place of a number of partitions or replicas."""

_COPIES = 1
"""Replicas that clients are told of: how many stores keep a record is the cluster's matter."""

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


async def create_topics(broker: Broker, body: SimpleNamespace, partitions: int) -> dict[str, Any]:
    """Make topics, or only say whether they can be made; all at once, while the client waits.

    Args:
        broker: The node.
        body: What is asked for.
        partitions: Of topics for which no number is given.
    """
    named = Counter(one.name for one in body.topics)
    made = await together(
        _create(broker, one, body, partitions, twice=named[one.name] > 1) for one in body.topics
    )
    return {"topics": made}


async def _create(
    broker: Broker, asked: SimpleNamespace, body: SimpleNamespace, partitions: int, *, twice: bool
) -> dict[str, Any]:
    count = partitions if asked.num_partitions == _DEFAULT else asked.num_partitions
    configs = {one.name: one.value for one in asked.configs}
    error, why = _creation_refusal(broker, asked, count, configs, twice=twice)
    set_ = {name: value for name, value in configs.items() if value is not None}
    if error is ErrorCode.NONE and not body.validate_only:
        error = await broker.create(asked.name, count, set_, patience_s(body))
    if error is not ErrorCode.NONE:
        return {"name": asked.name, "error_code": error, "error_message": why}
    made = broker.topic(asked.name)
    answer = {
        "name": asked.name,
        "num_partitions": count,
        "replication_factor": _COPIES,
        "configs": list(described(set_, None)),
    }
    return answer if made is None else answer | {"topic_id": made.id}


def _creation_refusal(
    broker: Broker,
    asked: SimpleNamespace,
    count: int,
    configs: dict[str, str | None],
    *,
    twice: bool,
) -> tuple[ErrorCode, str | None]:
    """Why a topic cannot be made."""
    why = refusal(configs)
    factor = asked.replication_factor
    refusals = [
        (twice, ErrorCode.INVALID_REQUEST, "the topic is named twice"),
        (
            not TOPIC_NAME.fullmatch(asked.name),
            ErrorCode.INVALID_TOPIC,
            f"1 to {TOPIC_BYTES_MAX} letters, digits, dots, underscores and hyphens are a name",
        ),
        (
            asked.name.startswith(INTERNAL),
            ErrorCode.INVALID_TOPIC,
            "topics whose names begin with an underscore are the cluster's own",
        ),
        (
            broker.topic(asked.name) is not None,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            f"topic {asked.name!r} is there already",
        ),
        (
            bool(asked.assignments),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the gateways share partitions among themselves",
        ),
        (
            not 1 <= count <= SLOTS,
            ErrorCode.INVALID_PARTITIONS,
            f"a topic has 1 to {SLOTS} partitions",
        ),
        (
            factor != _DEFAULT and factor < 1,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "a record is stored once at least",
        ),
        (why is not None, ErrorCode.INVALID_CONFIG, why),
    ]
    for refused, error, text in refusals:
        if refused:
            return error, text
    return ErrorCode.NONE, None


def create_partitions(broker: Broker, body: SimpleNamespace) -> dict[str, Any]:
    """Refuse to: the number says which records are in which partition, on every cluster."""
    return {
        "results": [
            {
                "name": one.name,
                "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if broker.topic(one.name) is None
                else ErrorCode.INVALID_PARTITIONS,
                "error_message": "a topic has the number of partitions that it was made with",
            }
            for one in body.topics
        ]
    }


def describe_configs(
    broker: Broker, body: SimpleNamespace, partitions: int, *, on_demand: bool
) -> dict[str, Any]:
    """Return the configs of topics and gateways, of each once, however often it is named.

    Args:
        broker: The node.
        body: What is asked for.
        partitions: Of topics for which no number is given.
        on_demand: Whether topics are made when a client asks for them.
    """
    answers = []
    once = {(one.resource_type, one.resource_name): one for one in body.resources}
    for asked in once.values():
        answer = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
        if asked.resource_type == BROKER_RESOURCE:
            answer |= _of_gateway(broker, asked, partitions, on_demand=on_demand)
        else:
            answer |= _of_topic(broker, asked)
        answers.append(answer)
    return {"results": answers}


def _of_gateway(
    broker: Broker, asked: SimpleNamespace, partitions: int, *, on_demand: bool
) -> dict[str, Any]:
    if not asked.resource_name:  # what is so for all of them
        return {"configs": _read_only(asked, cluster_configs(broker.entrance))}
    for gateway in broker.gateways():
        if str(gateway.node) == asked.resource_name:
            rows = gateway_configs(gateway, partitions, on_demand=on_demand)
            return {"configs": _read_only(asked, rows)}
    why = f"there is no gateway {asked.resource_name!r}"
    return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": why}


def _read_only(
    asked: SimpleNamespace, rows: Iterable[tuple[str, ConfigKind, str]]
) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "value": value,
            "read_only": True,
            "config_source": ConfigSource.GATEWAY,
            "config_type": kind,
            "documentation": None,
        }
        for name, kind, value in rows
        if asked.configuration_keys is None or name in asked.configuration_keys
    ]


def _of_topic(broker: Broker, asked: SimpleNamespace) -> dict[str, Any]:
    kind, name = asked.resource_type, asked.resource_name
    topic = broker.topic(name) if kind == TOPIC_RESOURCE else None
    if topic is not None:
        return {"configs": list(described(topic.configs, asked.configuration_keys))}
    if kind == TOPIC_RESOURCE:
        why = f"there is no topic {name!r}"
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "error_message": why}
    why = "topics and brokers have configs"
    return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": why}
