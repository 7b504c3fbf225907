from __future__ import annotations

from dataclasses import replace

import pytest

from topology.model import (
    ControllerSpec,
    ControlSpec,
    GatewaySpec,
    Levels,
    Links,
    Placement,
    Ports,
    ReplicaSpec,
    Security,
    StoreSpec,
)
from topology.rules import problems_of, problems_of_reach, process_count
from topology.testing import topology_of, tree_of

TREE = tree_of((3, (1, "c1", "c2"), (1, "c3", "c4")))
FOUR = topology_of(TREE)


CONTROLLERS = (ControllerSpec(metrics="127.0.0.1:9301"),)
REPLICAS = (ReplicaSpec(listen="127.0.0.1:9401", metrics="127.0.0.1:9402"),)


def with_cluster(index, **changes):
    clusters = list(FOUR.clusters)
    clusters[index] = replace(clusters[index], **changes)
    return replace(FOUR, clusters=tuple(clusters))


def with_tree(nested):
    return replace(FOUR, tree=tree_of(nested))


def store(query="tcp://127.0.0.1:30000", data="data/other"):
    return StoreSpec(query=query, data=data)


def told(topology):
    return [(problem.path, problem.message, problem.hint) for problem in problems_of(topology)]


def test_a_right_topology_has_no_problems():
    assert told(FOUR) == []


def test_a_single_cluster_is_a_right_topology():
    assert told(topology_of(tree_of("c1"))) == []


@pytest.mark.parametrize(
    ("topology", "path", "message", "hint"),
    [
        *(
            (
                with_cluster(1, **{name: open_to}),
                "$.clusters[1]",
                "anybody who reaches node-b could read and write 'c2'",
                "or say insecure: true",
            )
            for name, open_to in [
                ("host", "node-b"),
                ("towers", ("tcp://node-b:20000",)),
                ("stores", (store("tcp://node-b:20002"),)),
            ]
        ),
        (
            with_tree((3, (3, "c1", "c2"), (1, "c3", "c4"))),
            "$.tree.children[0].level",
            "level 3 is not below 3",
            "strictly increase towards the root",
        ),
        (
            with_tree((3, (1, "c1", "c2"), (4, "c3", "c4"))),
            "$.tree.children[1].level",
            "level 4 is not below 3",
            "strictly increase",
        ),
        (
            with_tree((3, (2, "c1", (2, "c2", "c3")), "c4")),
            "$.tree.children[0].children[1].level",
            "level 2 is not below 2",
            "strictly increase",
        ),
        (
            with_tree((3, (1, "c1", "c2"), (1, "c3", "c4", "c1"))),
            "$.tree.children[1].children[2]",
            "'c1' stands in the tree twice",
            "$.tree.children[0].children[0]",
        ),
        (
            with_tree((3, (1, "c1", "c2"), "c3")),
            "$.clusters[3].name",
            "'c4' is missing in the tree",
            "$.tree",
        ),
        (
            with_tree((3, (1, "c1", "c2"), (1, "c3", "c4", "x"))),
            "$.tree.children[1].children[2]",
            "'x' is not declared",
            "choose from c1, c2, c3, c4",
        ),
        (
            with_cluster(0, targets={3: ("c4", "c2")}),
            "$.clusters[0].targets.3[1]",
            "'c2' is not on the other side of level 3",
            "choose from c3, c4",
        ),
        (
            with_cluster(0, targets={3: ("c1",)}),
            "$.clusters[0].targets.3[0]",
            "'c1' is not on the other side",
            "choose from c3, c4",
        ),
        (
            with_cluster(0, targets={3: ("c4", "c4")}),
            "$.clusters[0].targets.3[1]",
            "'c4' is listed twice",
            "keep the first",
        ),
        (
            with_cluster(0, targets={2: ("c3",)}),
            "$.clusters[0].targets.2",
            "level 2 is not above cluster 'c1'",
            "above it: 1, 3",
        ),
        (with_cluster(1, id=1), "$.clusters[0].id", "id 1 is used 2 times", "unique"),
        (
            with_cluster(1, stores=(store("tcp://127.0.0.1:20001"),)),
            "$.clusters[1].stores[0].query",
            "port 20001 of 127.0.0.1 is taken",
            "$.clusters[0].towers[0] (a tower also takes the next port)",
        ),
        (
            with_cluster(1, towers=("tcp://127.0.0.1:20001",)),
            "$.clusters[1].towers[0]",
            "port 20001 of 127.0.0.1 is taken",
            "$.clusters[0].towers[0] (a tower also takes the next port)",
        ),
        (
            with_cluster(1, stores=(store("tcp://localhost:20002"),)),
            "$.clusters[1].stores[0].query",
            "port 20002 of localhost is taken",
            "$.clusters[0].stores[0].query",
        ),
        (
            with_cluster(1, stores=(store(data="data//x/../c1/"),)),
            "$.clusters[1].stores[0].data",
            "directory 'data//x/../c1/' is taken",
            "$.clusters[0].stores[0].data",
        ),
        (
            with_cluster(1, host="127.0.0.2", stores=(store(data="data/c1"),)),
            "$.clusters[1].stores[0].data",
            "directory 'data/c1' is taken",
            "$.clusters[0].stores[0].data",
        ),
        (
            with_cluster(0, stores=(store(data="d"), store("tcp://127.0.0.2:30001", data="d"))),
            "$.clusters[0].stores[1].data",
            "directory 'd' is taken",
            "$.clusters[0].stores[0].data",
        ),
        (with_cluster(1, host="0.0.0.0"), "$.clusters[1].host", "every interface", "one interface"),
        (with_cluster(0, advertise="[::]"), "$.clusters[0].advertise", "every interface", ""),
        (
            with_cluster(1, stores=(store("tcp://[::]:30000"),)),
            "$.clusters[1].stores[0].query",
            "tcp://[::]:30000 is on every interface",
            "one interface",
        ),
        (
            replace(FOUR, metrics=Ports(first_port=19_990)),
            "$.metrics.first_port",
            "16 processes serve metrics on ports 19990 to 20005; 20000 is taken",
            "$.clusters[0].towers[0]",
        ),
        (
            replace(FOUR, metrics=Ports(host="localhost", first_port=20_002)),
            "$.metrics.first_port",
            "20002 is taken",
            "$.clusters[0].stores[0].query",
        ),
        (
            replace(FOUR, metrics=Ports(host="0.0.0.0", first_port=20_002)),
            "$.metrics.first_port",
            "20002 is taken",
            "$.clusters[0].stores[0].query",
        ),
        (
            replace(FOUR, control=ControlSpec(directory="run", base="/" + 90 * "d")),
            "$.control.directory",
            "has 111 bytes; a Unix socket's path has 107 at most",
            "for instance /run/dafka",
        ),
        (
            replace(FOUR, control=ControlSpec(directory="my run", base="/f")),
            "$.control.directory",
            "'/f/my run/c1-level-3.sock' is not a socket's path",
            "letters, digits",
        ),
        (
            with_cluster(0, gateways=(GatewaySpec(listen="127.0.0.1:20002"),)),
            "$.clusters[0].gateways[0].listen",
            "port 20002 of 127.0.0.1 is taken",
            "by $.clusters[0].stores[0].query",
        ),
        (
            with_cluster(0, gateways=(GatewaySpec(listen="kafka.example:9092"),)),
            "$.clusters[0].gateways[0].listen",
            "anybody who reaches kafka.example:9092 could write to 'c1'",
            "users: keys/kafka.toml",
        ),
        (
            with_cluster(0, insecure=True, gateways=(GatewaySpec(listen="0.0.0.0:9092"),)),
            "$.clusters[0].gateways[0].listen",
            "0.0.0.0:9092 is on every interface",
            "advertised_listener",
        ),
        (
            with_cluster(
                0, gateways=(GatewaySpec(listen="[::1]:1", advertised_listener="[::]:1"),)
            ),
            "$.clusters[0].gateways[0].advertised_listener",
            "[::]:1 is every interface",
            "name one",
        ),
        (
            with_cluster(0, delivery="stores", wire="libdafka"),
            "$.clusters[0].delivery",
            "programs of wire libdafka have to hear producers of 'c1', not stores only",
            "say delivery: direct",
        ),
        (
            with_cluster(0, delivery="stores", classic=True),
            "$.clusters[0].delivery",
            "peers that know no batches (classic) have to hear producers of 'c1'",
            "delivery=stores to the producers and consumers",
        ),
        (
            with_cluster(0, delivery="stores", gateways=(GatewaySpec(listen="localhost:9092"),)),
            "$.clusters[0].delivery",
            "gateways have to hear producers of 'c1', not stores only",
            "say delivery: direct",
        ),
        (
            with_cluster(
                0,
                controllers=CONTROLLERS,
                replicas=(ReplicaSpec(listen="127.0.0.1:9401", metrics="localhost:9301"),),
            ),
            "$.clusters[0].replicas[0].metrics",
            "port 9301 of localhost is taken",
            "by $.clusters[0].controllers[0].metrics",
        ),
        (
            with_cluster(
                0,
                controllers=CONTROLLERS,
                replicas=(ReplicaSpec(listen="0.0.0.0:9401", metrics="127.0.0.1:9402"),),
            ),
            "$.clusters[0].replicas[0].listen",
            "tcp://0.0.0.0:9401 is on every interface",
            "name one",
        ),
        (
            replace(FOUR, metrics=Ports(first_port=65_521)),
            "$.metrics.first_port",
            "ports 65521 to 65536, beyond 65535",
            "begin lower",
        ),
    ],
)
def test_a_broken_rule_is_told_with_its_path_and_a_hint(topology, path, message, hint):
    found_path, found_message, found_hint = told(topology)[0]
    assert found_path == path
    assert message in found_message
    assert hint in found_hint


def test_each_of_two_clusters_of_one_name_is_pointed_at():
    clusters = (*FOUR.clusters, replace(FOUR.clusters[0], id=9, towers=(), stores=()))
    assert [problem[:2] for problem in told(replace(FOUR, clusters=clusters))] == [
        ("$.clusters[0].name", "cluster 'c1' is declared 2 times"),
        ("$.clusters[4].name", "cluster 'c1' is declared 2 times"),
    ]


def test_a_mistyped_name_is_told_the_right_one():
    topology = topology_of(tree_of((1, "amsterdam", "berlin")))
    wrong = replace(topology, tree=tree_of((1, "amsterdm", "berlin")))
    assert told(wrong)[0][2] == "did you mean 'amsterdam'?"


def test_a_hint_does_not_list_a_hundred_clusters():
    topology = topology_of(tree_of((1, *(f"c{number}" for number in range(100)))))
    tree = tree_of((1, "elsewhere", *(f"c{number}" for number in range(100))))
    assert told(replace(topology, tree=tree))[0][2].endswith("c7 and 92 more")


@pytest.mark.parametrize(
    "topology",
    [
        with_tree((3, (2, "c1", (1, "c2", "c3")), "c4")),
        with_tree((63, (1, "c1", "c2"), (62, "c3", "c4"))),
        with_tree((1, "c1", "c2", "c3", "c4")),
        with_cluster(0, targets={3: ("c4", "c3"), 1: ("c2",)}),
        with_cluster(
            1, host="node-b", insecure=True, stores=(store("tcp://node-b:20002", "data/c1"),)
        ),
        with_cluster(1, insecure=True, stores=(store("tcp://10.0.0.1:20002"),)),
        with_cluster(1, host="node-b", security=Security(access="a", cluster_key="c", key="k")),
        with_cluster(1, host="LOCALHOST", towers=("tcp://[::1]:20000",)),
        with_cluster(1, stores=(store(data="data/c1/inner"),)),
        with_cluster(0, gateways=(GatewaySpec(listen="localhost:9092"),)),
        with_cluster(0, delivery="stores"),
        with_cluster(0, gateways=(GatewaySpec(listen="10.0.0.1:9092", users="kafka.toml"),)),
        with_cluster(
            0,
            insecure=True,
            gateways=(GatewaySpec(listen="[::]:9092", advertised_listener="10.0.0.1:9092"),),
        ),
        with_cluster(0, controllers=CONTROLLERS, replicas=REPLICAS),
        replace(FOUR, metrics=Ports(first_port=65_520)),
        replace(FOUR, metrics=Ports(host="10.0.0.1", first_port=20_000)),
    ],
)
def test_what_breaks_no_rule_is_not_complained_of(topology):
    assert told(topology) == []


def test_equal_levels_are_right_where_neither_branch_is_above_the_other():
    assert told(topology_of(tree_of((2, (1, "c1", "c2"), (1, "c3", "c4"), (1, "c5", "c6"))))) == []


def test_a_topology_has_a_process_per_tower_and_store_and_level_above_a_cluster():
    assert process_count(FOUR) == 4 + 4 + 8
    assert process_count(topology_of(tree_of("c1"))) == 2
    assert process_count(with_cluster(0, registry="http://127.0.0.1:8081")) == 4 + 4 + 8 + 2
    gateways = (GatewaySpec(listen="localhost:9092"), GatewaySpec(listen="localhost:9093"))
    assert process_count(with_cluster(0, gateways=gateways)) == 4 + 4 + 8 + 2
    controlled = with_cluster(0, controllers=CONTROLLERS, replicas=REPLICAS)
    assert process_count(controlled) == 4 + 4 + 8
    shared = replace(FOUR, links=Links(level_shares={3: 4}))
    assert process_count(shared) == 4 + 4 + 4 * 4 + 4


def test_every_broken_rule_is_told_at_once():
    topology = replace(
        with_cluster(0, targets={7: ("c2",)}, stores=(store(data="data/c2"),)),
        tree=tree_of((1, (1, "c1", "c2"), (1, "c3", "c4"))),
        metrics=Ports(first_port=65_535),
    )
    assert sorted({path for path, _, _ in told(topology)}) == [
        "$.clusters[0].targets.7",
        "$.clusters[1].stores[0].data",
        "$.metrics.first_port",
        "$.tree.children[0].level",
        "$.tree.children[1].level",
    ]


@pytest.mark.parametrize(
    "topology",
    [
        with_tree((0, (1, "c1", "c2"), (1, "c3", "c4"))),
        with_tree((3, (1, "c1", "c2"), (1, "c3", ""))),
        with_cluster(0, id=0, targets={0: ("",)}),
        with_cluster(0, towers=("",), stores=(store("", ""), store("", "")), host=""),
        replace(FOUR, metrics=Ports(host="", first_port=20_000)),
        replace(FOUR, metrics=Ports(first_port=0)),
    ],
)
def test_nothing_is_said_of_what_could_not_be_read(topology):
    assert told(topology) == []


def test_keys_and_no_keys_do_not_go_together():
    keys = Security(access="a", cluster_key="c", key="k")
    assert told(with_cluster(0, security=keys)) == []
    assert told(with_cluster(0, insecure=True)) == []
    ((path, message, _),) = told(with_cluster(0, security=keys, insecure=True))
    assert path == "$.clusters[0].insecure"
    assert "has keys and is insecure" in message


FOUR_CLUSTERS = topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4"))))


def receiving(topology, *names):
    clusters = (
        replace(cluster, receive_only=cluster.name in names) for cluster in topology.clusters
    )
    return replace(topology, clusters=tuple(clusters))


def placed(*rules):
    return tuple(Placement(topics=topics, clusters=clusters) for topics, clusters in rules)


def problems_told(topology):
    return [(problem.path, problem.message) for problem in problems_of_reach(topology)]


@pytest.mark.parametrize(
    "topology",
    [
        FOUR_CLUSTERS,
        receiving(FOUR_CLUSTERS, "c2"),
        receiving(FOUR_CLUSTERS, "c2", "c4"),
        receiving(topology_of(tree_of((2, "c1", "c2", "c3"))), "c2", "c3"),
        receiving(topology_of(tree_of("c1")), "c1"),
        replace(FOUR_CLUSTERS, placement=placed(("eu-*", ("c1", "c4")), ("us-*", ("c2",)))),
        replace(FOUR_CLUSTERS, levels=Levels(epoch=4, retired=(2, 5))),
    ],
)
def test_what_is_allowed(topology):
    assert problems_of(topology) == []


def test_of_several_clusters_on_one_side_one_must_send():
    message = "clusters c3, c4 only receive, so nothing passes between them"
    assert problems_told(receiving(FOUR_CLUSTERS, "c3", "c4")) == [("$.tree", message)]


def test_the_same_holds_for_the_clusters_of_each_placement():
    topology = replace(
        receiving(FOUR_CLUSTERS, "c2", "c4"),
        placement=placed(("eu-*", ("c1", "c2")), ("us-*", ("c2", "c4"))),
    )
    message = "clusters c2, c4 only receive, so nothing passes between them"
    assert problems_told(topology) == [("$.placement[1].clusters", message)]


def test_a_retired_level_is_not_taken_again():
    ((path, message),) = problems_told(replace(FOUR_CLUSTERS, levels=Levels(retired=(1,))))[:1]
    assert path == "$.tree.children[0].level"
    assert message.startswith("level 1 is retired")


@pytest.mark.parametrize(
    ("rules", "path", "message"),
    [
        ([("x", ("c9",))], "$.placement[0].clusters[0]", "cluster 'c9' is not declared"),
        ([("x", ("c1", "c1"))], "$.placement[0].clusters[1]", "cluster 'c1' is listed twice"),
        ([("x", ("c1",)), ("x", ("c2",))], "$.placement[1].topics", "topics 'x' are placed twice"),
    ],
)
def test_a_placement_that_cannot_be_used(rules, path, message):
    assert problems_told(replace(FOUR_CLUSTERS, placement=placed(*rules))) == [(path, message)]


def test_a_cluster_that_only_receives_is_no_target_beside_one_that_sends():
    clusters = list(receiving(FOUR_CLUSTERS, "c4").clusters)
    clusters[0] = replace(clusters[0], targets={3: ("c4",)})
    ((path, message),) = [
        (problem.path, problem.message)
        for problem in problems_of(replace(FOUR_CLUSTERS, clusters=tuple(clusters)))
    ]
    assert path == "$.clusters[0].targets.3[0]"
    assert message.startswith("target 'c4' only receives")


def test_a_cluster_that_only_receives_has_no_distributors():
    assert process_count(receiving(FOUR_CLUSTERS, "c2")) == 4 + 4 + 6


def test_shares_are_of_levels_that_there_are():
    assert told(replace(FOUR, links=Links(level_shares={1: 2, 3: 4}))) == []
    assert told(replace(FOUR, links=Links(level_shares={2: 2}))) == [
        ("$.links.shares.2", "level 2 is not in the tree", "levels there: 1, 3")
    ]
    assert told(replace(FOUR, links=Links(level_compression={4: "lz4"}))) == [
        ("$.links.compression.4", "level 4 is not in the tree", "levels there: 1, 3")
    ]
