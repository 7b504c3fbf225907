from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import RecordError
from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.digest import (
    DIGEST_BYTES,
    digest_of_batches,
    digest_of_headers,
    digest_of_records,
)
from dafka.records.envelope import FRESH, Envelope, stamped

ORDERS = Partition("orders", "AB" * 16)

octets = st.none() | st.binary(max_size=4)
headers = st.lists(st.tuples(st.text("ab", max_size=2), octets), max_size=2)
fields = st.tuples(st.integers(0, 3), octets, octets, headers)


def batched(records, cuts=(), envelope=FRESH, **built):
    """The records in batches that begin at `cuts`."""
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    batches = []
    for start, end in pairwise(bounds):
        builder = BatchBuilder(1 << 20, **built)
        for record in records[start:end]:
            builder.append(*record)
        content = enclosed(builder.build(), start, envelope)
        batches.append(Batch(ORDERS, start, end - start, content))
    return batches


@given(st.lists(fields, min_size=1, max_size=8), st.lists(st.integers(1, 7), max_size=3))
def test_equal_records_have_equal_digests_however_they_are_batched(records, cuts):
    one, other = batched(records), batched(records, cuts, Envelope(1, 5))
    digest = digest_of_records(one, 0, len(records))
    assert digest == digest_of_records(other, 0, len(records))
    assert len(digest) == DIGEST_BYTES


@given(st.lists(fields, min_size=1, max_size=4), st.lists(fields, min_size=1, max_size=4))
def test_other_records_have_other_digests(one, other):
    batches = batched(one), batched(other)
    for digest in (
        lambda found: digest_of_records(found, 0, found[-1].end),
        digest_of_batches,
        digest_of_headers,
    ):
        assert (digest(batches[0]) == digest(batches[1])) == (one == other)


def test_the_time_at_which_bare_values_arrived_does_not_count():
    early = batched([(5, None, b"a", []), (5, None, b"b", [])], append_time=True)
    late = batched([(9, None, b"a", []), (9, None, b"b", [])], [1], append_time=True)
    assert digest_of_records(early, 0, 2) == digest_of_records(late, 0, 2)
    assert digest_of_records(early, 0, 2) != digest_of_records(
        batched([(5, None, b"a", []), (5, None, b"c", [])], append_time=True), 0, 2
    )


def test_only_the_records_asked_for_count():
    alike = [(5, None, b"a", []), (5, None, b"b", []), (5, None, b"c", [])]
    other = [(5, None, b"x", []), *alike[1:]]
    assert digest_of_records(batched(alike), 1, 3) == digest_of_records(batched(other), 1, 3)
    assert digest_of_records(batched(alike), 0, 3) != digest_of_records(batched(other), 0, 3)
    assert digest_of_records(batched(alike), 1, 2) != digest_of_records(batched(alike), 2, 3)


@pytest.mark.parametrize("digest", [digest_of_batches, digest_of_headers])
def test_the_digest_of_batches_leaves_out_the_envelope_only(digest):
    records = [(5, b"k", b"a", []), (5, b"k", b"b", [])]
    whole, cut = batched(records), batched(records, [1])
    (batch,) = whole
    copied = Batch(ORDERS, 0, 2, stamped(batch.content, Envelope(3, 1)))
    assert digest(whole) == digest([copied])
    assert digest(whole) != digest(cut)


def damaged(batch):
    return Batch(ORDERS, batch.sequence, batch.count, batch.content[:-1] + b"\xff")


def test_damage_shows_in_all_digests_but_that_of_the_headers():
    batches = batched([(5, None, b"a", [])])
    broken = [damaged(batches[0])]
    assert digest_of_batches(broken) != digest_of_batches(batches)
    assert digest_of_headers(broken) == digest_of_headers(batches)
    with pytest.raises(RecordError):
        digest_of_records(broken, 0, 1)


@pytest.mark.parametrize(
    ("batches", "end"),
    [
        ([damaged(batched([(5, None, b"a", [])])[0])], 1),
        ([Batch(ORDERS, 0, 2, batched([(5, None, b"a", [])])[0].content)], 2),
        (batched([(5, None, b"a", [])] * 3, [1])[1:], 3),
        (batched([(5, None, b"a", [])] * 3, [1, 2])[::2], 3),
        (batched([(5, None, b"a", [])]), 2),
    ],
    ids=["damaged", "fewer than said", "begins late", "hole", "ends early"],
)
def test_what_does_not_hold_all_of_them_is_an_error(batches, end):
    with pytest.raises(RecordError):
        digest_of_records(batches, 0, end)
