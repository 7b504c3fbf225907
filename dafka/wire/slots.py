"""Extension: records for stores that keep some slots of the ring only.

A subscription is a prefix of a topic frame. What such a store is to get is therefore published once
more under the slot of its address, in binary: a range of slots has 22 prefixes at most, and who
keeps none of a slot is sent nothing of it. What is sent is the same content, not another copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.model import SLOT_BITS, SYSTEM, Slots, slot_of
from dafka.wire.messages import MessageId, Records, SlotRecords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.wire.messages import Message


class SlotListeners:
    """Which slots somebody keeps by themselves, as far as one publisher has seen subscriptions.

    None is forgotten: ZeroMQ does not say whether another peer is still listening when one leaves.
    What is published for nobody is dropped where it is published.
    """

    def __init__(self) -> None:
        self._slots = Slots(0)

    def listened(self, message_id: MessageId, key: str) -> None:
        """A peer has subscribed."""
        if message_id is not MessageId.SLOT_RECORDS:
            return
        free = SLOT_BITS - len(key)
        if free < 0 or not set(key) <= {"0", "1"}:
            return  # no message has such a key
        start = int(key or "0", 2) << free
        self._slots = self._slots.joined(Slots.of([range(start, start + (1 << free))]))

    def beside(self, published: Iterable[Message]) -> Iterator[Message]:
        """Yield what is published, and behind each batch the same for those who keep its slot."""
        for message in published:
            yield message
            if self._slots and isinstance(message, Records) and self._keep(message):
                place = message.topic, message.address, message.sequence
                yield SlotRecords(*place, message.count, message.content)

    def _keep(self, message: Records) -> bool:
        # What a cluster says of itself all stores take under its topic.
        return not message.topic.startswith(SYSTEM) and self._slots.has(slot_of(message.address))
