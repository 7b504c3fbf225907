from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import RecordError
from dafka.limits import COMPARED_BYTES_MAX
from dafka.model import Batch, Partition, replace
from dafka.records.batch import BatchBuilder, compressed_content, enclosed
from dafka.records.compression import Codec
from dafka.records.digest import (
    DIGEST_BYTES,
    digest_of_batches,
    digest_of_headers,
    digest_of_records,
    expanded_batches,
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


REPEATED = [(1, None, b"x" * 200, [])] * 9


def compressed(batches, codec=Codec.ZSTD):
    return [replace(one, content=compressed_content(one.content, codec)) for one in batches]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_links_have_compressed_has_the_digest_of_what_it_was(codec):
    plain = batched(REPEATED, (3, 6))
    smaller = compressed(plain, codec)
    assert sum(len(one.content) for one in smaller) < sum(len(one.content) for one in plain) // 2
    assert expanded_batches(smaller, 1 << 20) == plain
    assert expanded_batches(plain, 1 << 20) == plain
    other = batched([*REPEATED[:-1], (2, None, b"x" * 200, [])], (3, 6))
    found = digest_of_batches(expanded_batches(compressed(other, codec), 1 << 20))
    assert found != digest_of_batches(plain)


def test_as_much_is_digested_at_a_time_whether_it_is_compressed_or_not():
    plain = batched(REPEATED, (3, 6))
    two = sum(len(one.content) for one in plain[:2])
    for bytes_max, count in ((two, 2), (two - 1, 1), (1, 1), (1 << 20, 3)):
        assert expanded_batches(plain, bytes_max) == plain[:count]
        assert expanded_batches(compressed(plain), bytes_max) == plain[:count]


def test_what_stands_for_too_much_or_cannot_be_expanded_is_digested_alone_as_it_is():
    builder = BatchBuilder(1 << 22, codec=Codec.ZSTD)
    builder.append(1, None, bytes(COMPARED_BYTES_MAX), ())
    large = Batch(ORDERS, 9, 1, enclosed(builder.build(), 9))
    plain = batched(REPEATED)
    assert expanded_batches([*plain, large], 1 << 22) == plain
    assert expanded_batches([large, *plain], 1 << 22) == [large]
    (small,) = compressed(plain)
    damaged = replace(small, content=small.content[:-5] + bytes(5))
    assert expanded_batches([damaged, *plain], 1 << 22) == [damaged]
