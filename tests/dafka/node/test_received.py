from __future__ import annotations

import pytest

from dafka.node.received import ReceivedBatch
from dafka.records.serialization import DeserializationError, Deserializers
from tests.support.batches import make_batch

BATCH = make_batch([b"5", b"6", b"seven", b"8"], 5)


def received(start=0, end=100, deserializers=None):
    return ReceivedBatch(BATCH, start, end, deserializers)


@pytest.mark.parametrize(
    ("start", "end", "values"),
    [(0, 100, [b"5", b"6", b"seven", b"8"]), (6, 100, [b"6", b"seven", b"8"]), (5, 6, [b"5"])],
)
def test_only_what_is_handed_over_is_in_it(start, end, values):
    batch = received(start, end)
    assert (batch.topic, batch.address) == BATCH.partition
    assert (batch.sequence, batch.count) == (max(5, start), len(values))
    assert batch.values() == values
    assert [record.value for record in batch] == values


def test_values_are_what_a_deserializer_makes_of_them():
    batch = received(end=7, deserializers=Deserializers(None, int))
    assert batch.values() == [5, 6]
    assert [(record.key, record.value) for record in batch] == [(b"key", 5), (b"key", 6)]
    assert received(end=7, deserializers=Deserializers(bytes.decode, None)).values() == [b"5", b"6"]


def test_who_goes_on_after_an_error_is_behind_the_record():
    records = iter(received(deserializers=Deserializers(None, int)))
    assert [next(records).value for _ in range(2)] == [5, 6]
    with pytest.raises(DeserializationError, match="sequence 7") as raised:
        next(records)
    assert raised.value.record.value == b"seven"
    assert [record.value for record in records] == [8]
    with pytest.raises(DeserializationError, match="sequence 7"):
        received(deserializers=Deserializers(None, int)).values()


def test_it_is_shown_in_a_line():
    assert repr(received(6)) == "ReceivedBatch('orders', ABABABAB…, 6, 3 records)"
