from __future__ import annotations

from dafka.limits import BATCH_RECORDS_MAX, FETCH_ANSWER_BYTES_MAX
from dafka.model import Batch, Partition
from dafka.protocol.record_size import RecordSize


def test_what_is_not_known_is_taken_for_much():
    size = RecordSize()
    assert size.records_in(1) == BATCH_RECORDS_MAX
    assert size.bytes_of(1) == FETCH_ANSWER_BYTES_MAX


def test_it_is_the_mean_of_all_that_came():
    size = RecordSize()
    size.took(Batch(Partition("flights", "AA"), 0, 1, bytes(1_000)))
    size.took(Batch(Partition("flights", "AA"), 1, 3, bytes(600)))
    assert size.records_in(4_000) == 10
    assert size.records_in(0) == 1, "less cannot be asked for"
    assert size.bytes_of(10) == 4_000
    assert size.bytes_of(1) == 800, "batches come whole"
