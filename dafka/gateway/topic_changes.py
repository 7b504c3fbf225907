"""What clients want of topics, step by step, and what follows from changes in their order (ADR 35).

A change names the one that it follows, and is void if another did: so whoever reads `__changes` in
the order of its ledger comes to the same topics, whichever controller it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.gateway.broker import ErrorCode, Topic
from dafka.gateway.catalog import EmptiedPartition, TopicStage, TopicState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class MakeTopic:
    """Event: make a topic; answered by `TopicMade` once it is there."""

    token: int
    topic: Topic

    @property
    def name(self) -> str:
        """Of the topic."""
        return self.topic.name

    def step(self, state: TopicState | None) -> TopicState | ErrorCode | None:
        """What is to be asked for next, or what has become of it; None: wait."""
        match state:
            case None:
                return TopicState(self.topic)
            case TopicState(topic, TopicStage.LIVE):
                mine = topic.id == self.topic.id
                return ErrorCode.NONE if mine else ErrorCode.TOPIC_ALREADY_EXISTS
            case TopicState(topic) if topic.partitions != self.topic.partitions:
                return ErrorCode.INVALID_PARTITIONS
            case TopicState(stage=TopicStage.EMPTIED):
                return TopicState(self.topic, TopicStage.LIVE, state.change)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Event: delete a topic; answered by `TopicMade` once all its partitions are empty."""

    token: int
    name: str
    id: UUID

    def step(self, state: TopicState | None) -> TopicState | ErrorCode | None:
        """See `MakeTopic`."""
        match state:
            case None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            case TopicState(stage=TopicStage.DELETED):
                return None
            case TopicState(topic, TopicStage.LIVE) if topic.id == self.id:
                return state._replace(stage=TopicStage.DELETED)
            case _:
                return ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """Event: let a topic have other settings; answered by `TopicMade`.

    Attributes:
        token: Of the question.
        name: Of the topic.
        configs: What is set, or with None is what it is where nothing is.
        whole: Whether nothing else is set any more.
    """

    token: int
    name: str
    configs: Mapping[str, str | None]
    whole: bool

    def step(self, state: TopicState | None) -> TopicState | ErrorCode | None:
        """See `MakeTopic`."""
        if state is None or state.stage is not TopicStage.LIVE:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        altered = {**({} if self.whole else state.topic.configs), **self.configs}
        configs = {name: value for name, value in altered.items() if value is not None}
        if configs == state.topic.configs:
            return ErrorCode.NONE
        return state._replace(topic=state.topic._replace(configs=configs))


class TopicChanges:
    """What changes make of topics, in their order.

    Args:
        said: What owners before have said of topics. That followed from the same order, so nobody
            need have what it followed from any more.
    """

    def __init__(self, said: Iterable[TopicState] = ()) -> None:
        self._last: dict[str, int] = {}
        """By name, the number of the last change that holds."""
        self._emptying: dict[str, tuple[TopicState, set[int]]] = {}
        """Of what is deleted, the partitions that are not empty yet."""
        for state in said:
            self._hold(state)

    def take(self, number: int, change: TopicState | EmptiedPartition) -> TopicState | None:
        """Take the next one in; what there is of its topic from now on, None if it is void."""
        if isinstance(change, EmptiedPartition):
            return self._empty(number, change)
        name = change.topic.name
        last = self._last.get(name, 0)
        void = change.change != last or number <= last
        if void or name in self._emptying or change.stage is TopicStage.EMPTIED:
            return None
        state = change._replace(change=number)
        self._hold(state)
        return state

    def _hold(self, state: TopicState) -> None:
        name = state.topic.name
        self._last[name] = state.change
        if state.stage is TopicStage.DELETED:
            self._emptying[name] = state, set(range(state.topic.partitions))

    def _empty(self, number: int, emptied: EmptiedPartition) -> TopicState | None:
        name = emptied.partition.topic
        state, left = self._emptying.get(name, (None, set()))
        if state is None or state.change != emptied.change:
            return None
        left.discard(emptied.partition.number)
        if left:
            return None
        del self._emptying[name]
        self._last[name] = number
        return state._replace(stage=TopicStage.EMPTIED, change=number)
