from __future__ import annotations

import pytest

from dafka.errors import RecordError
from dafka.protocol.arrival import arrived
from dafka.values import replace
from dafka.wire import messages


def message(one):
    topic, address = one.partition
    return messages.Records(topic, address, one.sequence, one.count, one.content)


def test_a_whole_batch_is_taken_as_it_is(batch):
    assert arrived(message(batch(3, 2))) == batch(3, 2)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"sequence": 4}, "batch sequence"),
        ({"count": 3}, "batch count"),
        ({"count": 0}, "batch count"),
    ],
)
def test_a_message_that_lies_about_its_batch_is_refused(batch, lie, reason):
    with pytest.raises(RecordError) as refusal:
        arrived(replace(message(batch(3, 2)), **lie))
    assert refusal.value.reason == reason
