"""Following a real store."""

from __future__ import annotations

import shutil
from uuid import UUID

import pytest

from dafka.cluster import Cluster
from dafka.gateway.broker import KafkaPartition, Topic
from dafka.gateway.catalog import CATALOG, TopicState, encoded_topic
from dafka.gateway.effects import (
    CatalogRead,
    CommitsTold,
    HearAgain,
    LedgersRead,
    Looked,
    LookSoon,
    ReadLedger,
    StoreTold,
)
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.node.committer import Committer
from dafka.node.store_watch import StoreWatch
from dafka.protocol.events import PeerLeft
from dafka.query.client import StoreClient
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

ORDERS = Topic("orders", 1, UUID(int=7), {})


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    cluster = SmallCluster(tmp_path, free_ports, reopened)
    cluster.start_tower()
    yield cluster
    cluster.close()


@pytest.fixture
def watched(cluster):
    """A watch of its store, and what it has posted."""
    posted = []
    place = Cluster(stores=cluster.queries)
    watch = StoreWatch(cluster.query, place, lambda: {"orders": ORDERS}, posted.append)
    watch.start()
    yield watch, posted
    watch.close()
    assert not watch.unwell()


def test_what_changes_is_told(cluster, watched, until):
    _, posted = watched
    store = cluster.store()
    producer = cluster.producer()
    producer.send("orders", b"a")
    producer.send("others", b"b")
    producer.send(CATALOG, encoded_topic(ORDERS))
    producer.flush(30)
    place = Partition("orders", producer.address)
    until(lambda: StoreTold(store.address, {place: range(1)}) in posted)
    until(lambda: CatalogRead((TopicState(ORDERS),)) in posted)
    producer.send("orders", b"c")
    producer.flush(30)
    until(lambda: StoreTold(store.address, {place: range(2)}) in posted)


def test_a_store_is_asked_soon_if_somebody_waits(cluster, until):
    posted = []
    store = cluster.store()
    producer = cluster.producer()
    producer.send("orders", b"a")
    producer.flush(30)
    place = Partition("orders", producer.address)
    stores = Cluster(stores=cluster.queries)
    topics = {"orders": ORDERS}
    watch = StoreWatch(cluster.query, stores, lambda: topics, posted.append, look_s=600)
    watch.start()
    until(lambda: StoreTold(store.address, {place: range(1)}) in posted)
    producer.send("orders", b"b")
    producer.flush(30)
    watch.ask(LookSoon(5))
    until(lambda: Looked(5) in posted)
    assert StoreTold(store.address, {place: range(2)}) in posted, "before who waits is told"
    watch.close()


def test_what_a_store_has_forgotten_is_told(cluster, watched, until):
    _, posted = watched
    store = cluster.store(deletable=True, forget_after_ms=300)
    producer = cluster.producer()
    for topic in ("orders", "others"):
        producer.send(topic, b"a")
    producer.flush(30)
    place = Partition("orders", producer.address)
    until(lambda: StoreTold(store.address, {place: range(1)}) in posted)
    with StoreClient(cluster.query, 10_000) as client:
        assert client.delete("others") == client.delete("orders") == 1
    until(lambda: StoreTold(store.address, {}, (place,)) in posted)


def test_all_is_told_again_of_the_store_that_is_meant(cluster, watched, until):
    watch, posted = watched
    store = cluster.store()
    producer = cluster.producer()
    producer.send("orders", b"a")
    producer.flush(30)
    told = StoreTold(store.address, {Partition("orders", producer.address): range(1)})
    until(lambda: told in posted)
    watch.ask(LookSoon(1))
    until(lambda: Looked(1) in posted)  # what changed in the first look is told in the second
    posted.clear()
    watch.ask(HearAgain("another"))
    watch.ask(ReadLedger(KafkaPartition("orders", 0), 4, 1))
    until(lambda: any(isinstance(one, LedgersRead) for one in posted))
    assert told not in posted
    watch.ask(HearAgain(store.address))
    until(lambda: told in posted)


def test_a_store_on_a_new_disk_is_another_one(cluster, watched, until):
    _, posted = watched
    before = cluster.store()
    until(lambda: CommitsTold(before.address, [], whole=True, new=False) in posted)
    before.close()
    shutil.rmtree(cluster.data())
    after = cluster.store()
    until(lambda: PeerLeft(before.address) in posted)
    told = [one.store for one in posted if isinstance(one, (CommitsTold, StoreTold))]
    assert after.address not in told[: posted.index(PeerLeft(before.address))]


def test_a_ledger_is_read_as_soon_as_the_store_is_there(cluster, watched, until):
    watch, posted = watched
    wanted = ReadLedger(KafkaPartition("orders", 0), 4, 1)
    watch.ask(wanted)
    store = cluster.store()
    until(lambda: any(isinstance(one, LedgersRead) for one in posted))
    (read,) = [one for one in posted if isinstance(one, LedgersRead)]
    assert read.found[wanted.partition, 4].store == store.address


def test_a_thousand_ledgers_are_told_in_parts(cluster, until):
    many, posted = ORDERS._replace(partitions=1_000), []
    store = cluster.store()
    place = Cluster(stores=cluster.queries)
    watch = StoreWatch(cluster.query, place, lambda: {"orders": many}, posted.append)
    wanted = [ReadLedger(KafkaPartition("orders", number), 4, 1) for number in range(1_000)]
    for one in wanted:
        watch.ask(one)
    watch.start()
    until(lambda: len(parts_of(posted)) == 4)
    watch.close()
    assert not watch.unwell()
    parts = parts_of(posted)
    assert [len(part) for part in parts] == [256, 256, 256, 232]
    assert {place for part in parts for place in part} == {(one.partition, 4) for one in wanted}
    assert {read.store for part in parts for read in part.values()} == {store.address}


def parts_of(posted):
    return [one.found for one in posted if isinstance(one, LedgersRead)]


def test_what_groups_commit_is_told_as_the_store_holds_it(cluster, watched, until):
    _, posted = watched
    store = cluster.store()
    until(lambda: CommitsTold(store.address, [], whole=True) in posted)
    key = CommitKey("billing", Partition("orders", "A"))
    committer = Committer(Cluster(cluster.towers, cluster.queries), 30)
    committer.write([(key, Commit(2, 1, 2)), (key, Commit(1, 1, 1))])
    until(lambda: CommitsTold(store.address, [(key, Commit(2, 1, 2))]) in posted)
    committer.write([(key, Commit(3, 1, 3))])
    committer.close()
    until(lambda: CommitsTold(store.address, [(key, Commit(3, 1, 3))]) in posted)


def test_a_store_that_has_what_the_other_has_is_new_no_more(tmp_path, free_ports, reopened, until):
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=2)
    cluster.start_tower()
    cluster.store(0)
    place = Cluster(stores=cluster.queries)
    watch = StoreWatch(cluster.queries[0], place, dict, [].append)
    watch.start()
    with StoreClient(cluster.queries[0]) as client:
        assert client.health().new, "the other one is away"
        cluster.store(1)
        until(lambda: not client.health().new)
    watch.close()
    cluster.close()
