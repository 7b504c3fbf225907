from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from dafka import Producer
from dafka.cluster import Cluster
from dafka.model import Batch, Partition
from dafka.node.mirror import Mirror
from dafka.node.store import Store
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import Envelope
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.survey import Holding, survey
from distributor.verify.compare import verify
from distributor.verify.repair import repairable
from distributor.verify.verdict import Difference, DifferenceKind
from tests.support.query_port import unanswered
from tests.support.shares import HIGH, LOW, also_shared
from topology.model import StoreSpec

pytestmark = pytest.mark.net

MODULE = sys.modules[verify.__module__]
"""Its package has the function under the same name."""

ORDERS = Partition("orders", "AB" * 16)
OTHERS = Partition("others", "CD" * 16)
COPIED = Envelope(origin=1, copy_flags=1)


def verdict(pair, **settings):
    with pair.running():
        return verify(pair.topology, **{"deep": True, "settle_s": 0} | settings)


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


@pytest.mark.parametrize("deep", [False, True])
@also_shared("pair")
def test_missing_records_are_found(pair, make_batch, deep):
    pair.fill(1, make_batch([b"1", b"2", b"3"]), make_batch([b"1"], 0, OTHERS))
    pair.fill(2, make_batch([b"1", b"2"]))
    found = verdict(pair, deep=deep)
    assert found.differences == [
        Difference(DifferenceKind.BEHIND, *ORDERS, "c2", 2, 2, ("c1",)),
        Difference(DifferenceKind.BEHIND, *OTHERS, "c2", 0, 0, ("c1",)),
    ]
    assert found.records == (4 if deep else 0)


def test_only_the_partitions_asked_for_are_compared(pair, make_batch):
    pair.fill(1, make_batch([b"1"]), make_batch([b"1"], 0, OTHERS))
    found = verdict(pair, only=[OTHERS])
    assert found.differences == [Difference(DifferenceKind.BEHIND, *OTHERS, "c2", 0, 0, ("c1",))]
    assert found.partitions == 1


@also_shared("pair")
def test_heads_alone_do_not_show_other_contents(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2", b"3"]))
    pair.fill(2, make_batch([b"1", b"two", b"3"]))
    with pair.running():
        assert verify(pair.topology).equal
        deep = verify(pair.topology, deep=True)
    assert deep.differences == [Difference(DifferenceKind.DIFFERS, *ORDERS, "c2", 1, 1, ("c1",))]


def built(**changes):
    builder = BatchBuilder(1_000)
    fields = {"timestamp_ms": 5, "key": b"k", "value": b"v", "headers": [("h", b"1")]} | changes
    builder.append(fields["timestamp_ms"], fields["key"], fields["value"], fields["headers"])
    return Batch(ORDERS, 0, 1, enclosed(builder.build(), 0))


@pytest.mark.parametrize(
    "change",
    [{"value": None}, {"key": b"kv", "value": b""}, {"timestamp_ms": 6}, {"headers": []}],
    ids=repr,
)
def test_any_field_that_differs_is_found(pair, change):
    pair.fill(1, built())
    pair.fill(2, built(**change))
    (difference,) = verdict(pair).differences
    assert difference.kind is DifferenceKind.DIFFERS


def test_a_batch_that_holds_less_than_it_claims_is_found(pair, make_batch):
    # No log of ours takes one from a peer; a bug or a damaged disk may leave one.
    whole = make_batch([b"1", b"2", b"3"])
    later = make_batch([b"4"], 3)
    pair.fill(1, whole, later)
    pair.fill(2, Batch(ORDERS, 0, 3, make_batch([b"1", b"2"]).content), later)
    (difference,) = verdict(pair).differences
    assert (difference.kind, difference.cluster) == (DifferenceKind.UNREADABLE, "c2")
    assert (difference.first, difference.last) == (0, 2)
    assert "batch count" in difference.detail


@pytest.mark.parametrize("last", [b"4", b"five"])
@also_shared("pair")
def test_where_retention_has_taken_the_beginning_the_rest_is_compared(pair, make_batch, last):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3", b"4"], 2))
    pair.fill(2, make_batch([b"1", b"2"]), make_batch([b"3", last], 2))
    pair.trim(2, {ORDERS: 2})
    found = verdict(pair)
    assert found.records == 4
    assert found.shortened == 1
    expected = (
        [] if last == b"4" else [Difference(DifferenceKind.DIFFERS, *ORDERS, "c2", 3, 3, ("c1",))]
    )
    assert found.differences == expected


def test_what_nobody_keeps_any_more_is_gone(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3", b"4"], 2), make_batch([b"5"], 4))
    pair.trim(1, {ORDERS: 4})
    pair.fill(2, make_batch([b"1"]))
    assert verdict(pair).differences == [
        Difference(DifferenceKind.GONE, *ORDERS, "c2", 1, 3, ("c1",)),
        Difference(DifferenceKind.BEHIND, *ORDERS, "c2", 4, 4, ("c1",)),
    ]


def test_whoever_holds_nothing_lacks_only_what_is_kept(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    pair.trim(1, {ORDERS: 2})
    assert verdict(pair).differences == [
        Difference(DifferenceKind.BEHIND, *ORDERS, "c2", 2, 2, ("c1",)),
    ]


def test_of_stores_that_share_slots_those_are_compared_that_keep_the_same(make_pair, make_batch):
    """None says of what it does not keep what another has; nothing is compared with itself."""
    pair = make_pair(shares=(HIGH, LOW, LOW))
    whole, other = make_batch([b"1", b"2", b"3"]), make_batch([b"1"], 0, OTHERS)
    pair.fill(1, whole, other, stores=[0, 1])
    pair.fill(1, make_batch([b"one", b"2", b"3"]), stores=[2])
    pair.fill(2, whole, other)
    found = verdict(pair)
    (difference,) = found.differences
    assert (difference.kind, difference.first, difference.last) == (DifferenceKind.DIFFERS, 0, 0)
    _, *keepers = (f"c1 {store.query}" for store in pair.topology.clusters[0].stores)
    assert {difference.cluster, *difference.others} == set(keepers)
    assert found.clusters == {"c1": 4, "c2": 4}
    assert found.records == 2 * 4 + 2 * 3, "of both clusters, and of what two stores of c1 keep"


def test_a_cluster_that_does_not_answer_is_not_equal(pair, make_batch):
    pair.fill(1, make_batch([b"1"]))
    with pair.running(1):
        found = verify(pair.topology, deep=True)
    assert not found.equal
    assert found.differences == []
    assert found.clusters == {"c1": 1, "c2": None}
    assert found.unreachable[0].startswith("c2: ")


def test_a_store_that_answers_no_more_is_unreachable(pair, make_batch, monkeypatch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    with pair.running(1):
        with pair.running(2):
            held = survey(pair.topology)
        monkeypatch.setattr(MODULE, "survey", lambda _: held)
        unanswered(monkeypatch, pair.queries[1])
        found = verify(pair.topology, deep=True)
    assert found.unreachable[0].startswith("c2: ")
    assert (found.equal, found.differences, found.records) == (False, [], 0)


def test_records_that_come_meanwhile_are_waited_for(pair, make_batch, until):
    pair.fill(1, make_batch([b"1", b"2"]))
    pair.fill(2, make_batch([b"1"]))
    with pair.running():
        found = []
        thread = threading.Thread(
            target=lambda: found.append(verify(pair.topology, deep=True, settle_s=30))
        )
        thread.start()
        late = Mirror(Cluster.declared(pair.topology.clusters[1]))
        late.publish(make_batch([b"2"], 1, envelope=COPIED), 10)
        late.flush(10)
        # What is published after the snapshot on one cluster only is not due on the other.
        thread.join()
        late.close()
    assert found[0].equal


def test_what_is_published_after_the_snapshot_is_not_due(pair, make_batch, monkeypatch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    with pair.running(), Producer(Cluster.declared(pair.topology.clusters[0])) as producer:

        def survey_then_publish(topology):
            found = survey(topology)
            producer.send("orders", b"new")
            producer.flush(10)
            return found

        monkeypatch.setattr(MODULE, "survey", survey_then_publish)
        found = verify(pair.topology, deep=True)
    assert found.equal


def test_a_cluster_that_is_catching_up_is_said_to_be(pair, make_batch, monkeypatch):
    heads = iter([0, 3])

    def catching_up(_):
        head = next(heads, 3)
        full = Holding("c1", "tcp://127.0.0.1:1", {ORDERS: 9}, "", {ORDERS: 0})
        return [full, Holding("c2", "tcp://127.0.0.1:1", {ORDERS: head}, "", {ORDERS: 0})]

    monkeypatch.setattr(MODULE, "survey", catching_up)
    (difference,) = verify(pair.topology, settle_s=0.3).differences
    assert difference == Difference(
        DifferenceKind.BEHIND, *ORDERS, "c2", 4, 9, ("c1",), moving=True
    )


def test_progress_ends_with_everything(pair, make_batch):
    told = []
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    verdict(pair, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (4, 4)
    assert told == sorted(told)


def test_it_ends_early_when_it_is_stopped(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]))
    pair.fill(2, make_batch([b"1", b"3"]))
    found = verdict(pair, stopped=lambda: True, settle_s=30)
    assert found.records == 0


def test_a_topic_is_not_missed_where_it_is_not_placed(make_pair, make_batch):
    pair = make_pair('placement: [{topics: "orders", clusters: [c1]}]')
    pair.fill(1, make_batch([b"1"]), make_batch([b"1"], 0, OTHERS))
    assert verdict(pair).differences == [
        Difference(DifferenceKind.BEHIND, *OTHERS, "c2", 0, 0, ("c1",))
    ]


@pytest.fixture
def second(pair, make_batch, tmp_path, free_ports):
    """A function that compares, c1 having a second store with these batches, which hears nobody."""

    def second(*batches, running=True, **settings):
        tower, query = (f"tcp://127.0.0.1:{port}" for port in (free_ports(2), free_ports(1)))
        directory = tmp_path / "second"
        log = LmdbLog(directory, durability=Durability.OS)
        log.append(batches)
        log.close()
        first, other = pair.topology.clusters
        both = (*first.stores, StoreSpec(query=query, data=str(directory)))
        topology = replace(pair.topology, clusters=(replace(first, stores=both), other))
        with ExitStack() as opened:
            if running:
                opened.enter_context(Store(directory, Cluster(tower), query=query))
            opened.enter_context(pair.running())
            name = f"c1 {query}", f"c1 {first.stores[0].query}"
            return verify(topology, **{"deep": True, "settle_s": 0} | settings), *name

    return second


def test_a_store_that_lacks_what_another_of_its_cluster_has_is_named(pair, make_batch, second):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2", b"3"]))
    found, lacking, whole = second(make_batch([b"1"]), deep=False)
    assert found.differences == [
        Difference(DifferenceKind.BEHIND, *ORDERS, lacking, 1, 2, (whole,), within="c1")
    ]
    assert found.exit_code == 1
    assert f"{lacking} lacks 1 to 2, there on {whole}" in found.problems[0]
    chosen, left = repairable(found.differences)
    assert chosen == []
    assert "left to the stores of c1" in left[0]


def test_a_store_with_another_history_than_its_cluster_s_is_found(pair, make_batch, second):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2", b"3"]))
    found, odd, whole = second(make_batch([b"1", b"two", b"3"]))
    (difference,) = found.differences
    assert (difference.kind, difference.within) == (DifferenceKind.DIFFERS, "c1")
    assert {difference.cluster, *difference.others} == {odd, whole}
    assert (difference.first, difference.last) == (1, 1)
    assert found.exit_code == 3
    assert found.records > 6


def test_stores_that_hold_the_same_are_equal_and_one_that_is_silent_is_not(
    pair, make_batch, second
):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    assert second(make_batch([b"1"]), make_batch([b"2"], 1))[0].equal
    found, silent, _ = second(running=False)
    assert found.differences == []
    assert found.exit_code == 4
    assert found.unreachable[0].startswith(f"{silent}: ")
