"""At which stores a guest listens.

Stores that keep the same have the same records, so one for each slot is enough: one in all where
stores keep everything. A guest stays with it, as to change costs a question for the heads of all
partitions: what was stored meanwhile is a gap. It leaves the one that is gone, that is silent while
others are heard, or that knows less than others for long, as its disk is full or it catches up:
that is in doubt from when another tells of something new until it has told of as much itself.

What a store keeps its STORE-HELLO says. Until that has come the guest listens there, too: what
comes twice is dropped, and what would not come at all is heard of seconds later. The same where it
tells of what it has not said to keep: its last STORE-HELLO was lost.
"""

from __future__ import annotations

import hashlib
from functools import reduce
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from dafka.limits import STORES_MAX
from dafka.model import Partition, Slots
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

ASKED_AFTER_MS = BEHIND_MS_MAX - 500
"""All are asked before one is left: what it fetched, or what was dropped, it has not passed on."""

DOUBTS_MAX = 100
"""Partitions in doubt at once; a store that takes in nothing lacks something of each."""


FromStore = messages.Ack | messages.DirectHead | messages.StoreHello | messages.StoredRecords


class _Behind(NamedTuple):
    """A store that has less of a partition than another."""

    store: str
    reached: int
    """Where that other one has it, at least."""
    since_ms: int


class ChosenStores:
    """They, and what would make them others.

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
        self._slots: dict[str, Slots] = {}
        """What each of them keeps, if it has said so."""
        self._settled_ms = 0
        self._heard_ms: dict[str, int] = {}
        """When each that is chosen was heard of last."""
        self._behind: dict[Partition, _Behind] = {}
        """What they have less of than others, the oldest doubt first."""
        self._asked_ms = 0
        """When all were asked for the last doubt that had lasted."""

    @property
    def stores(self) -> tuple[str, ...]:
        """The ones; none while none is known."""
        return tuple(self._heard_ms)

    @property
    def channels(self) -> list[tuple[MessageId, str]]:
        """What to listen for."""
        keys = (messages.channel(store, topic) for store in self.stores for topic in self._topics)
        return [(MessageId.STORED_RECORDS, key) for key in keys]

    @property
    def due_ms(self) -> int | None:
        """When all are to be asked, if one has less of something until then."""
        oldest = next(iter(self._behind.values()), None)
        if oldest is None:
            return None
        return max(oldest.since_ms + ASKED_AFTER_MS, self._asked_ms + BEHIND_MS_MAX)

    def is_due(self, now_ms: int) -> bool:
        """Whether to ask all now; it is not due again at once then."""
        due = self.due_ms is not None and self.due_ms <= now_ms
        if due:
            self._asked_ms = now_ms
        return due

    def heard(
        self, message: FromStore, is_news: Callable[[Partition, int], bool], now_ms: int
    ) -> list[Effect]:
        """A store has said something; returns what to do if others are chosen now.

        Args:
            message: What.
            is_news: Whether the guest takes a partition, and has heard of nobody with as much.
            now_ms: The time.
        """
        store = message.store
        if store is None:
            return []
        if store not in self._left_ms and len(self._left_ms) >= self._stores_max:
            return []
        new = self._learned(message, store, now_ms)
        if store in self._heard_ms:
            self._heard_ms[store] = now_ms
        silent = [one for one, ms in self._heard_ms.items() if now_ms >= ms + SILENCE_MS_MAX]
        if silent:
            return self._leave(silent, now_ms)
        if new:
            return self._choose(now_ms, anew=now_ms < self._settled_ms)
        if isinstance(message, messages.StoreHello):
            return []
        partition = Partition(message.topic, message.address)
        if store not in self._heard_ms:
            self._doubt(partition, message.sequence, is_news, now_ms)
            return []
        self._told(partition, message)
        late = isinstance(message, messages.DirectHead) and self._is_late(store, now_ms)
        return self._leave([store], now_ms) if late else []

    def gone(self, store: str, now_ms: int) -> list[Effect]:
        """A store's connection has ended; the same."""
        self._left_ms.pop(store, None)
        self._slots.pop(store, None)
        return self._choose(now_ms) if store in self._heard_ms else []

    def check(self) -> None:
        """Assert that all that any store keeps is listened for, and its bound."""
        assert self._heard_ms.keys() <= self._left_ms.keys()
        assert self._left_ms.keys() - self._slots.keys() <= self._heard_ms.keys()
        assert not _joined(self._slots.values()).without(self._listened_for)
        assert len(self._left_ms) <= self._stores_max
        assert len(self._behind) <= DOUBTS_MAX
        assert all(one.store in self._heard_ms for one in self._behind.values())

    @property
    def _listened_for(self) -> Slots:
        return _joined(self._slots[one] for one in self._heard_ms if one in self._slots)

    def _learned(self, message: FromStore, store: str, now_ms: int) -> bool:
        """Whether a store is there, or something else is known of what it keeps."""
        before = len(self._left_ms), self._slots.get(store)
        if not self._left_ms:
            self._settled_ms = now_ms + SETTLING_MS
        self._left_ms.setdefault(store, -1)
        if isinstance(message, messages.StoreHello):
            self._slots[store] = message.slots
        elif store in self._slots and not self._slots[store].keeps(message.topic, message.address):
            del self._slots[store]  # slots have moved, and what it said of that was lost
        return before != (len(self._left_ms), self._slots.get(store))

    def _doubt(
        self,
        partition: Partition,
        head: int,
        is_news: Callable[[Partition, int], bool],
        now_ms: int,
    ) -> None:
        """A store that is not chosen has so much: who is chosen for that should have, too."""
        if now_ms < self._settled_ms or len(self._behind) >= DOUBTS_MAX:
            return
        if partition in self._behind or not is_news(partition, head):
            return
        keeper = next((one for one in self._heard_ms if self._keeps(one, partition)), None)
        if keeper is not None:
            self._behind[partition] = _Behind(keeper, head, now_ms)

    def _keeps(self, store: str, partition: Partition) -> bool:
        """Whether it has said so."""
        return store in self._slots and self._slots[store].keeps(*partition)

    def _told(
        self,
        partition: Partition,
        message: messages.Ack | messages.DirectHead | messages.StoredRecords,
    ) -> None:
        """A chosen one has so much of a partition."""
        behind = self._behind.get(partition)
        more = message.count - 1 if isinstance(message, messages.StoredRecords) else 0
        if behind is None or behind.store != message.store:
            return
        if message.sequence + more >= behind.reached:
            del self._behind[partition]

    def _is_late(self, store: str, now_ms: int) -> bool:
        """Whether it answers, and does not tell of what others have had for long."""
        since = (one.since_ms for one in self._behind.values() if one.store == store)
        oldest_ms = next(since, None)
        return oldest_ms is not None and now_ms >= oldest_ms + BEHIND_MS_MAX

    def _leave(self, stores: Iterable[str], now_ms: int) -> list[Effect]:
        self._left_ms.update(dict.fromkeys(stores, now_ms))
        return self._choose(now_ms, left=stores)

    def _choose(self, now_ms: int, *, anew: bool = False, left: Iterable[str] = ()) -> list[Effect]:
        """Take who keeps something that those before it do not, first those that are listened at.

        Args:
            now_ms: The time.
            anew: Whether these are no better than others.
            left: Those of them that are not.
        """
        before, channels = self._heard_ms, self.channels
        stay = set() if anew else before.keys() - set(left)
        order = sorted(self._left_ms, key=lambda one: (one not in stay, *self._order(one)))
        self._heard_ms = {}
        for store in order:
            slots = self._slots.get(store)
            if slots is None or slots.without(self._listened_for):
                self._heard_ms[store] = before[store] if store in stay else now_ms
        self._behind = {
            partition: one
            for partition, one in self._behind.items()
            if one.store in stay & self._heard_ms.keys() and self._keeps(one.store, partition)
        }
        there = self.channels
        leaving = starmap(Unlisten, (one for one in channels if one not in there))
        return [*leaving, *starmap(Listen, (one for one in there if one not in channels))]

    def _order(self, store: str) -> tuple[int, bytes]:
        """Whom to take first: who was left longest ago, or never; of these by a hash of both."""
        digest = hashlib.blake2b(f"{self._guest}/{store}".encode(), digest_size=8).digest()
        return self._left_ms[store], digest


def _joined(several: Iterable[Slots]) -> Slots:
    return reduce(Slots.joined, several, Slots(0))
