"""Which stores there are, as far as they have been heard of lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import STORES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

STORE_SILENCE_MS = 30_000
"""A store not heard of for so long is not waited for."""

HEADS_INTERVAL_MS_MAX = 20_000
"""Longest interval of GET-HEADS, to which each that is there has an answer; it is below that."""

FRESH_MS = 5_000
"""Who was heard of so lately need not be asked this time: with that and the interval until the next
it is still there, with as much to spare."""


class Stores:
    """The stores of one cluster."""

    def __init__(self) -> None:
        self._heard_ms: dict[str, int] = {}

    def heard_from(self, store: str, now_ms: int) -> bool:
        """A store is there; False if there are as many as may be, and this one is none of them."""
        if store not in self._heard_ms and len(self._heard_ms) >= STORES_MAX:
            self._heard_ms = {one: self._heard_ms[one] for one in self.alive(now_ms)}
            if len(self._heard_ms) >= STORES_MAX:
                return False
        self._heard_ms[store] = now_ms
        return True

    def all_fresh(self, now_ms: int) -> bool:
        """Whether there are some, and none can be taken for gone before GET-HEADS is due again."""
        heard_ms = [self._heard_ms[store] for store in self.alive(now_ms)]
        return bool(heard_ms) and now_ms <= min(heard_ms) + FRESH_MS

    def alive(self, now_ms: int) -> Iterator[str]:
        """Yield those that have not been silent for long."""
        for store, heard_ms in self._heard_ms.items():
            if now_ms < heard_ms + STORE_SILENCE_MS:
                yield store
