"""What a store is asked of heads: told at once if that is little, else in parts.

A question has a hundred octets, its answer a head for each partition of a topic, or of all: ten of
them a second can be all that a store has time for. So only so many partitions are looked at in a
turn of its loop, which otherwise stores and acknowledges. What is left then waits (`FairQueue`),
and who asks again while he waits is told once. Who has waited as long as a store does before it
asks again is told nothing: he has asked again, or wants to know no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import HEAD_QUESTIONS_MAX, HEAD_QUESTIONS_PEER_MAX, HEADS_AT_ONCE_MAX
from dafka.protocol.fair_queue import FairQueue
from dafka.protocol.stores import HEADS_INTERVAL_MS_MAX
from dafka.wire.messages import ConsumerHello, GetHeads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dafka.model import Partition
    from dafka.protocol.heads import TopicHeads

HeadQuestion = GetHeads | ConsumerHello


class HeadQuestions:
    """Those of one store.

    Args:
        heads: What it tells of.
        listens: Whether a requester does, so that it is told anything: else a peer could name any
            number of requesters, for each of which all partitions of a topic are looked at.
        at_once_max: Partitions looked at in one turn.
        peer_max: Questions of one key, or node where there are no keys, that wait.
        all_max: Of all.
    """

    def __init__(
        self,
        heads: TopicHeads,
        listens: Callable[[str], bool] = lambda _requester: True,
        at_once_max: int = HEADS_AT_ONCE_MAX,
        peer_max: int = HEAD_QUESTIONS_PEER_MAX,
        all_max: int = HEAD_QUESTIONS_MAX,
    ) -> None:
        self._heads, self._listens, self._at_once_max = heads, listens, at_once_max
        self._queue: FairQueue[tuple[GetHeads, int]] = FairQueue(peer_max, all_max)
        """With when they came."""
        self._begun: tuple[GetHeads, Iterator[Partition]] | None = None
        """The question that is being answered, and what has not been looked at for it."""
        self._left = at_once_max
        """So many more may be looked at in this turn."""
        self._ended_ms = 0

    def wakeup_ms(self) -> int | None:
        """When to go on: at once, if something is left."""
        return self._ended_ms if self._begun or self._queue else None

    def add(self, question: HeadQuestion, now_ms: int) -> bool:
        """Take a question in, or one for each topic of a greeting; False if there is no room."""
        if isinstance(question, ConsumerHello):
            questions = [GetHeads(topic, question.consumer) for topic in question.topics]
            taken = [self.add(each, now_ms) for each in questions]
            return all(taken)
        if question.topic and question.topic not in self._heads.topics:
            return True  # nothing is to be said
        return self._queue.add(question.requester, question.topic, (question, now_ms))

    def turn_ended(self, now_ms: int) -> None:
        """As many may be looked at again."""
        self._left, self._ended_ms = self._at_once_max, now_ms

    def told(self, now_ms: int) -> Iterator[tuple[str, Partition]]:
        """Yield whom to tell of which partition now; it may have gone meanwhile."""
        while self._left > 0:
            if self._begun is None:
                waiting = self._queue.pop()
                if waiting is None:
                    return
                question, asked_ms = waiting
                late = now_ms >= asked_ms + HEADS_INTERVAL_MS_MAX
                if late or not self._listens(question.requester):
                    continue
                self._begun = question, iter(self._heads.of((question.topic,)))
            question, places = self._begun
            self._left -= 1  # also where nothing is found
            partition = next(places, None)
            if partition is None:
                self._begun = None
            elif question.slots.keeps(*partition):
                yield question.requester, partition
