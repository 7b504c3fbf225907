"""The topics that Kafka clients see, as records (ADR 28).

Whoever makes a topic says so in the internal topic `__topics`, which links copy: the topic is there
on every cluster. In each cluster that topic is a Kafka partition with a ledger, and of several
records for one name the one with the lowest offset holds. Its owner, the controller, says in
`__catalog` what holds, which stays in the cluster; all gateways believe that.

What a cluster does with a topic afterwards, other settings or its deletion, stays there (ADR 35):
it is asked for in `__changes`, a Kafka partition with a ledger as well, and said in `__catalog`.

A record's value is JSON: `{"topic": "orders", "partitions": 4, "id": "0F…", "configs": {}}`, with
`"stage"` and `"change"` in what is asked for and said afterwards, or that a partition is empty:
`{"topic": "orders", "emptied": 3, "change": 7}`.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.configs import refusal
from dafka.gateway.lines import PLACE_MAX
from dafka.limits import TOPIC_BYTES_MAX
from dafka.model import SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

TOPICS = "__topics"
CHANGES = "__changes"
CATALOG = "__catalog"

CONTROLLED = KafkaPartition(TOPICS, 0)
"""Who owns this is the controller."""

CHANGED = KafkaPartition(CHANGES, 0)
"""Who owns this says what has been changed."""

ORDERED = (CONTROLLED, CHANGED)
"""The partitions whose order says what topics there are, each the only one of its topic."""

INTERNAL = "_"
"""How the names of topics begin that are a cluster's own: Kafka clients do not see them."""

KAFKA_PARTITIONS_MAX = 20_000
"""Of all topics: each has an owner, a ledger and two logs."""

PARTITIONS_USUAL = 1
"""Of a topic for which nobody says how many: as a broker of Kafka's has it."""

_VALUE_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def is_public(name: str) -> bool:
    """Whether Kafka clients may have a topic of this name."""
    legal = _NAME.fullmatch(name) is not None and name not in (".", "..")
    return legal and len(name) <= TOPIC_BYTES_MAX and not name.startswith(INTERNAL)


class TopicStage(Enum):
    """How far a topic is from being there."""

    LIVE = "live"
    DELETED = "deleted"
    """Clients see it no more; its partitions are being emptied."""
    EMPTIED = "emptied"
    """They are: it may be made again."""


class TopicState(NamedTuple):
    """What a cluster has of a name.

    Attributes:
        topic: As it is, or last was.
        stage: Whether it is there.
        change: The number of the change that has made it so, its offset in `__changes` and one; 0
            if nothing has been changed. In what is asked for, the one that was known.
    """

    topic: Topic
    stage: TopicStage = TopicStage.LIVE
    change: int = 0


class EmptiedPartition(NamedTuple):
    """An owner says that what a partition had when its topic was deleted has no offset any more.

    Attributes:
        partition: Which.
        change: The deletion.
    """

    partition: KafkaPartition
    change: int


def encoded_topic(topic: Topic) -> bytes:
    """Return the value of a record that is about a topic."""
    return json.dumps(_fields(topic)).encode()


def encoded_state(state: TopicState) -> bytes:
    """Return the value of a record that says what there is of a name, or is to be."""
    changed = {"stage": state.stage.value, "change": state.change} if state[1:] != _MADE else {}
    return json.dumps(_fields(state.topic) | changed).encode()


def encoded_emptied(emptied: EmptiedPartition) -> bytes:
    """Return the value of a record by which an owner says that a partition is empty."""
    name, number = emptied.partition
    return json.dumps({"topic": name, "emptied": number, "change": emptied.change}).encode()


_MADE = (TopicStage.LIVE, 0)


def _fields(topic: Topic) -> dict[str, object]:
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "id": topic.id.hex,
        "configs": dict(topic.configs),
    }


def decoded_topic(value: bytes | None) -> Topic | None:
    """Read such a value; None if it is none."""
    try:
        return _topic_of(_read(value))
    except _UNREADABLE:
        return None


def decoded_state(value: bytes | None) -> TopicState | None:
    """Read such a value; None if it is none."""
    try:
        fields = _read(value)
        topic = _topic_of(fields)
        stage, change = TopicStage(fields.get("stage", "live")), fields.get("change", 0)
    except _UNREADABLE:
        return None
    return TopicState(topic, stage, change) if topic and _is_place(change) else None


def decoded_emptied(value: bytes | None) -> EmptiedPartition | None:
    """Read such a value; None if it is none."""
    try:
        fields = _read(value)
        name, number, change = fields["topic"], fields["emptied"], fields["change"]
    except _UNREADABLE:
        return None
    if type(name) is not str or not is_public(name) or not (_is_place(number) and change):
        return None
    if not _is_place(change) or number >= SLOTS:
        return None
    return EmptiedPartition(KafkaPartition(name, number), change)


_UNREADABLE = ValueError, TypeError, KeyError, AttributeError, RecursionError


def _read(value: bytes | None) -> dict[str, Any]:
    if value is None or len(value) > _VALUE_BYTES_MAX:
        raise ValueError
    fields = json.loads(value)
    if type(fields) is not dict:
        raise ValueError
    return fields


def _is_place(number: object) -> bool:
    return type(number) is int and 0 <= number <= PLACE_MAX


def _topic_of(fields: dict[str, Any]) -> Topic | None:
    name, partitions = fields["topic"], fields["partitions"]
    configs = fields["configs"]
    topic_id = UUID(hex=fields["id"])
    texts = [*configs, *configs.values(), name]
    if type(partitions) is not int or not 1 <= partitions <= SLOTS or not topic_id.int:
        return None
    if not all(type(one) is str and one.isprintable() for one in texts):
        return None
    if refusal(configs) is not None or not is_public(name):
        return None
    return Topic(name, partitions, topic_id, configs)


class Catalog:
    """The topics of one cluster: of each name the first that is told, and its last change.

    Args:
        partitions_max: Those of all topics together, also of deleted ones, which keep their
            ledgers; topics for which there is no room are not taken in.
    """

    def __init__(self, partitions_max: int = KAFKA_PARTITIONS_MAX) -> None:
        self._states: dict[str, TopicState] = {}
        self._room = partitions_max

    @property
    def topics(self) -> dict[str, Topic]:
        """Those that clients see."""
        states = self._states.values()
        return {one.topic.name: one.topic for one in states if one.stage is TopicStage.LIVE}

    @property
    def known(self) -> dict[str, Topic]:
        """Those, and all that are deleted."""
        return {name: one.topic for name, one in self._states.items()}

    def state(self, name: str) -> TopicState | None:
        """What there is of a name; None if nothing ever was."""
        return self._states.get(name)

    def states(self) -> list[TopicState]:
        """What there is of each name."""
        return list(self._states.values())

    def has_room(self, topic: Topic) -> bool:
        """Whether it would be taken in."""
        return topic.partitions <= self._room

    def add(self, states: Iterable[TopicState]) -> list[TopicState]:
        """Take in what is said, in any order; returns what was not known."""
        added = []
        for state in states:
            known = self._states.get(state.topic.name)
            if known is None:
                news = self.has_room(state.topic)
                self._room -= state.topic.partitions * news
            else:
                same = known.topic.partitions == state.topic.partitions
                news = same and state.change > known.change
            if news:
                self._states[state.topic.name] = state
                added.append(state)
        return added

    def partitions(self) -> list[KafkaPartition]:
        """All partitions there are to share."""
        found = [*ORDERED]
        for topic in self.known.values():
            found += (KafkaPartition(topic.name, number) for number in range(topic.partitions))
        return found

    def numbers(self, name: str) -> int:
        """How many partitions a topic has; 0 if it is none of Kafka clients."""
        if name in (TOPICS, CHANGES):
            return 1
        state = self._states.get(name)
        return 0 if state is None else state.topic.partitions
