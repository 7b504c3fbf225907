from __future__ import annotations

from dataclasses import replace

from dafka.spark.bounds import TopicSelection
from distributor.spark.patterns import carried_pattern, wanted_pattern
from topology.model import Topics

PLACED = """placement:
  - {topics: "orders.eu.*", clusters: [c1]}
  - {topics: "orders.*", clusters: [c1, c2]}
  - {topics: "local.*", clusters: [c2]}
  - {topics: "*.eu.*", clusters: [c2, c1]}"""

TOPICS = ("orders.eu.x", "orders.us", "local.eu.x", "other.eu.x", "other", "_own", "orders")
OWN = ("__heartbeat", "__topics", "__staged", "__heartbeats", "_schemas")


def taken(pattern):
    """As a source of Spark takes it."""
    selection = TopicSelection(pattern=pattern)
    return [topic for topic in (*TOPICS, *OWN) if selection.wants(topic)]


def test_each_link_takes_the_topics_that_are_placed_where_it_leads(make_pair):
    """As the native link does; the first rule that matches counts."""
    topology = make_pair(PLACED).topology
    for span in topology.spans:
        found = taken(carried_pattern(topology, span))
        assert found == [one for one in (*TOPICS, *OWN) if topology.carries(one, span)]
        assert found


def test_of_each_cluster_that_counts_which_is_to_be_there(make_pair):
    topology = make_pair(PLACED).topology
    for cluster in ("c1", "c2"):
        found = taken(wanted_pattern(topology, cluster))
        assert found == [one for one in (*TOPICS, *OWN) if topology.wants(one, cluster)]
        assert found


def test_topics_of_the_cluster_itself_are_never_wanted_whatever_the_file_includes(pair):
    for topics in (Topics(), Topics(include=("_schemas", "orders"), exclude=())):
        topology = replace(pair.topology, topics=topics)
        for topic in taken(wanted_pattern(topology, "c1")):
            assert topics.wants(topic)
        assert "orders" in taken(wanted_pattern(topology, "c1"))
