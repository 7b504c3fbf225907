from __future__ import annotations

import pytest

from dafka.gateway.ledger import LedgerEntry
from dafka.gateway.served import served, taken_in
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, checked_header, raw_records, run_of
from dafka.records.envelope import FRESH, pack
from dafka.records.header import header_of

LOG = Partition("orders", "A")


def sent(*values, producer=-1):
    builder = BatchBuilder(10_000)
    for value in values:
        builder.append(1_000, None, value, ())
    builder._begun().set_producer_state(producer, 1, 5)
    return bytes(builder.build())


def kept(batch, sequence):
    content = taken_in(batch, sequence, 7)
    return Batch(LOG, sequence, checked_header(content, sequence).records, content)


def offsets(batch):
    return [(one.sequence, one.value) for one in raw_records(pack(FRESH) + batch)]


def test_a_batch_is_kept_and_served_as_it_came_but_for_its_place():
    batch = sent(b"a", b"b", producer=9)
    there = kept(batch, 4)
    assert header_of(there.content, 20).leader_epoch == 7
    assert run_of(there.content) is None, "or stores would take many producers for one"
    out = served(there, LedgerEntry(100, "A", 4, 2))
    assert out[16:] == batch[16:]
    assert header_of(out).base_offset == 100
    assert header_of(out).leader_epoch == -1


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (LedgerEntry(100, "A", 2, 9), [(102, b"a"), (103, b"b"), (104, b"c")]),
        (LedgerEntry(100, "A", 5, 9), [(100, b"b"), (101, b"c")]),
        (LedgerEntry(100, "A", 2, 3), [(102, b"a")]),
    ],
)
def test_of_a_batch_only_what_lies_in_the_entry_is_served(entry, found):
    assert offsets(served(kept(sent(b"a", b"b", b"c"), 4), entry)) == found
