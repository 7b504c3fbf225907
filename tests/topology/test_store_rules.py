from __future__ import annotations

from dataclasses import replace

import pytest

from topology.model import ControllerSpec, GatewaySpec, ReplicaSpec, StoreSpec
from topology.rules import problems_of
from topology.slots import read_slots
from topology.store_rules import disk_of
from topology.testing import topology_of, tree_of


def sharing(*slots, **changes):
    one = topology_of(tree_of("c1"))
    stores = tuple(
        StoreSpec(query=f"tcp://127.0.0.1:{30_000 + number}", data=f"data/{number}", slots=kept)
        for number, kept in enumerate(map(read_slots, slots))
    )
    return replace(one, clusters=(replace(one.clusters[0], stores=stores, **changes),))


def told(topology):
    return [(problem.path, problem.message) for problem in problems_of(topology)]


def test_a_disk_is_that_of_its_path_on_the_host_of_its_query_port():
    places = ("dafka-1", "/data/x/../a"), ("dafka-2", "/data/a"), ("DAFKA-2", "/data/a/")
    stores = tuple(StoreSpec(query=f"tcp://{host}:30000", data=data) for host, data in places)
    assert [disk_of(one) for one in stores] == [
        ("dafka-1", "/data/a"),
        *[("dafka-2", "/data/a")] * 2,
    ]
    one = topology_of(tree_of("c1"))
    one = replace(one, clusters=(replace(one.clusters[0], stores=stores[:2], insecure=True),))
    assert told(one) == []


def test_slots_that_are_kept_as_often_as_is_said_are_right():
    assert told(sharing("0-2047", "2048-4095")) == []
    assert told(sharing("0-2047", "2048-4095", "0-4095", copies=2)) == []
    assert told(sharing("0-2730", "1365-4095", "0-1364,2731-4095", copies=2)) == []


def test_slots_that_too_few_keep_are_named():
    assert told(sharing("0-2047", "2049-4095")) == [
        ("$.clusters[0].stores", "too few stores of 'c1' keep slots 2048-2048 (0 of 1)")
    ]
    assert told(sharing("0-2047", "2048-4095", "0-99", copies=2)) == [
        ("$.clusters[0].stores", "too few stores of 'c1' keep slots 100-4095 (1 of 2)")
    ]
    assert told(sharing("0-4095", copies=2)) == [
        ("$.clusters[0].stores", "too few stores of 'c1' keep slots all (1 of 2)")
    ]


def test_nodes_may_hear_stores_that_share():
    assert told(sharing("0-2047", "2048-4095", delivery="stores")) == []


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("wire", {"wire": "libdafka"}),
        ("classic", {"classic": True}),
        ("gateways", {"gateways": (GatewaySpec(listen="127.0.0.1:9092"),)}),
        (
            "controllers",
            {
                "controllers": (ControllerSpec(metrics="127.0.0.1:9301"),),
                "replicas": (ReplicaSpec(listen="127.0.0.1:9401", metrics="127.0.0.1:9402"),),
            },
        ),
    ],
)
def test_what_does_not_serve_them_yet_is_named(key, changes):
    assert [path for path, _ in told(sharing("0-2047", "2048-4095", **changes))] == [
        f"$.clusters[0].{key}"
    ]
    assert told(sharing("0-4095", "0-4095", **changes)) == []
