"""What a store is told and tells of slots that move from store to store (ADR 60).

| step | what the store does |
|---|---|
| `look` | nothing |
| `ask` | passes over nothing of what joins that one of those stores may have |
| `take` | keeps slots from now on that have joined since the opening with that token |
| `end` | remembers where partitions ended of which nobody keeps anything, if it has none of them |
| `stop` | takes nothing in of slots that it is to give up, for `STOPPED_MS` at most |
| `drop` | gives up what was stopped all the time since the answer with that token |

Whoever says `take` or `drop` has seen in the lists of other stores that it may. Besides ranges
these list what was passed over, what is forgotten, and the registers of runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import astuple

from dafka.errors import MisuseError
from dafka.groups.acceptor import taken
from dafka.groups.commit import SINKS
from dafka.groups.membership import Ballot  # noqa: TC001 (messages are made from it)
from dafka.limits import (
    ADDRESS_BYTES_MAX,
    NAMED_MAX,
    OPENING_CHARACTERS_MAX,
    STORES_MAX,
    TABLE_KEY_BYTES_MAX,
)
from dafka.model import ALL_SLOTS, SLOTS, Partition, Slots, slot_of
from dafka.storage.passed_over import passed_over
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from dafka.storage.kept_slots import KeptSlots
    from dafka.storage.log import RecordLog

_Slot = Annotated[int, Meta(ge=0, le=SLOTS)]
SlotRanges = Annotated[tuple[tuple[_Slot, _Slot], ...], Meta(max_length=SLOTS)]
"""Of the ring, each as its first slot and the one behind its last."""

_Token = Annotated[str, Meta(max_length=OPENING_CHARACTERS_MAX + 20)]
_Address = Annotated[str, Meta(max_length=ADDRESS_BYTES_MAX)]
_Name = Annotated[bytes, Meta(max_length=ADDRESS_BYTES_MAX)]
_Sequence = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Ranges = tuple[tuple[_Name, _Name, _Sequence, _Sequence], ...]
"""Topic, address, the first sequence, and the one behind the last."""

Cursor = Annotated[bytes, Meta(max_length=TABLE_KEY_BYTES_MAX)]
"""Behind what a list goes on; empty for its beginning."""

_NUMBER_MAX = 2**63 - 1

ROWS_MAX = 1_000
"""Partitions that a store looks at for one answer: some milliseconds."""


class SlotsRequest(Struct, frozen=True, array_like=True, tag="slots"):
    """Take a step, or look.

    Attributes:
        step: See above.
        slots: Which, for `take` and `stop`.
        token: For `drop`; for `take` an `opening`.
        stores: All that keep something, by address, and what: for `ask`.
        ended: Topic, address and end of each, for `end`.
    """

    step: Literal["look", "ask", "take", "end", "stop", "drop"] = "look"
    slots: SlotRanges = ()
    token: _Token = ""
    stores: Annotated[tuple[tuple[_Address, SlotRanges], ...], Meta(max_length=STORES_MAX)] = ()
    ended: Annotated[tuple[tuple[_Name, _Name, _Sequence], ...], Meta(max_length=NAMED_MAX)] = ()


LOOK = SlotsRequest()


class SlotsResponse(Struct, frozen=True, array_like=True, tag="keeping"):
    """What the store does with slots.

    Attributes:
        kept: It answers for these.
        wanted: It is to keep these in the end.
        joining: It takes these in, and does not answer for them.
        stopped: Of those that it keeps it takes these not in.
        dropped: It has given these up, and not all is off its disk.
        token: Of what is stopped; empty if nothing is.
        store: Its address, that of its disk.
        opening: Names the time since its process opened that.
    """

    kept: SlotRanges
    wanted: SlotRanges
    joining: SlotRanges = ()
    stopped: SlotRanges = ()
    dropped: SlotRanges = ()
    token: _Token = ""
    store: _Address = ""
    opening: _Token = ""


class SlotRowsRequest(Struct, frozen=True, array_like=True, tag="slot rows"):
    """What do you know of partitions that no list of ranges tells?

    Attributes:
        what: The records that were never there, of those that go on behind them; or where those
            ended that are forgotten.
        slots: Of these.
        after: Where the list goes on.
    """

    what: Literal["passed over", "forgotten"]
    slots: SlotRanges
    after: Cursor = b""


class SlotRowsResponse(Struct, frozen=True, array_like=True, tag="slot rows"):
    """Some of it.

    Attributes:
        ranges: By partition, of each in order.
        after: Behind what to ask for more; empty if there are no more.
    """

    ranges: _Ranges
    after: Cursor = b""


class RegistersRequest(Struct, frozen=True, array_like=True, tag="registers"):
    """Which registers of runs do you have, as no member of theirs can bring them to another store?

    Attributes:
        after: Where the list goes on.
    """

    after: Cursor = b""


class RegistersResponse(Struct, frozen=True, array_like=True, tag="registers"):
    """Some of them.

    Attributes:
        accepted: Group, and the ballot of what it has taken.
        after: Behind what to ask for more; empty if there are no more.
    """

    accepted: Annotated[tuple[tuple[_Name, Ballot], ...], Meta(max_length=ROWS_MAX)]
    after: Cursor = b""


SlotQuestion = SlotsRequest | SlotRowsRequest | RegistersRequest
SlotAnswer = SlotsResponse | SlotRowsResponse | RegistersResponse


class MovingSlots(Struct, frozen=True, array_like=True):
    """What a store does not keep as it is to, for whoever looks; nothing if nothing moves.

    Attributes:
        joining: It takes these in, and does not answer for them.
        leaving: It keeps these until others have what it has.
        stopped: Of those it takes nothing in.
        dropped: It has given these up, and not all is off its disk.
    """

    joining: SlotRanges = ()
    leaving: SlotRanges = ()
    stopped: SlotRanges = ()
    dropped: SlotRanges = ()

    @property
    def waits(self) -> bool:
        """Whether somebody has to go on moving them; a store clears its disk by itself."""
        return bool(self.joining or self.leaving or self.stopped)

    def __str__(self) -> str:
        said = zip(("joins", "gives up", "has stopped", "clears"), astuple(self), strict=True)
        return ", ".join(f"{verb} slots {_written(ranges)}" for verb, ranges in said if ranges)


def _written(ranges: SlotRanges) -> str:
    return ",".join(f"{start}-{stop - 1}" for start, stop in ranges)


def told(slots: Slots) -> SlotRanges:
    """Return slots as messages have them."""
    return tuple((one.start, one.stop) for one in slots.ranges())


def part_of(slots: Slots) -> SlotRanges:
    """Return what a store of these slots says that its lists are of: nothing if of all."""
    return () if slots == ALL_SLOTS else told(slots) or ((0, 0),)


def slots_of_part(part: SlotRanges) -> Slots:
    """Return which those are."""
    return slots_in(part) if part else ALL_SLOTS


def slots_in(ranges: SlotRanges) -> Slots:
    """Return slots that came in a message.

    Raises:
        MisuseError: A range ends before it begins.
    """
    if any(start > stop for start, stop in ranges):
        raise MisuseError("a range of slots ends before it begins")
    return Slots.of(range(*one) for one in ranges)


def moving(kept_slots: KeptSlots) -> MovingSlots:
    """Return what a store does not keep as it is to."""
    keeping = kept_slots.keeping
    leaving = keeping.kept.without(kept_slots.wanted)
    each = keeping.joining, leaving, keeping.stopped, kept_slots.dropped
    return MovingSlots(*map(told, each))


def step(request: SlotsRequest, kept_slots: KeptSlots, now_ms: int) -> SlotsResponse:
    """Take a step; return what the store does afterwards.

    Raises:
        MisuseError: It may not be taken now, or not by this store.
        StorageError: The disk refused.
    """
    kept_slots.lapse(now_ms)
    match request.step:
        case "ask":
            stores = ((store, slots_in(slots)) for store, slots in request.stores)
            kept_slots.ask(tuple(stores))
        case "take":
            kept_slots.take(slots_in(request.slots), request.token)
        case "end":
            kept_slots.end(
                {Partition(text(one), text(other)): end for one, other, end in request.ended}
            )
        case "stop":
            kept_slots.stop(slots_in(request.slots), now_ms)
        case "drop":
            kept_slots.drop(request.token)
        case "look":
            pass
    keeping = kept_slots.keeping
    return SlotsResponse(
        told(keeping.kept),
        told(kept_slots.wanted),
        told(keeping.joining),
        told(keeping.stopped),
        told(kept_slots.dropped),
        kept_slots.token,
        kept_slots.identity,
        kept_slots.opening,
    )


def slots_answer(
    question: SlotQuestion, log: RecordLog, kept_slots: KeptSlots, now_ms: int
) -> SlotAnswer:
    """Take a step, or tell of what is known.

    Raises:
        MisuseError: It may not be taken now, or not by this store, or slots are none.
        StorageError: The disk refused.
    """
    if isinstance(question, SlotRowsRequest):
        return rows(question, log)
    if isinstance(question, RegistersRequest):
        return registers(question, log)
    return step(question, kept_slots, now_ms)


def rows(question: SlotRowsRequest, log: RecordLog) -> SlotRowsResponse:
    """Return a part of what a store knows.

    Raises:
        MisuseError: A range of slots ends before it begins.
        StorageError: The disk refused.
    """
    slots = slots_in(question.slots)
    if question.what == "forgotten":
        number = int.from_bytes(question.after) - 1 if question.after else -1
        forgotten = log.forgotten_behind(min(number, _NUMBER_MAX), ROWS_MAX)
        found = {one: [range(ended.start, ended.start)] for _, one, ended in forgotten}
        after = (forgotten[-1][0] + 1).to_bytes(8) if len(forgotten) == ROWS_MAX else None
    else:
        found, after = passed_over(log, question.after, ROWS_MAX)
    ranges = (
        (octets_of(one.topic), octets_of(one.address), each.start, each.stop)
        for one, passed in found.items()
        if slots.has(slot_of(one.address))
        for each in passed
    )
    return SlotRowsResponse(tuple(ranges), after or b"")


def registers(question: RegistersRequest, log: RecordLog) -> RegistersResponse:
    """Return some registers of runs.

    Raises:
        StorageError: The disk refused.
    """
    found = taken(log, SINKS, question.after, ROWS_MAX)
    accepted = tuple((octets_of(group), ballot) for group, ballot in found)
    return RegistersResponse(accepted, accepted[-1][0] if len(found) == ROWS_MAX else b"")
