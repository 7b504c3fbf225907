"""How far each store has the logs that a Kafka partition is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class StoredEnds:
    """By address, what each store keeps: it is said by ACKs, and by whoever asks the stores.

    Args:
        stores_min: So many count: as many as block every majority.
        stores_max: Of more stores nothing is kept.
    """

    def __init__(self, stores_min: int, stores_max: int) -> None:
        self._stores_min = stores_min
        self._stores_max = stores_max
        self._ends: dict[str, dict[str, int]] = {}
        self._starts: dict[str, dict[str, int]] = {}

    def end(self, address: str, store: str, end: int) -> int | None:
        """A store has all below `end`; the sequence below which enough have it, if that rises."""
        return self._rise(self._ends, address, store, end)

    def start(self, address: str, store: str, start: int) -> int | None:
        """A store keeps what is there from `start` on; likewise."""
        return self._rise(self._starts, address, store, start)

    def is_told(self, address: str) -> bool:
        """Whether any store has spoken of an address."""
        return address in self._ends

    def begun(self, address: str) -> int:
        """Where an address begins, by the store that keeps least of it."""
        return max(self._starts.get(address, {}).values(), default=0)

    def forget(self, store: str) -> list[str]:
        """A store has left: another one may stand on what was its disk, and is not one more.

        Returns:
            The addresses of which no store says anything now.
        """
        return [address for address in [*self._ends] if self.unlisted(address, store)]

    def unlisted(self, address: str, store: str) -> bool:
        """A store says nothing of an address any more; whether it was the last one that did."""
        was_known = address in self._ends
        for known in (self._ends, self._starts):
            stores = known.get(address, {})
            stores.pop(store, None)
            if not stores:
                known.pop(address, None)
        return was_known and address not in self._ends

    def ends(self) -> Iterator[tuple[str, int]]:
        """By address, the sequence below which enough stores have all."""
        return self._known(self._ends)

    def starts(self) -> Iterator[tuple[str, int]]:
        """By address, the sequence from which on enough stores keep what is there."""
        return self._known(self._starts)

    def _known(self, known: dict[str, dict[str, int]]) -> Iterator[tuple[str, int]]:
        for address, stores in known.items():
            if place := self._enough(stores):
                yield address, place

    def _rise(
        self, known: dict[str, dict[str, int]], address: str, store: str, place: int
    ) -> int | None:
        stores = known.get(address, {})
        if place <= stores.get(store, 0) or (
            store not in stores and len(stores) >= self._stores_max
        ):
            return None
        before = self._enough(stores)
        stores[store] = place
        known[address] = stores
        now = self._enough(stores)
        return now if now > before else None

    def _enough(self, stores: dict[str, int]) -> int:
        places = sorted(stores.values(), reverse=True)
        return places[self._stores_min - 1] if len(places) >= self._stores_min else 0
