from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dafka.records.batch import RawRecord
from dafka.spark.known import Known

FIELDS = [(None, value, [("h", b"1")]) for value in (b"a", b"b")]
NOW_MS = 7

rows = st.lists(st.tuples(st.sampled_from(FIELDS), st.none() | st.integers(5, 8)), max_size=12)


def record(fields, timestamp_ms):
    key, value, headers = fields
    return RawRecord(0, timestamp_ms, key, value, tuple(headers))


@given(rows, st.integers(0, 12), st.randoms(use_true_random=False))
def test_of_rows_in_any_order_those_that_are_written_are_found(rows, written, shuffler):
    stored = [record(fields, NOW_MS if stamp is None else stamp) for fields, stamp in rows]
    known = Known(stored[:written])
    assert known.left == len(stored[:written])
    shuffler.shuffle(rows)
    found = [known.take(fields, stamp) for fields, stamp in rows]
    assert found.count(True) == len(stored[:written])
    assert known.left == 0


def test_everything_in_a_row_counts():
    plain = (b"k", b"v", [("h", b"1")])
    others = [
        ((b"x", b"v", [("h", b"1")]), 5),
        ((b"k", None, [("h", b"1")]), 5),
        ((b"k", b"v", []), 5),
        ((b"k", b"v", [("h", None)]), 5),
        (plain, 6),
    ]
    known = Known([record(plain, 5)])
    assert [known.take(*other) for other in others] == [False] * 5
    assert known.take(plain, 5)
    assert not known.take(plain, 5)
    assert not known.take(plain, None)


def test_a_row_without_a_timestamp_leaves_the_others_theirs():
    for seed in range(20):
        known = Known([record(FIELDS[0], stamp) for stamp in (5, NOW_MS, 6)])
        stamps = [None, 5, 6]
        random.Random(seed).shuffle(stamps)
        assert all(known.take(FIELDS[0], stamp) for stamp in stamps)
        assert known.left == 0
