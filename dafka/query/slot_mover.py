"""Moves slots between the stores of a cluster while records flow, one step at a time (ADR 60).

What a store is to keep it was started with. First each that lacks some joins them: it takes them
in, and keeps them when it has all that each keeper lists. Then each that has others gives them up:
it stops taking them in, and drops them when enough others list all that it lists. Whatever dies in
between, to look again goes on from where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import QueryError
from dafka.model import ALL_SLOTS, SYSTEM, Partition, Slots, slot_of
from dafka.query.slot_steps import SlotsRequest, part_of, slots_in, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dafka.query.client import StoreClient
    from dafka.query.slot_steps import SlotsResponse


class _Held(NamedTuple):
    """What a store has said."""

    store: StoreClient
    kept: Slots
    wanted: Slots
    joining: Slots
    stopped: Slots
    dropped: Slots
    token: str

    @property
    def relied_on(self) -> Slots:
        """Those that it keeps, and is not about to give up."""
        return self.kept.without(self.stopped)

    def ends(self) -> dict[Partition, int]:
        """Where each partition ends that it has."""
        self.store.part = part_of(self.kept)
        return {one: span.stop for one, span in self.store.ranges().items()}

    def ends_of(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Where those of these end that it is relied on for, also of what it has forgotten."""
        relied_on = self.relied_on
        wanted = [one for one in partitions if relied_on.has(slot_of(one.address))]
        ends = self.ends()
        if unlisted := [one for one in wanted if one not in ends]:
            ends |= {one: span.stop for one, span in self.store.ranges_of(unlisted).items()}
        return {one: ends[one] for one in wanted if one in ends}


class SlotMover:
    """Brings the stores of one cluster to keep what they are to.

    Args:
        stores: All of them, each by itself.
        copies: How many have to keep a slot that one gives up.
        leaving: Stores that are about to end: who joins has to have what they have, and nobody
            gives up what only they keep beside him.
    """

    def __init__(
        self, stores: Sequence[StoreClient], copies: int, leaving: Sequence[StoreClient] = ()
    ) -> None:
        self._stores, self._copies, self._leaving = stores, copies, leaving

    def look(self) -> str:
        """Take the steps that can be taken; return what is waited for, empty if all is done."""
        try:
            return self._join() or self._give_up()
        except QueryError as error:
            return str(error)

    def _look_at_all(self) -> list[_Held]:
        return [_held(store, store.slots()) for store in self._stores]

    def _join(self) -> str:
        """Let each that has joined slots keep them; what the first lacks that has not all."""
        waiting: list[str] = []
        stores = self._look_at_all()
        keepers = [*stores, *(_held(store, store.slots()) for store in self._leaving)]
        for one in stores:
            if not one.joining:
                continue
            if lacks := _lacks(one, [other for other in keepers if other.store is not one.store]):
                waiting.append(lacks)
                continue
            one.store.slots(SlotsRequest("take", told(one.joining)))
        return next(iter(waiting), "")

    def _give_up(self) -> str:
        """Let the first drop what it is not to keep; what it, or another, waits for."""
        for one in self._look_at_all():
            leaving = one.kept.without(one.wanted)
            if leaving and (waits_for := self._drop(one.store, leaving)):
                return waits_for
            if one.dropped or leaving:
                return f"{one.store.endpoint} to take off its disk what it gave up"
            if one.joining:
                return f"{one.store.endpoint} to join slots {one.joining}"
        return ""

    def _drop(self, store: StoreClient, leaving: Slots) -> str:
        waits_for = self._uncovered(store, self._look_at_all(), leaving)
        if waits_for:
            return waits_for
        # First nothing more is taken in here, then others are looked at: two that give up the same
        # do not rely on each other, and what is here does not grow.
        stopped = _held(store, store.slots(SlotsRequest("stop", told(leaving))))
        stores = self._look_at_all()
        if waits_for := self._uncovered(store, stores, leaving):
            return waits_for
        given_up = _among(stopped.ends(), leaving)
        keepers = [one.ends_of(given_up) for one in stores if one.store is not store]
        for partition, end in given_up.items():
            having = sum(ends.get(partition, 0) >= end for ends in keepers)
            if having < self._copies:
                return f"{self._copies} others to have {partition} up to {end}, {having} have"
        store.slots(SlotsRequest("drop", token=stopped.token))
        return ""

    def _uncovered(self, store: StoreClient, stores: Iterable[_Held], leaving: Slots) -> str:
        others = [one.relied_on for one in stores if one.store is not store]
        few = [
            slot
            for one in leaving.ranges()
            for slot in one
            if sum(kept.has(slot) for kept in others) < self._copies
        ]
        if not few:
            return ""
        lacking = Slots.of(range(slot, slot + 1) for slot in few)
        return (
            f"{self._copies} others to keep slots {lacking}, which {store.endpoint} is to give up"
        )


def _held(store: StoreClient, said: SlotsResponse) -> _Held:
    return _Held(
        store,
        slots_in(said.kept),
        slots_in(said.wanted),
        slots_in(said.joining),
        slots_in(said.stopped),
        slots_in(said.dropped),
        said.token,
    )


def _lacks(one: _Held, others: Iterable[_Held]) -> str:
    """What a store lacks of slots that it joins, and another has that keeps them."""
    listed = [
        _among(other.ends(), shared)
        for other in others
        if (shared := one.joining.shared(other.kept))
    ]
    own = one.ends()  # last: what has come meanwhile has come here as well
    for ends in listed:
        for partition, end in ends.items():
            if own.get(partition, 0) < end:
                return f"{one.store.endpoint} to have {partition} up to {end}"
    return ""


def _among(ends: Mapping[Partition, int], slots: Slots) -> dict[Partition, int]:
    return {
        one: end
        for one, end in ends.items()
        if not one.topic.startswith(SYSTEM)
        and (slots == ALL_SLOTS or slots.has(slot_of(one.address)))
    }
