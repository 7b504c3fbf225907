import random
import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from topology import plan
from topology.model import ControllerSpec, Placement, ReplicaSpec, StoreSpec, branches, leaves
from topology.render import render_dot, render_mermaid, render_text
from topology.testing import random_topology, topology_of, tree_of

FOUR = topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4"))))
ONE = topology_of(tree_of("c1"))

repeatable = settings(derandomize=True, deadline=None, max_examples=30)
seeds = st.integers(0, 2**32 - 1).map(random.Random)


def test_a_tree_as_text():
    assert render_text(FOUR) == (
        "test\n"
        "level 3\n"
        "├── level 1\n"
        "│   ├── c1  ·  id 1  ·  tower tcp://127.0.0.1:20000\n"
        "│   └── c2  ·  id 2  ·  tower tcp://127.0.0.1:20010\n"
        "└── level 1\n"
        "    ├── c3  ·  id 3  ·  tower tcp://127.0.0.1:20020\n"
        "    └── c4  ·  id 4  ·  tower tcp://127.0.0.1:20030"
    )


def test_a_single_cluster_as_text():
    assert render_text(ONE) == "test\nc1  ·  id 1  ·  tower tcp://127.0.0.1:20000"


def test_a_tree_as_mermaid():
    assert render_mermaid(topology_of(tree_of((1, "c1", "c2")))) == (
        "flowchart LR\n"
        '    subgraph n["level 1"]\n'
        '        n_0["c1"]\n'
        '        n_1["c2"]\n'
        "    end\n"
        "    n_0 <-->|1| n_1"
    )


def test_links_of_one_direction_have_one_arrow_in_mermaid():
    deep = topology_of(tree_of((2, (1, "c1", "c2"), "c3")))
    arrows = [line.strip() for line in render_mermaid(deep).splitlines() if ">" in line]
    assert sorted(arrows) == ["n_0_0 <-->|1| n_0_1", "n_0_0 <-->|2| n_1", "n_0_1 -->|2| n_1"]


@repeatable
@given(chance=seeds, size=st.integers(1, 25))
def test_mermaid_has_every_node_once_and_every_link_of_the_plan(chance, size):
    topology = random_topology(chance, size)
    text = render_mermaid(topology)
    nodes = dict(re.findall(r"^ *(?:subgraph )?(n[_0-9]*)\[\"(.+)\"\]$", text, re.MULTILINE))
    assert sorted(nodes.values()) == sorted(
        [*leaves(topology.tree), *(f"level {b.level}" for b in branches(topology.tree))]
    )
    assert text.count("subgraph") == text.count("    end") == len(list(branches(topology.tree)))
    drawn = set()
    for one, back, level, other in re.findall(r"(n\S*) (<?)-->\|(\d+)\| (n\S*)", text):
        drawn.add((nodes[one], nodes[other], int(level)))
        if back:
            drawn.add((nodes[other], nodes[one], int(level)))
    assert drawn == {(link.source, link.target, link.level) for link in plan(topology).links}


def test_a_tree_as_dot():
    assert render_dot(topology_of(tree_of((1, "c1", "c2")))) == (
        'graph "test" {\n'
        "    rankdir=LR; ordering=out;\n"
        "    node [fontname=sans];\n"
        '    n [label="level 1", shape=ellipse];\n'
        '    n_0 [label="c1", shape=box];\n'
        "    n -- n_0;\n"
        '    n_1 [label="c2", shape=box];\n'
        "    n -- n_1;\n"
        "    {rank=same; n_0; n_1}\n"
        "}"
    )


def test_a_quote_in_a_name_does_not_end_a_dot_text():
    assert render_dot(replace(FOUR, name='a"b\\')).startswith('graph "a\\"b\\\\" {')


@repeatable
@given(chance=seeds, size=st.integers(1, 25))
def test_dot_has_every_node_once_and_a_line_to_each_but_the_root(chance, size):
    topology = random_topology(chance, size)
    drawn = render_dot(topology)
    nodes = re.findall(r"^    (n[_0-9]*) \[label=\"(.+?)\"", drawn, re.MULTILINE)
    lines = re.findall(r"^    (n[_0-9]*) -- (n[_0-9]*)", drawn, re.MULTILINE)
    assert len({name for name, _ in nodes}) == len(nodes)
    assert sorted(label for _, label in nodes) == sorted(
        [*leaves(topology.tree), *(f"level {b.level}" for b in branches(topology.tree))]
    )
    assert sorted(child for _, child in lines) == sorted(name for name, _ in nodes)[1:]


@repeatable
@given(chance=seeds, size=st.integers(1, 25))
def test_text_has_a_line_for_each_branch_and_cluster(chance, size):
    topology = random_topology(chance, size)
    title, *lines = render_text(topology).splitlines()
    assert title == "test"
    assert len(lines) == size + len(list(branches(topology.tree)))


def test_text_tells_who_only_receives_and_what_is_not_everywhere():
    topology = topology_of(tree_of((1, "c1", "c2")))
    mute = tuple(replace(one, receive_only=one.name == "c2") for one in topology.clusters)
    rules = (Placement(topics="eu-*", clusters=("c1",)),)
    lines = render_text(replace(topology, clusters=mute, placement=rules)).splitlines()
    assert [line.endswith("  ·  only receives") for line in lines[2:4]] == [False, True]
    assert lines[-1] == "'eu-*' on c1 only"


def test_text_tells_where_replicas_are():
    controllers = (ControllerSpec(metrics="a:1"),)
    replicas = (ReplicaSpec(listen="a:2", metrics="a:3"), ReplicaSpec(listen="b:2", metrics="b:3"))
    (cluster,) = ONE.clusters
    controlled = replace(cluster, controllers=controllers, replicas=replicas)
    lines = render_text(replace(ONE, clusters=(controlled,)))
    assert lines.endswith("tower tcp://127.0.0.1:20000  ·  replicas a:2, b:2")


def test_text_tells_which_slots_stores_share():
    (cluster,) = ONE.clusters
    stores = [
        StoreSpec(query=f"tcp://a:{number}", data=f"{number}", slots=(kept,))
        for number, kept in enumerate((range(9), range(9), range(9, 4_096), range(4_096)), 1)
    ]
    lines = render_text(replace(ONE, clusters=(replace(cluster, stores=tuple(stores)),)))
    assert lines.endswith("  ·  slots 0-8 on 2, 9-4095 on 1, all on 1")
