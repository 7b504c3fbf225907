"""Which questions a store of some slots answers, and in whose name."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from dafka.model import SYSTEM, Slots
from dafka.query import messages
from dafka.query.slot_steps import part_of
from dafka.wire.primitives import text

if TYPE_CHECKING:
    from dafka.query.messages import RecordQuestion


def is_kept(question: RecordQuestion, slots: Slots) -> bool:
    """Whether a store of these slots knows all that is asked, or who asks knows what it lacks."""
    match question:
        case messages.TopicsRequest():
            return question.part == part_of(slots)
        case messages.PartitionsRequest() | messages.RangesRequest() | messages.ChangesRequest():
            own = (question.topic or b"").startswith(SYSTEM.encode())
            return own or question.part == part_of(slots)
        case messages.ReadsRequest() | messages.DigestsRequest():
            return all(_keeps(slots, topic, address) for topic, address, _, _ in question.spans)
        case messages.NamedRangesRequest():
            return all(_keeps(slots, topic, address) for topic, address in question.places)
        case messages.ReadRequest() | messages.FindRequest() | messages.DigestRequest():
            return _keeps(slots, question.topic, question.address)
        case messages.HealthRequest() | messages.CatchUpRequest():
            return True
        case _:
            assert_never(question)


def _keeps(slots: Slots, topic: bytes, address: bytes) -> bool:
    return slots.keeps(text(topic), text(address))
