"""The topics that Kafka clients see, as records (ADR 28).

Whoever makes a topic says so in the internal topic `__topics`, which links copy: the topic is there
on every cluster. In each cluster that topic is a Kafka partition with a ledger, and of several
records for one name the one with the lowest offset holds. Its owner, the controller, says in
`__catalog` what holds, which stays in the cluster; all gateways believe that.

A record's value is JSON: `{"topic": "orders", "partitions": 4, "id": "0F…", "configs": {}}`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from uuid import UUID

from dafka.gateway.broker import KafkaPartition, Topic
from dafka.limits import TOPIC_BYTES_MAX
from dafka.model import SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPICS = "__topics"
CATALOG = "__catalog"

CONTROLLED = KafkaPartition(TOPICS, 0)
"""Who owns this is the controller."""

INTERNAL = "_"
"""How the names of topics begin that are a cluster's own: Kafka clients do not see them."""

CONFIGS_MAX = 100
_VALUE_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def is_public(name: str) -> bool:
    """Whether Kafka clients may have a topic of this name."""
    legal = _NAME.fullmatch(name) is not None and name not in (".", "..")
    return legal and len(name) <= TOPIC_BYTES_MAX and not name.startswith(INTERNAL)


def encoded_topic(topic: Topic) -> bytes:
    """Return the value of a record that is about a topic."""
    fields = {
        "topic": topic.name,
        "partitions": topic.partitions,
        "id": topic.id.hex,
        "configs": dict(topic.configs),
    }
    return json.dumps(fields).encode()


def decoded_topic(value: bytes | None) -> Topic | None:
    """Read such a value; None if it is none."""
    if value is None or len(value) > _VALUE_BYTES_MAX:
        return None
    try:
        fields = json.loads(value)
        name, partitions = fields["topic"], fields["partitions"]
        configs = fields["configs"]
        topic_id = UUID(hex=fields["id"])
        texts = [*configs, *configs.values(), name]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if type(partitions) is not int or not 1 <= partitions <= SLOTS or not topic_id.int:
        return None
    if not all(type(one) is str and one.isprintable() for one in texts):
        return None
    if len(configs) > CONFIGS_MAX or not is_public(name):
        return None
    return Topic(name, partitions, topic_id, configs)


class Catalog:
    """The topics of one cluster: of each name the first that is told."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}

    def add(self, topics: Iterable[Topic]) -> list[Topic]:
        """Take topics in, in their order; returns those whose names are new."""
        added = []
        for topic in topics:
            if topic.name not in self.topics:
                self.topics[topic.name] = topic
                added.append(topic)
        return added

    def partitions(self) -> list[KafkaPartition]:
        """All partitions there are to share."""
        found = [CONTROLLED]
        for topic in self.topics.values():
            found += (KafkaPartition(topic.name, number) for number in range(topic.partitions))
        return found

    def numbers(self, name: str) -> int:
        """How many partitions a topic has; 0 if it is none of Kafka clients."""
        if name == TOPICS:
            return 1
        topic = self.topics.get(name)
        return 0 if topic is None else topic.partitions
