from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from dafka import Consumer, Producer
from dafka.cluster import Cluster
from distributor.link.node import LinkNode
from distributor.operations.heartbeat import Heartbeat, beats_beside, heartbeat_of
from distributor.survey import survey
from topology import plan
from topology.model import HEARTBEATS
from topology.testing import topology_of, tree_of

pytestmark = pytest.mark.net


def heard(origin, cluster):
    """How many heartbeats of one cluster another has heard."""
    labels = {"origin": origin, "cluster": cluster}
    return REGISTRY.get_sample_value("distributor_end_to_end_seconds_count", labels) or 0.0


def point(origin, cluster):
    labels = {"origin": origin, "cluster": cluster}
    return REGISTRY.get_sample_value("distributor_recovery_point_timestamp_seconds", labels)


@pytest.fixture
def pair(make_pair):
    return make_pair("heartbeat_ms: 100")


@pytest.fixture
def beating(pair):
    """Both clusters with links and heartbeats."""
    running = []
    with pair.running():
        running += [LinkNode(pair.topology, link) for link in plan(pair.topology).links]
        running += [heartbeat_of(pair.topology, name, 1) for name in ("c1", "c2")]
        yield pair
        for one in running:
            one.close()


def test_every_cluster_hears_every_other_and_itself(beating, until):
    ends = [(one, other) for one in ("c1", "c2") for other in ("c1", "c2")]
    before = {each: heard(*each) for each in ends}
    until(lambda: all(heard(*each) > before[each] for each in ends))
    assert all(point(*each) > 0 for each in ends)


def test_links_carry_heartbeats_and_surveys_leave_them_out(beating, until):
    with Consumer(Cluster.declared(beating.topology.cluster("c2")), HEARTBEATS) as consumer:
        until(lambda: (beat := consumer.poll(0.1)) is not None and beat.origin == 1)
    assert [holding.heads for holding in survey(beating.topology)] == [{}, {}]


def test_what_others_write_into_the_topic_is_left_out(beating, until):
    with Producer(Cluster.declared(beating.topology.cluster("c1"))) as producer:
        for value in (None, b"", b"c9", b"\xff" * 100):
            producer.send(HEARTBEATS, value)
    before = heard("c1", "c1")
    until(lambda: heard("c1", "c1") > before + 2)
    assert heard("c9", "c1") == 0.0


def test_without_stores_it_says_so_once_and_goes_on(pair, caplog, until):
    caplog.set_level(logging.WARNING)
    heartbeat = Heartbeat(pair.topology, "c1", 5)
    until(lambda: "no store takes heartbeats" in caplog.text)
    assert not heartbeat.join(0.2)
    assert heartbeat.unwell() == heartbeat.unready() == ""
    labels = {"origin": "c2", "cluster": "c1"}
    name = "distributor_recovery_point_timestamp_seconds"
    assert REGISTRY.get_sample_value(name, labels) == 0
    heartbeat.close()
    assert REGISTRY.get_sample_value(name, labels) is None
    assert caplog.text.count("no store takes heartbeats") == 1
    assert heartbeat.join(0)
    assert "ended" in heartbeat.unwell()


def test_only_the_lowest_distributor_of_a_cluster_has_them(make_pair, pair):
    assert heartbeat_of(pair.topology, "c1", 3) is None
    assert heartbeat_of(make_pair("").topology, "c1", 1) is None


def test_they_go_on_beside_one_link_of_each_cluster():
    topology = topology_of(tree_of((3, (1, "c1", "c2"), "c3", "c4")))
    links = plan(topology).links
    assert not any(beats_beside(topology, link) for link in links)
    topology = replace(topology, heartbeat_ms=100)
    beside = [(link.source, link.level) for link in links if beats_beside(topology, link)]
    assert beside == [("c1", 1), ("c2", 1), ("c3", 3), ("c4", 3)]
    assert not beats_beside(topology, replace(links[0], source="c9"))


def test_a_link_that_operators_aim_elsewhere_keeps_them_beside_it():
    topology = replace(topology_of(tree_of((3, (1, "c1", "c2"), "c3", "c4"))), heartbeat_ms=100)
    links = [link for link in plan(topology).links if link.source == "c3"]
    assert any(len(link.targets) > 1 for link in links)
    for link in links:
        aimed = replace(link, targets=link.targets[::-1])
        assert bool(beats_beside(topology, aimed)) == bool(beats_beside(topology, link))
