"""What a store is told and tells of slots that move from store to store (ADR 60).

| step | what the store does |
|---|---|
| `look` | nothing |
| `take` | keeps slots from now on that have joined |
| `stop` | takes nothing in of slots that it is to give up, for `STOPPED_MS` |
| `drop` | gives up what was stopped all the time since the answer with that token |

Whoever says `take` or `drop` has seen in the lists of other stores that it may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import astuple

from dafka.errors import MisuseError
from dafka.limits import OPENING_CHARACTERS_MAX
from dafka.model import ALL_SLOTS, SLOTS, Slots

if TYPE_CHECKING:
    from dafka.storage.kept_slots import KeptSlots

_Slot = Annotated[int, Meta(ge=0, le=SLOTS)]
SlotRanges = Annotated[tuple[tuple[_Slot, _Slot], ...], Meta(max_length=SLOTS)]
"""Of the ring, each as its first slot and the one behind its last."""

_Token = Annotated[str, Meta(max_length=OPENING_CHARACTERS_MAX + 20)]


class SlotsRequest(Struct, frozen=True, array_like=True, tag="slots"):
    """Take a step, or look.

    Attributes:
        step: See above.
        slots: Which, for `take` and `stop`.
        token: For `drop`.
    """

    step: Literal["look", "take", "stop", "drop"] = "look"
    slots: SlotRanges = ()
    token: _Token = ""


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
    """

    kept: SlotRanges
    wanted: SlotRanges
    joining: SlotRanges = ()
    stopped: SlotRanges = ()
    dropped: SlotRanges = ()
    token: _Token = ""


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
        case "take":
            kept_slots.take(slots_in(request.slots))
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
    )
