from __future__ import annotations

from dataclasses import replace

import pytest

from topology.model import ControllerSpec, ReplicaSpec
from topology.replica_rules import replica_places, replica_problems
from topology.testing import topology_of, tree_of

PAIR = topology_of(tree_of((1, "c1", "c2")))
CONTROLLERS = (ControllerSpec(metrics="127.0.0.1:9301"),)
REPLICAS = (ReplicaSpec(listen="127.0.0.1:9401", metrics="127.0.0.1:9402"),)


def with_second(**changes):
    first, second = PAIR.clusters
    return replace(PAIR, clusters=(first, replace(second, **changes)))


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"replicas": REPLICAS}, "replicas", "nobody would tell replicas of 'c2' what to copy"),
        ({"controllers": CONTROLLERS}, "controllers", "nobody would copy what controllers of 'c2'"),
        (
            {"controllers": CONTROLLERS, "replicas": REPLICAS, "receive_only": True},
            "receive_only",
            "'c2' only receives",
        ),
    ],
)
def test_what_would_do_nothing_is_told(changes, path, message):
    (problem,) = replica_problems(with_second(**changes))
    assert problem.path == f"$.clusters[1].{path}"
    assert message in problem.message


def test_both_together_are_right_and_have_their_places():
    topology = with_second(controllers=CONTROLLERS, replicas=REPLICAS)
    assert not list(replica_problems(topology))
    assert list(replica_places(topology.cluster("c2"))) == [
        ("controllers[0].metrics", "127.0.0.1:9301"),
        ("replicas[0].listen", "127.0.0.1:9401"),
        ("replicas[0].metrics", "127.0.0.1:9402"),
    ]


def test_places_that_could_not_be_read_are_passed_over():
    topology = with_second(controllers=(ControllerSpec(metrics=""),))
    assert not list(replica_places(topology.cluster("c2")))
