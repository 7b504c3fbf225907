"""At which store a guest listens.

Stores have the same records, so one is enough. A guest stays with it, as to change costs a question
for the heads of all partitions: what was stored meanwhile is a gap. It leaves the one that is gone,
that is silent while others are heard, or that knows less than others for long, as its disk is full
or it catches up.
"""

from __future__ import annotations

import hashlib
from itertools import starmap
from typing import TYPE_CHECKING

from dafka.limits import STORES_MAX
from dafka.model import Partition
from dafka.protocol.effects import Listen, Unlisten
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dafka.protocol.effects import Effect

SETTLING_MS = 3_000
"""So long after the first store is found a better one is taken; all are found by then, and each
guest takes the one that its address and the store's give the highest hash: they spread."""

SILENCE_MS_MAX = 25_000
"""Each answers GET-HEADS, which is repeated every 10 s: this is two that are lost."""

BEHIND_MS_MAX = 5_000
"""A store is a write later than another, and a write may take a second."""


FromStore = messages.Ack | messages.DirectHead | messages.StoreHello | messages.StoredRecords


class ChosenStore:
    """The one, and what would make it another.

    Args:
        guest: The address of who listens.
        topics: For what; none means all.
        stores_max: How many are known at most.
    """

    def __init__(self, guest: str, topics: Iterable[str], stores_max: int = STORES_MAX) -> None:
        self._guest = guest
        self._topics = tuple(topics) or ("",)
        self._stores_max = stores_max
        self._left_ms: dict[str, int] = {}
        """Of each store that is there, when it was left; -1 if it was not."""
        self._settled_ms = 0
        self._heard_ms = 0
        """When the chosen one was heard of last."""
        self._behind: tuple[Partition, int, int] | None = None
        """A partition that it has less of than another, up to where that has it, and since when."""
        self.store: str | None = None
        """None while none is known."""

    @property
    def channels(self) -> list[tuple[MessageId, str]]:
        """What to listen for."""
        if self.store is None:
            return []
        keys = [messages.channel(self.store, topic) for topic in self._topics]
        return [(MessageId.STORED_RECORDS, key) for key in keys]

    @property
    def doubted_ms(self) -> int | None:
        """Since when it has less of something than another, as far as is known."""
        return None if self._behind is None else self._behind[2]

    def heard(
        self, message: FromStore, reached: Callable[[Partition], int], now_ms: int
    ) -> list[Effect]:
        """A store has said something; returns what to do if another is chosen now.

        Args:
            message: What.
            reached: The last sequence that any store has been heard to have of a partition.
            now_ms: The time.
        """
        store = message.store
        if store is None:
            return []
        if store != self.store:
            return self._other(store, now_ms)
        self._heard_ms = now_ms
        if not isinstance(message, messages.DirectHead):
            return []
        partition = Partition(message.topic, message.address)
        return self._told(partition, message.sequence, reached(partition), now_ms)

    def gone(self, store: str, now_ms: int) -> list[Effect]:
        """A store's connection has ended; the same."""
        self._left_ms.pop(store, None)
        return self._choose(now_ms) if store == self.store else []

    def _other(self, store: str, now_ms: int) -> list[Effect]:
        known = store in self._left_ms
        if not known and len(self._left_ms) >= self._stores_max:
            return []
        self._left_ms.setdefault(store, -1)
        if self.store is None:
            self._settled_ms = now_ms + SETTLING_MS
            return self._choose(now_ms)
        if now_ms >= self._heard_ms + SILENCE_MS_MAX:
            return self._leave(now_ms)
        return [] if known or now_ms >= self._settled_ms else self._choose(now_ms)

    def _told(self, partition: Partition, head: int, known: int, now_ms: int) -> list[Effect]:
        """The chosen one says how far it has a partition."""
        behind, reached, since_ms = self._behind or (partition, head, now_ms)
        if partition == behind and head >= reached:
            self._behind = None
        if self._behind is None or now_ms >= since_ms + SILENCE_MS_MAX:
            # Of one that it is never heard of again nothing is known.
            self._behind = (partition, known, now_ms) if head < known else None
            return []
        late = partition == behind and now_ms >= since_ms + BEHIND_MS_MAX
        return self._leave(now_ms) if late else []

    def check(self) -> None:
        """Assert that one is chosen while there is one, and its bound."""
        assert (self.store is None) == (not self._left_ms)
        assert self.store is None or self.store in self._left_ms
        assert len(self._left_ms) <= self._stores_max

    def _leave(self, now_ms: int) -> list[Effect]:
        assert self.store is not None
        self._left_ms[self.store] = now_ms
        return self._choose(now_ms)

    def _choose(self, now_ms: int) -> list[Effect]:
        before, left = self.store, self.channels
        self.store = min(self._left_ms, key=self._order, default=None)
        self._heard_ms, self._behind = now_ms, None
        if self.store == before:
            return []
        return [*starmap(Unlisten, left), *starmap(Listen, self.channels)]

    def _order(self, store: str) -> tuple[int, bytes]:
        """Whom to take first: who was left longest ago, or never; of these by a hash of both."""
        digest = hashlib.blake2b(f"{self._guest}/{store}".encode(), digest_size=8).digest()
        return self._left_ms[store], digest
