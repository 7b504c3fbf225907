"""Moves slots between the stores of a cluster while records flow, one step at a time (ADR 60).

What a store is to keep it was started with. First each that lacks some joins them: it takes them
in, and keeps them when it has all that each keeper lists. Then each that has others gives them up:
it stops taking them in, and drops them when enough others list all that it lists, and one of them
has what another has passed over; of what it has forgotten it hands over where that ended. Whatever
dies in between, to look again goes on from where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from dafka.errors import QueryError
from dafka.limits import BATCH_RECORDS_MAX
from dafka.model import ALL_SLOTS, SYSTEM, Partition, Slots, slot_of
from dafka.query.register_mover import RegisterMover
from dafka.query.slot_steps import SlotsRequest, part_of, slots_in, told
from dafka.storage.passed_over import RANGES_MAX
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dafka.query.client import StoreClient
    from dafka.query.slot_steps import SlotsResponse


BEHIND_MAX = BATCH_RECORDS_MAX
"""Records that others may lack when a store stops: they are on their way. What is more may take
longer than a stop lasts."""

Had = dict[str, dict[Partition, range]]
"""What stores had that are about to end, by their query ports, when they were looked at first."""


class _Held(NamedTuple):
    """What a store has said."""

    store: StoreClient
    kept: Slots
    wanted: Slots
    joining: Slots
    stopped: Slots
    dropped: Slots
    token: str
    address: str
    opening: str

    @property
    def relied_on(self) -> Slots:
        """Those that it keeps, and is not about to give up."""
        return self.kept.without(self.stopped)

    def ranges(self) -> dict[Partition, range]:
        """What it has of each partition."""
        self.store.part = part_of(self.kept)
        return self.store.ranges()

    def ranges_of(self, partitions: Iterable[Partition]) -> dict[Partition, range]:
        """What it has of those of these that it is relied on for, also of what it has forgotten."""
        relied_on = self.relied_on
        wanted = [one for one in partitions if relied_on.keeps(*one)]
        ranges = self.ranges()
        if unlisted := [one for one in wanted if one not in ranges]:
            ranges |= self.store.ranges_of(unlisted)
        return {one: ranges[one] for one in wanted if one in ranges}

    def lacks(self, due: Iterable[Mapping[Partition, range]]) -> str:
        """The first of what is due that it does not have up to its end.

        What a cluster says of itself it may have forgotten, as retention strikes at different
        moments.
        """
        ranges = self.ranges()  # after what is due was listed: what has come meanwhile came here
        missing = {
            one: span
            for each in due
            for one, span in each.items()
            if ranges.get(one, range(0)).stop < span.stop
        }
        if own := _own(missing):
            ranges |= self.store.ranges_of(own)
        for one, span in missing.items():
            if ranges.get(one, range(0)).stop < span.stop:
                return f"{self.store.endpoint} to have {one} up to {span.stop}"
        return ""

    def inventory(self, ranges: Mapping[Partition, range], slots: Slots) -> _Inventory:
        """The same with what it never had."""
        return _Inventory(self.store.endpoint, ranges, self.store.passed_over(told(slots)))


class _Inventory(NamedTuple):
    """What a store has of slots that one gives up.

    Attributes:
        endpoint: Its.
        ranges: By partition; what is not in it retention has taken, or it was never there.
        passed: What was never there.
    """

    endpoint: str
    ranges: Mapping[Partition, range]
    passed: Mapping[Partition, Sequence[range]]

    def had(self, partition: Partition) -> list[range]:
        """What it has for sure."""
        ranges, passed = [self.ranges.get(partition, range(0))], self.passed.get(partition, ())
        return _cut(ranges, passed)

    def never_had(self, partition: Partition) -> Sequence[range]:
        """What was never there for sure."""
        passed = self.passed.get(partition, ())
        return passed[len(passed) == RANGES_MAX :]  # what lies in the first may be more


class SlotMover:
    """Brings the stores of one cluster to keep what they are to.

    Args:
        stores: All of them, each by itself.
        copies: How many have to keep a slot that one gives up.
        leaving: Stores that are about to end: who joins has to have what they have, nobody gives
            up what only they keep beside him, `copies` have to have what they have, and all what
            is kept by all.
        had: Kept from one look to the next, also by another mover: all of it others have to have.
            Nothing else tells what is on its way from what one that stays is still catching up on.
        name: Unlike that of all others that move something; drawn if not given.
    """

    def __init__(
        self,
        stores: Sequence[StoreClient],
        copies: int,
        leaving: Sequence[StoreClient] = (),
        had: Had | None = None,
        name: str = "",
    ) -> None:
        self._stores, self._copies, self._leaving = stores, copies, leaving
        self._had: Had = {} if had is None else had
        self._registers = RegisterMover(stores, leaving, name or uuid4().hex)

    def look(self) -> str:
        """Take the steps that can be taken; return what is waited for, empty if all is done."""
        try:
            return self._join() or self._give_up() or self._owed() or self._registers.look()
        except QueryError as error:
            return str(error)

    def owed(self) -> str:
        """What keeps stores from ending: too few that stay have what they have.

        Or one that stays lacks what a cluster says of itself: all stores keep that, so with the
        last that has it it would be gone; and so with what runs were agreed on.
        """
        try:
            return self._owed() or self._registers.look()
        except QueryError as error:
            return str(error)

    def _owed(self) -> str:
        leaving = [_held(store, store.slots()) for store in self._leaving]
        stores = self._look_at_all() if leaving else []
        for one in leaving:
            if one.store.endpoint not in self._had:
                self._had[one.store.endpoint] = one.ranges()
        # What is on its way is looked for on its disk, when it has ended.
        compared = (self._compared(one, one.kept, stores, BEHIND_MAX) for one in leaving)
        if behind := next(filter(None, compared), ""):
            return behind
        due = [_own(one.ranges()) for one in leaving]
        return next(filter(None, (one.lacks(due) for one in stores)), "")

    def _look_at_all(self) -> list[_Held]:
        return [_held(store, store.slots()) for store in self._stores]

    def _join(self) -> str:
        """Let each that has joined slots keep them; what the first lacks that has not all."""
        waiting: list[str] = []
        stores = self._look_at_all()
        keepers = [*stores, *(_held(store, store.slots()) for store in self._leaving)]
        shares = tuple((one.address, told(one.kept)) for one in keepers)
        for one in stores:
            if not one.joining:
                continue
            one.store.slots(SlotsRequest("ask", stores=shares))
            if lacks := _lacks(one, [other for other in keepers if other.store is not one.store]):
                waiting.append(lacks)
                continue
            one.store.slots(SlotsRequest("take", told(one.joining), one.opening))
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
        before = {one.store.endpoint: one for one in self._look_at_all()}
        giving = before[store.endpoint]
        # Nothing is stopped for what may take long, or is waited for in vain.
        if waits_for := (
            self._uncovered(store, before.values(), leaving)
            or self._compared(giving, leaving, before.values(), BEHIND_MAX)
            or _hand_over(giving, leaving, before.values())
        ):
            return waits_for
        # First nothing more is taken in here, then others are looked at: two that give up the same
        # do not rely on each other, and what is here does not grow.
        stopped = _held(store, store.slots(SlotsRequest("stop", told(leaving))))
        stores = self._look_at_all()
        if waits_for := (
            self._uncovered(store, stores, leaving)
            or self._compared(stopped, leaving, stores)
            or _hand_over(stopped, leaving, stores)
        ):
            return waits_for
        store.slots(SlotsRequest("drop", token=stopped.token))
        return ""

    def _compared(
        self, giving: _Held, leaving: Slots, stores: Iterable[_Held], behind_max: int = 0
    ) -> str:
        """What others lack of what one gives up; some records may be on their way to them."""
        given_up = giving.inventory(_among(giving.ranges(), leaving), leaving)
        keepers = [
            one.inventory(one.ranges_of(given_up.ranges), leaving.shared(one.relied_on))
            for one in _others(giving, leaving, stores)
        ]
        return self._behind(given_up, keepers, behind_max) or _alone(given_up, keepers)

    def _behind(self, given_up: _Inventory, keepers: Sequence[_Inventory], behind_max: int) -> str:
        behind, had = 0, self._had.get(given_up.endpoint, {})
        for partition, span in given_up.ranges.items():
            ends = sorted(one.ranges.get(partition, range(0)).stop for one in keepers)
            having = sum(end >= span.stop for end in ends)
            if having >= self._copies:
                continue
            end = ends[-self._copies] if len(ends) >= self._copies else 0
            behind += span.stop - end
            if behind > behind_max or end < had.get(partition, range(0)).stop:
                return f"{self._copies} others to have {partition} up to {span.stop}, {having} have"
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
        said.store,
        said.opening,
    )


def _lacks(one: _Held, others: Iterable[_Held]) -> str:
    """What a store lacks of slots that it joins, and of what all keep, and another has of them."""
    listed: list[dict[Partition, range]] = []
    for other in others:
        if shared := one.joining.shared(other.kept):
            ranges = other.ranges()
            listed += [_among(ranges, shared), _own(ranges)]
    return one.lacks(listed)


def _others(giving: _Held, leaving: Slots, stores: Iterable[_Held]) -> list[_Held]:
    """Those that are relied on for some of what one gives up."""
    return [
        one for one in stores if one.store is not giving.store and leaving.shared(one.relied_on)
    ]


def _hand_over(giving: _Held, leaving: Slots, stores: Iterable[_Held]) -> str:
    """Tell others where partitions ended that are forgotten; who does not know that yet.

    Nobody fetches them: nothing is left of them. But a producer may go on, and without its end what
    was before it would be waited for.
    """
    waits_for = ""
    others = _others(giving, leaving, stores)
    for ends in giving.store.forgotten(told(leaving)):
        for one in others:
            relied_on = one.relied_on
            ended = {
                place: end
                for place, end in ends.items()
                if not place.topic.startswith(SYSTEM) and relied_on.has(slot_of(place.address))
            }
            known = one.store.ranges_of(ended) if ended else {}
            lacking = {
                place: end for place, end in ended.items() if known.get(place, range(0)).stop < end
            }
            if lacking:
                place, end = next(iter(lacking.items()))
                waits_for = f"{one.store.endpoint} to remember that {place} ended at {end}"
                rows = (
                    (octets_of(topic), octets_of(address), at)
                    for (topic, address), at in lacking.items()
                )
                one.store.slots(SlotsRequest("end", ended=tuple(rows)))
    return waits_for


def _alone(given_up: _Inventory, keepers: Sequence[_Inventory]) -> str:
    """What nobody else has though one of them never had it: it is not for retention that it lacks.

    What all others had retention has taken there, as it will here.
    """
    for lacking in keepers:
        for partition, passed in lacking.passed.items():
            kept = [
                range(max(one.start, span.start), min(one.stop, span.stop))
                for span in [given_up.ranges.get(partition, range(0))]
                for one in passed
            ]
            left = _cut(kept, given_up.never_had(partition))
            for one in keepers:
                left = _cut(left, one.had(partition))
            if left:
                return (
                    f"another store to keep slot {slot_of(partition.address)}, too: "
                    f"{given_up.endpoint} alone has {partition} from {left[0].start} up to "
                    f"{left[0].stop}, which {lacking.endpoint} has passed over"
                )
    return ""


def _cut(ranges: Iterable[range], taken: Iterable[range]) -> list[range]:
    """What is left of ranges without others."""
    left = [one for one in ranges if one]
    for other in taken:
        parts = (
            (
                range(one.start, min(one.stop, other.start)),
                range(max(one.start, other.stop), one.stop),
            )
            for one in left
        )
        left = [part for each in parts for part in each if part]
    return left


def _among(ranges: Mapping[Partition, range], slots: Slots) -> dict[Partition, range]:
    return {
        one: span
        for one, span in ranges.items()
        if not one.topic.startswith(SYSTEM)
        and (slots == ALL_SLOTS or slots.has(slot_of(one.address)))
    }


def _own(ranges: Mapping[Partition, range]) -> dict[Partition, range]:
    """What a cluster says of itself, which is of no slot."""
    return {one: span for one, span in ranges.items() if one.topic.startswith(SYSTEM)}
