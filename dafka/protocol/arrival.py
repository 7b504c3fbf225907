"""Batches of records that peers have sent, checked before anything is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.model import Batch, Partition
from dafka.records.batch import checked_count

if TYPE_CHECKING:
    from dafka.wire import messages


def arrived(message: messages.Batch) -> Batch:
    """Return the batch in a message.

    What was damaged on its way, or lies about its place, must not take the place of the batch that
    belongs there: it is not kept, so that another is asked for.

    Raises:
        RecordError: The content is not what the message says.
    """
    count = checked_count(message.content, message.sequence)
    if count != message.count:
        raise RecordError("batch count")
    return Batch(
        Partition(message.topic, message.address), message.sequence, count, message.content
    )
