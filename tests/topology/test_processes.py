from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from topology.model import Links, Ports, StoreSpec
from topology.plan import plan
from topology.processes import ProcessKind, processes_of
from topology.testing import topology_of, tree_of

FOUR = topology_of(tree_of((3, (1, "a", "b"), (1, "c", "d"))))
FILE = Path("there/topology.yaml")


def test_what_is_started_first_stands_first_and_runs_under_its_program():
    found = processes_of(plan(FOUR), FILE)
    kinds = [one.kind for one in found]
    assert (
        kinds == [ProcessKind.TOWER] * 4 + [ProcessKind.STORE] * 4 + [ProcessKind.DISTRIBUTOR] * 8
    )
    assert found[0].command == ("dafka", "tower", "--endpoint", "tcp://127.0.0.1:20000")
    words = "distributor run --topology there/topology.yaml --cluster a --level 3"
    assert found[8].command == tuple(words.split())
    assert all(one.metrics is None for one in found)


def test_metrics_are_where_the_file_says_or_who_asks():
    numbered = replace(FOUR, metrics=Ports(host="here", first_port=9_000))
    found = processes_of(plan(numbered), FILE)
    assert [one.metrics for one in found] == [f"here:{9_000 + n}" for n in range(16)]
    found = processes_of(plan(numbered), FILE, lambda kind, name, cluster, index: f"{name}:{index}")
    assert found[1].metrics == "b-tower-1:1"
    assert found[1].command[-2:] == ("--metrics", "b-tower-1:1")


def test_what_a_distributor_reads_has_nothing_of_what_others_do():
    before = {one.name: one.reads for one in processes_of(plan(FOUR), FILE)}
    stores = (replace(FOUR.clusters[3].stores[0], query="tcp://127.0.0.1:30000"),)
    moved = replace(FOUR, clusters=(*FOUR.clusters[:3], replace(FOUR.clusters[3], stores=stores)))
    after = {one.name: one.reads for one in processes_of(plan(moved), FILE)}
    same = {name for name in before if before[name] == after[name]}
    assert {"a-level-1", "b-level-1"} <= same
    assert not {"d-level-1", "c-level-1", "a-level-3"} & same


def test_a_store_is_told_the_slots_that_it_keeps():
    topology = topology_of(tree_of("c1"))
    shares = ((range(2_048),), (range(100), range(2_048, 4_096)), (range(4_096),))
    stores = tuple(
        StoreSpec(query=f"tcp://127.0.0.1:3000{number}", data=f"s{number}", slots=slots)
        for number, slots in enumerate(shares)
    )
    clusters = (replace(topology.clusters[0], stores=stores),)
    found = processes_of(plan(replace(topology, clusters=clusters)), FILE)
    commands = [one.command for one in found if one.kind is ProcessKind.STORE]
    told = [one[one.index("--slots") + 1] if "--slots" in one else "" for one in commands]
    assert told == ["0-2047", "0-99,2048-4095", ""]


def test_each_share_of_links_is_a_process_with_its_place_for_metrics():
    shared = replace(FOUR, links=Links(level_shares={3: 2}), metrics=Ports(first_port=9_000))
    found = {one.name: one for one in processes_of(plan(shared), FILE)}
    share = found["a-level-3-1-of-2"]
    assert share.command[-8:-2] == ("--cluster", "a", "--level", "3", "--share", "1/2")
    assert "a-level-1" in found
    assert "a-level-3" not in found
    assert len({one.metrics for one in found.values()}) == len(found) == 4 + 4 + 12


@pytest.mark.parametrize(
    "links", [Links(level_shares={3: 2}), Links(level_compression={3: "zstd"})], ids=range(2)
)
def test_what_is_said_of_a_level_is_nothing_to_those_of_others(links):
    before = {one.name: one.reads for one in processes_of(plan(FOUR), FILE)}
    shared = replace(FOUR, links=links)
    after = {one.name: one.reads for one in processes_of(plan(shared), FILE)}
    same = {name for name in before if name in after and before[name] == after[name]}
    assert {one for one in before if one not in same} == {f"{one}-level-3" for one in "abcd"}


def test_a_store_on_another_host_than_its_cluster_is_bound_there():
    topology = topology_of(tree_of("c1"))
    hosts = "127.0.0.1", "localhost", "dafka-2.example"
    stores = tuple(StoreSpec(query=f"tcp://{host}:30000", data=host) for host in hosts)
    clusters = (replace(topology.clusters[0], stores=stores, advertise="dafka-1.example"),)
    found = processes_of(plan(replace(topology, clusters=clusters)), FILE)
    commands = [one.command for one in found if one.kind is ProcessKind.STORE]
    told = [one[one.index("--host") + 1] for one in commands]
    assert told == ["127.0.0.1", "127.0.0.1", "dafka-2.example"]
    assert ["--advertise" in one for one in commands] == [True, True, False]
