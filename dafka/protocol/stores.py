"""Which stores there are, as far as they have been heard of lately, and when to ask them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import STORES_MAX
from dafka.model import ALL_SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.model import Partition, Slots


STORE_SILENCE_MS = 30_000
"""A store not heard of for so long is not waited for."""

HEADS_INTERVAL_MS_MAX = 20_000
"""Longest interval of GET-HEADS, to which each that is there has an answer; it is below that. Who
has heard of all by other ways need not ask."""

FRESH_MS = 5_000
"""Who was heard of so lately need not be asked this time: when it is due next, it still counts as
there, with as much to spare."""


class KnownStores:
    """The stores of one cluster.

    Args:
        stores_max: How many are known at most.
    """

    def __init__(self, stores_max: int = STORES_MAX) -> None:
        self._stores_max = stores_max
        self._heard_ms: dict[str, int] = {}
        self._slots: dict[str, Slots] = {}
        """What those keep that have said that it is some slots only."""
        self._silent: set[str] = set()
        """Those that have not answered a FETCH, and not been heard of since."""

    def __contains__(self, store: object) -> bool:
        return store in self._heard_ms

    def heard_from(self, store: str, now_ms: int) -> bool:
        """A store is there; False if there are as many as may be, and this one is none of them."""
        if store not in self._heard_ms and len(self._heard_ms) >= self._stores_max:
            self._heard_ms = {one: self._heard_ms[one] for one in self.alive(now_ms)}
            self._slots = {one: self._slots[one] for one in self._slots.keys() & self._heard_ms}
            self._silent &= self._heard_ms.keys()
            if len(self._heard_ms) >= self._stores_max:
                return False
        self._heard_ms[store] = now_ms
        self._silent.discard(store)
        return True

    def keeps(self, store: str, slots: Slots) -> None:
        """A store that was heard of says which slots it keeps."""
        assert store in self._heard_ms
        if slots == ALL_SLOTS:
            self._slots.pop(store, None)
        else:
            self._slots[store] = slots

    def told_of(self, partition: Partition, store: str) -> None:
        """A store has told of a partition. It keeps it, whatever it said before: slots move."""
        if not self.slots_of(store).keeps(*partition):
            del self._slots[store]

    def slots_of(self, store: str) -> Slots:
        """What a store keeps; all, as far as it has not said."""
        return self._slots.get(store, ALL_SLOTS)

    def fell_silent(self, stores: Iterable[str]) -> None:
        """These have not answered: until one is heard of nothing is asked of it alone."""
        self._silent.update(self._heard_ms.keys() & stores)

    def answers(self, store: str | None) -> bool:
        """Whether it may be asked alone."""
        return store not in self._silent

    def all_fresh(self, now_ms: int) -> bool:
        """Whether there are some, and each that ever was has been heard of just now.

        Those not heard of for long, too: who is not asked any more could never come back.
        """
        return bool(self._heard_ms) and now_ms <= min(self._heard_ms.values()) + FRESH_MS

    def alive(self, now_ms: int) -> Iterator[str]:
        """Yield those that have not been silent for long."""
        for store, heard_ms in self._heard_ms.items():
            if now_ms < heard_ms + STORE_SILENCE_MS:
                yield store

    def keepers(self, partition: Partition, now_ms: int) -> Iterator[str]:
        """Yield those of them that may have a partition."""
        for store in self.alive(now_ms):
            if self.slots_of(store).keeps(*partition):
                yield store


SETTLING_MS = 3_000
"""So long after the last news of what was there before, all of it is known: a beacon takes 1 s, and
GET-HEADS is sent three times by then."""

SETTLING_MS_MAX = 30_000
"""By then it is over, whatever comes: where producers come and go there is always news."""


class Baseline:
    """Whether a partition that is heard of for the first time was there before whoever asks.

    Nobody says so, nor does a store say that it has named all it has. So what is heard of while
    there is news from the first peers, or from a store that was not known, counts as old; what
    comes when that is over has begun since.
    """

    def __init__(self) -> None:
        self._began_ms: int | None = None
        self._news_ms = 0

    def heard(self, now_ms: int) -> None:
        """Something has come from somebody: before that nothing could be known."""
        if self._began_ms is None:
            self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        """A store is there that was not known: what it has may be old."""
        self._began_ms = self._news_ms = now_ms

    def is_old(self, now_ms: int) -> bool:
        """Whether what is heard of now for the first time was there before."""
        if self._began_ms is None:
            return True
        settled_ms = min(self._news_ms + SETTLING_MS, self._began_ms + SETTLING_MS_MAX)
        if now_ms >= settled_ms:
            return False
        self._news_ms = now_ms
        return True


_INTERVAL_MS = 500
"""First repetition of GET-HEADS: the mesh takes about a beacon interval to form."""


class Inquiry:
    """When GET-HEADS is due.

    The partition of a dead producer is announced by nobody, so whoever wants all asks for heads: at
    once, soon again because a mesh takes a moment to form, then ever more rarely, in case an answer
    was lost. Source: 46/DAFKA, The GET-HEADS Command.

    Args:
        interval_ms_max: The longest interval.
    """

    def __init__(self, interval_ms_max: int) -> None:
        self._interval_ms_max = interval_ms_max
        self._interval_ms = _INTERVAL_MS
        self.due_ms: int | None = None
        """When to ask next; None before the first `renew`."""
        self.passed_ms: int | None = None
        """When it was due last."""

    def renew(self, now_ms: int) -> None:
        """Ask at once and often: somebody new may have something new."""
        self.due_ms = now_ms if self.due_ms is None else min(self.due_ms, now_ms)
        self._interval_ms = _INTERVAL_MS

    def asked(self, now_ms: int, *, told: bool = False) -> bool:
        """Whether to ask now; the next time is planned then.

        Args:
            now_ms: The time.
            told: Whether what an answer would say has been said since it was due last: then it is
                only asked soon after `renew`.
        """
        if self.due_ms is None or self.due_ms > now_ms:
            return False
        soon = self._interval_ms <= 2 * _INTERVAL_MS
        self.passed_ms, self.due_ms = now_ms, now_ms + self._interval_ms
        self._interval_ms = min(self._interval_ms * 2, self._interval_ms_max)
        return soon or not told
