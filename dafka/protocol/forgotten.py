"""What a store says of partitions that it has forgotten: where they ended, and that is all.

What lies below that end is acknowledged, as it was once, and not taken; whoever asks for it is told
where the log starts. Only what goes on behind the end brings a partition back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.protocol.effects import Dropped, Publish
from dafka.wire import messages

if TYPE_CHECKING:
    from dafka.protocol.effects import Effect
    from dafka.wire.messages import Message, OfPartition

_BATCHES = (
    messages.Records,
    messages.DirectRecords,
    messages.RecordMessage,
    messages.DirectRecord,
)
_HEADS = messages.Head, messages.DirectHead


def of_partition(message: Message, store: str) -> OfPartition | None:
    """Return `message` if `store` has to know of a partition to understand it."""
    if isinstance(message, messages.Fetch):
        ours = message.requester != store and message.store in (None, messages.ANY_STORE, store)
        return message if ours else None
    return message if isinstance(message, _BATCHES + _HEADS) else None


def goes_on(message: OfPartition, end: int) -> bool:
    """Whether there is more than what ended at `end`, by the word of a message."""
    if isinstance(message, messages.Fetch):
        return False
    if isinstance(message, _HEADS):
        return message.sequence >= end
    return message.sequence + message.count > end


def proves(message: OfPartition, end: int) -> bool:
    """Whether that is not only said: by a store, or as the next record is in it."""
    if isinstance(message, _BATCHES):
        return message.sequence <= end
    return isinstance(message, messages.DirectHead) and message.store is not None


def answers(message: OfPartition, end: int, store: str) -> list[Effect]:
    """Return what `store` answers where a message tells of no more than there was."""
    topic, address = message.topic, message.address
    if isinstance(message, messages.Fetch):
        head = Publish(messages.DirectHead(message.requester, topic, address, end - 1, store))
        if message.sequence >= end:
            return [head]
        return [Publish(messages.LogStart(message.requester, topic, address, end, store)), head]
    acknowledgement = Publish(messages.Ack(topic, address, store, end - 1))
    if isinstance(message, _BATCHES):
        return [Dropped("duplicate"), acknowledgement]
    if isinstance(message, messages.DirectHead):
        return []
    # Of many idle producers there would be as many ACKs as HEADs.
    settled = message.stored and message.sequence == end - 1
    return [] if settled else [acknowledgement]
