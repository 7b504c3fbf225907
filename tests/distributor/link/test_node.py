from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import Partition, PartitionShare
from dafka.node.loop import NodeFailedError
from dafka.node.producer import Producer
from dafka.query.client import StoreClient
from dafka.records.batch import is_compressed, records_of
from dafka.records.compression import Codec
from dafka.transport.mesh import Mesh
from distributor.link import node as module
from distributor.link.node import LinkNode, part_of
from distributor.verify.compare import verify
from tests.support.shares import also_shared
from topology import plan
from topology.model import COMPRESSIONS, Links

pytestmark = pytest.mark.net


def everything(pair, number):
    with StoreClient(pair.topology.clusters[number - 1].stores[0].query) as client:
        return [
            record
            for partition, head in client.heads().items()
            for batch in client.scan(partition, 0, head + 1)
            for record in records_of(batch)
        ]


@pytest.mark.parametrize(("took_ms", "rest_ms"), [(0, 500), (4, 500), (20, 2_000), (600, 10_000)])
def test_the_lag_is_worked_out_in_a_hundredth_of_the_time_at_most(took_ms, rest_ms):
    assert module._rested(1_000, 1_000 + took_ms) == 1_000 + took_ms + rest_ms


@pytest.fixture
def linked(pair):
    """Two clusters, running, and a function that starts the links between them."""
    with started(pair) as linked:
        yield linked


@contextmanager
def started(pair):
    nodes = []

    def start():
        started = [LinkNode(pair.topology, link) for link in plan(pair.topology).links]
        nodes.extend(started)
        return started

    with pair.running():
        pair.start = start
        yield pair
        for node in nodes:
            node.close()


def publish(pair, number, topic, count):
    cluster = pair.topology.clusters[number - 1]
    with Producer(Cluster(cluster.towers[0], host=cluster.host)) as producer:
        for index in range(count):
            producer.send(topic, f"{number}-{index}".encode(), key=b"k", headers=[("h", None)])


def test_records_of_both_clusters_arrive_on_the_other_once_in_order(linked, until):
    linked.start()
    publish(linked, 1, "orders", 50)
    publish(linked, 2, "orders", 30)
    until(lambda: verify(linked.topology, settle_s=0).clusters == {"c1": 80, "c2": 80})
    found = verify(linked.topology, deep=True)
    assert found.equal, found.differences
    for number, own, others in ((1, 50, 30), (2, 30, 50)):
        records = everything(linked, number)
        at_home = [r for r in records if r.value.startswith(str(number).encode())]
        copies = [record for record in records if record not in at_home]
        assert [record.sequence for record in at_home] == list(range(own))
        assert [record.sequence for record in copies] == list(range(others))
        assert {(r.copy_flags, r.origin) for r in at_home} == {(0, 0)}
        assert {(r.copy_flags, r.origin) for r in copies} == {(1, 3 - number)}


def test_what_was_there_before_the_link_is_copied_and_what_is_copied_is_not_again(linked, until):
    publish(linked, 1, "orders", 20)
    for node in linked.start():
        until(lambda: verify(linked.topology, settle_s=0).equal)
        node.close()
        assert node.join(0)
    linked.start()
    publish(linked, 1, "orders", 5)
    until(lambda: verify(linked.topology, settle_s=0).clusters == {"c1": 25, "c2": 25})
    assert verify(linked.topology, deep=True).equal


def test_a_link_over_ipv6(make_pair, until):
    with started(make_pair(host="[::1]")) as linked:
        linked.start()
        publish(linked, 1, "orders", 3)
        until(lambda: verify(linked.topology, settle_s=0).clusters == {"c1": 3, "c2": 3})
        assert verify(linked.topology, deep=True).equal


def test_internal_topics_stay_at_home(linked, until):
    linked.start()
    publish(linked, 1, "__internal", 5)
    publish(linked, 1, "orders", 5)
    until(lambda: len(everything(linked, 2)) == 5)
    assert {record.topic for record in everything(linked, 2)} == {"orders"}


def test_a_failed_link_says_so_when_it_is_joined(linked, until):
    node = linked.start()[0]
    assert not node.join(0)
    node._node.post("nowhere", "no event")
    until(lambda: node._node.failure)
    with pytest.raises(NodeFailedError, match="link has failed"):
        node.join(1)


def test_an_error_in_a_survey_ends_the_link(linked, until, monkeypatch):
    def fail(ends, found):
        raise RuntimeError("in another thread")

    monkeypatch.setattr(module.BothEnds, "survey", fail)
    failing, _ = linked.start()
    publish(linked, 1, "orders", 1)

    def failed():
        try:
            return failing.join(0.1)
        except NodeFailedError as error:
            return "in another thread" in str(error)

    until(failed)


def test_it_is_ready_when_it_has_found_both_clusters(pair, until):
    link = plan(pair.topology).links[0]
    node = LinkNode(pair.topology, link)
    try:
        assert node.unwell() == ""
        assert node.unready() == "no node heard of c1 and c2"
        with pair.running(1):
            until(lambda: node.unready() == "no node heard of c2")
            with pair.running(2):
                until(lambda: node.unready() == "")
    finally:
        node.close()
    assert node.unwell() == "link has ended"


def test_a_link_that_cannot_open_its_second_mesh_closes_the_first(pair, monkeypatch):
    opened = []

    def open_one(*arguments):
        if opened:
            raise MisuseError("told to")
        opened.append(Mesh(*arguments))
        return opened[0]

    monkeypatch.setattr(module, "Mesh", open_one)
    with pytest.raises(MisuseError, match="told to"):
        LinkNode(pair.topology, plan(pair.topology).links[0])
    assert all(socket.closed for socket in opened[0].pollable)


def test_a_partition_with_another_history_is_left_alone_and_told(pair, make_batch, until, caplog):
    other = Partition("orders", "CD" * 16)
    pair.fill(1, make_batch([b"1", b"2", b"3"]), make_batch([b"1", b"2"], 0, other))
    pair.fill(2, make_batch([b"1", b"X"]))
    with pair.running():
        (link, _) = plan(pair.topology).links
        node = LinkNode(pair.topology, link)
        try:
            until(lambda: len(everything(pair, 2)) == 4)
            assert {r.value for r in everything(pair, 2) if r.address != other.address} == {
                b"1",
                b"X",
            }
            labels = {"source": "c1", "target": "c2", "level": "1"}
            name = "distributor_diverged_partitions"
            until(lambda: REGISTRY.get_sample_value(name, labels) == 1)
            assert "same name, other record" in caplog.text
        finally:
            node.close()
        assert REGISTRY.get_sample_value(name, labels) is None


@pytest.mark.parametrize(
    ("bound", "of", "part"), [(None, 4, None), (100, 4, 25), (3, 4, 1), (100, 1, 100)]
)
def test_shares_of_a_link_divide_what_it_may_send(bound, of, part):
    assert part_of(bound, PartitionShare(0, of)) == part


@also_shared("pair")
def test_a_share_copies_its_partitions_and_no_others(pair, make_batch, until):
    addresses = [f"{number:032X}" for number in range(20)]
    batches = [make_batch([b"1", b"2"], 0, Partition("orders", one)) for one in addresses]
    pair.fill(1, *batches)
    with pair.running(), ExitStack() as stack:
        link = plan(pair.topology).links[0]
        first, second = (
            LinkNode(
                pair.topology,
                link,
                permitted=not number,
                watched=True,
                share=PartitionShare(number, 2),
            )
            for number in range(2)
        )
        stack.callback(first.close)
        stack.callback(second.close)
        ours = {one for one in addresses if PartitionShare(0, 2).has(one)}
        assert 0 < len(ours) < 20
        until(lambda: {one.address for one in everything(pair, 2)} == ours)
        until(lambda: {one.address for one in second.progress.there} == {*addresses} - ours)
        until(lambda: {one.address for one in first.progress.there} == ours)
        second.permit()
        until(lambda: len(everything(pair, 2)) == 40)
        records = everything(pair, 2)
        assert len({(one.address, one.sequence) for one in records}) == 40


def test_a_link_that_may_not_write_is_ready_and_writes_once_it_may(pair, until):
    with pair.running():
        link = plan(pair.topology).links[0]
        node = LinkNode(pair.topology, link, permitted=False, watched=True)
        try:
            publish(pair, 1, "orders", 20)
            until(lambda: [*node.progress.there.values()] == [0])
            assert everything(pair, 2) == []
            turned_ms = node.turned_ms
            until(lambda: node.turned_ms > turned_ms)
            node.permit()
            until(lambda: len(everything(pair, 2)) == 20)
            until(lambda: [*node.progress.done.values()] == [20])
            assert node.progress.taken == node.progress.there == node.progress.done
        finally:
            node.close()


def test_a_link_compresses_as_its_level_says(pair, until):
    assert tuple(codec.name.lower() for codec in Codec) == COMPRESSIONS
    topology = replace(pair.topology, links=Links(level_compression={1: "zstd"}))
    link = plan(topology).links[0]
    with pair.running(), ExitStack() as stack:
        stack.callback(LinkNode(topology, link).close)
        producer = stack.enter_context(Producer(topology.clusters[0].towers[0]))
        producer.send("orders", bytes(1_000))
        target = stack.enter_context(StoreClient(topology.clusters[1].stores[0].query))
        partition = Partition("orders", producer.address)
        until(lambda: partition in target.heads())
        (batch,) = target.scan(partition, 0, 1)
        assert is_compressed(batch.content)
        assert [record.value for record in records_of(batch)] == [bytes(1_000)]
        assert verify(topology, deep=True).equal
