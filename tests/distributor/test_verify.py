from __future__ import annotations

import pytest

from dafka.model import Batch, Partition
from dafka.query.client import StoreClient
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import Envelope
from distributor.verify import digest, verify

pytestmark = pytest.mark.net

ORDERS = Partition("orders", "AB" * 16)
COPIED = Envelope(origin=1, copy_flags=1)


def verdict(pair, **settings):
    with pair.running():
        return verify(pair.topology, **settings)


def test_empty_clusters_are_equal(pair):
    found = verdict(pair)
    assert found.equal
    assert (found.partitions, found.records) == (0, 0)


def test_batch_boundaries_and_envelopes_do_not_matter(pair, make_batch):
    values = [str(number).encode() for number in range(6)]
    pair.fill(1, make_batch(values[:1]), make_batch(values[1:], 1))
    pair.fill(
        2,
        make_batch(values[:4], envelope=COPIED),
        make_batch(values[4:], 4, envelope=Envelope(1, 5)),
    )
    found = verdict(pair)
    assert found.equal, found.differences
    assert found.clusters == {"c1": 6, "c2": 6}
    assert (found.partitions, found.records) == (1, 12)
    assert found.as_json()["equal"] is True


def test_a_missing_record_is_found(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2", b"3"]))
    pair.fill(2, make_batch([b"1", b"2"]))
    found = verdict(pair)
    assert not found.equal
    assert found.differences == ["'orders'/ABABABAB: c2 ends at 1, others at 2"]


def test_a_missing_partition_is_found(pair, make_batch):
    pair.fill(2, make_batch([b"1"]))
    found = verdict(pair)
    assert found.differences == ["'orders'/ABABABAB: c1 ends at -1, others at 0"]


def built(**changes):
    builder = BatchBuilder(1_000)
    fields = {"timestamp_ms": 5, "key": b"k", "value": b"v", "headers": [("h", b"1")]} | changes
    builder.append(fields["timestamp_ms"], fields["key"], fields["value"], fields["headers"])
    return Batch(ORDERS, 0, 1, enclosed(builder.build(), 0))


@pytest.mark.parametrize(
    "change",
    [
        {"value": b"w"},
        {"value": None},
        {"value": b""},
        {"key": None},
        {"key": b""},
        {"key": b"kv", "value": b""},
        {"timestamp_ms": 6},
        {"headers": []},
        {"headers": [("h", b"2")]},
        {"headers": [("h", None)]},
        {"headers": [("h", b"1"), ("h", b"1")]},
    ],
    ids=repr,
)
def test_any_field_that_differs_is_found(pair, change):
    pair.fill(1, built())
    pair.fill(2, built(**change))
    (difference,) = verdict(pair).differences
    assert "contents differ from 0 to below 1: c1 " in difference


def test_a_gap_is_found(pair, make_batch):
    # No log of ours takes one, so it is a batch that claims to hold more than it does.
    whole = make_batch([b"1", b"2", b"3"])
    later = make_batch([b"4"], 3)
    pair.fill(1, whole, later)
    pair.fill(2, Batch(ORDERS, 0, 3, make_batch([b"1", b"2"]).content), later)
    (difference,) = verdict(pair).differences
    assert "c2 gap at 2" in difference
    with pair.running(2), StoreClient(pair.topology.clusters[1].stores[0].query) as client:
        assert digest(client, ORDERS, 0, 4) == "gap at 2"
        assert digest(client, ORDERS, 0, 9) == "gap at 2"


def test_a_partition_that_ends_early_is_said_to(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]))
    with pair.running(1), StoreClient(pair.topology.clusters[0].stores[0].query) as client:
        assert digest(client, ORDERS, 0, 3) == "ends at 2"
        assert digest(client, ORDERS, 0, 1) != digest(client, ORDERS, 0, 2)
        assert digest(client, Partition("none", "A"), 0, 1) == "ends at 0"


@pytest.mark.parametrize("last", [b"4", b"five"])
def test_where_retention_has_taken_the_beginning_the_rest_is_compared(pair, make_batch, last):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3", b"4"], 2))
    pair.fill(2, make_batch([b"1", b"2"]), make_batch([b"3", last], 2))
    pair.trim(2, {ORDERS: 2})
    found = verdict(pair)
    assert found.records == 4
    assert found.shortened == 1
    assert found.equal == (last == b"4")
    if not found.equal:
        (difference,) = found.differences
        assert "contents differ from 2 to below 4: c1 " in difference


def test_a_cluster_that_does_not_answer_is_not_equal(pair, make_batch):
    pair.fill(1, make_batch([b"1"]))
    with pair.running(1):
        found = verify(pair.topology)
    assert not found.equal
    assert found.differences == []
    assert found.unreachable[0].startswith("c2: ")


def test_progress_ends_with_everything(pair, make_batch):
    told = []
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    verdict(pair, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 4), (4, 4)]
