from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dafka.errors import MisuseError
from distributor.cli.called import (
    called_controller,
    called_distributors,
    called_replica,
    called_replicas,
    called_share,
    cluster_of,
    on_own_host,
    refuse_beside_replicas,
)
from distributor.errors import PlanError
from topology import load
from topology.model import ClusterName, ClusterSpec, ControllerSpec, Links, ReplicaSpec

ONE = ReplicaSpec(listen="a:1", metrics="a:2")
TWO = ReplicaSpec(listen="b:1", metrics="b:2")
FOUR = Path(__file__).parents[3] / "config" / "four-clusters.yaml"


def cluster(*replicas, controllers=()):
    specs = tuple(ControllerSpec(metrics=one) for one in controllers)
    return ClusterSpec(name=ClusterName("c"), id=1, replicas=replicas, controllers=specs)


def test_a_cluster_is_found_by_its_name():
    declared = load(FOUR)
    assert cluster_of(declared, "cluster-2", FOUR).id == 2
    with pytest.raises(PlanError, match=r"no cluster 'c9' in .*: there are cluster-1, cluster-2"):
        cluster_of(declared, "c9", FOUR)


def test_what_replicas_do_nobody_else_is_to_do():
    refuse_beside_replicas(cluster(), "distributor run", FOUR)
    with pytest.raises(PlanError, match=r"distributor run has nothing to do for c: by .* copy its"):
        refuse_beside_replicas(cluster(ONE, controllers=("a:3",)), "distributor run", FOUR)


def test_a_replica_is_what_the_file_says():
    assert called_replica(cluster(ONE), None, None, None) == ONE
    assert called_replica(cluster(ONE, TWO), "b:1", None, None) == TWO
    assert called_replica(cluster(ONE, TWO), "b:1", "b:1", "b:2") == TWO


def test_where_the_file_has_none_options_are_all_there_is():
    assert called_replica(cluster(), "x:1", "left", None) == ReplicaSpec(listen="x:1", metrics="")
    assert called_replica(cluster(), "x:1", None, "x:2") == ReplicaSpec(listen="x:1", metrics="x:2")
    assert called_controller(cluster(), None, None) == ControllerSpec(metrics="")
    told = ControllerSpec(metrics="x:2", listen="x:3")
    assert called_controller(cluster(), "x:2", "x:3") == told
    assert called_replicas(cluster(), {"left": "x:1"}) == {"left": "x:1"}


@pytest.mark.parametrize(
    ("replicas", "told", "what"),
    [
        ((), (None, None, None), "does not know where to listen: give --listen"),
        ((ONE, TWO), (None, None, None), "not said which it is; give --listen, one of a:1, b:1"),
        ((ONE, TWO), ("c:1", None, None), "c:1 is not in the file; give --listen"),
        ((ONE,), (None, "left", None), "has no --name: it is a:1"),
        ((ONE,), (None, None, "a:3"), "a:3 is not what the file says of the replica at a:1"),
    ],
    ids=range(5),
)
def test_a_replica_that_the_file_does_not_have_is_refused(replicas, told, what):
    with pytest.raises(MisuseError, match=what):
        called_replica(cluster(*replicas), *told)


def test_a_controller_and_its_replicas_are_what_the_file_says():
    one = cluster(ONE, TWO, controllers=["m:1"])
    assert called_controller(one, None, None).metrics == "m:1"
    two = cluster(ONE, controllers=["m:1", "m:2"])
    assert called_controller(two, "m:2", "").metrics == "m:2"
    assert called_replicas(one, {}) == {"a:1": "a:1", "b:1": "b:1"}


def test_a_controller_that_the_file_does_not_have_is_refused():
    two = cluster(ONE, controllers=["m:1", "m:2"])
    with pytest.raises(MisuseError, match="not said which it is; give --metrics, one of m:1, m:2"):
        called_controller(two, None, None)
    with pytest.raises(MisuseError, match="m:3 is not in the file"):
        called_controller(two, "m:3", None)
    with pytest.raises(MisuseError, match=r"o:1 is not what the file says .* it is nowhere"):
        called_controller(two, "m:1", "o:1")


def test_replicas_come_from_one_place():
    with pytest.raises(MisuseError, match="--replica left goes with no file that declares"):
        called_replicas(cluster(ONE), {"left": "x:1"})
    with pytest.raises(MisuseError, match="has no replicas: give --replica"):
        called_replicas(cluster(), {})


def test_who_listens_on_another_host_is_on_that():
    declared = load(FOUR)
    first, second, *_ = declared.clusters
    away = on_own_host(declared, first, "10.0.0.7:7001")
    assert away.cluster("cluster-1").host == "10.0.0.7"
    assert away.cluster("cluster-2") == second
    translated = replace(first, host="10.0.0.1", advertise="192.0.2.1")
    there = replace(declared, clusters=(translated, *declared.clusters[1:]))
    assert on_own_host(there, translated, "node-b:7001").clusters[0].advertise is None
    assert on_own_host(there, translated, "10.0.0.1:7001") == there


@pytest.mark.parametrize("place", [None, "127.0.0.1:1", "[::1]:1", "0.0.0.0:1", "[::]:1"])
def test_where_no_other_host_is_said_the_cluster_s_holds(place):
    declared = load(FOUR)
    assert on_own_host(declared, declared.clusters[0], place) is declared


def test_a_distributor_is_a_share_that_the_file_has():
    declared = load(FOUR)
    shared = replace(declared, links=Links(level_shares={3: 2}))
    called = called_distributors(shared, "cluster-1", 3, FOUR)
    assert called_share(called, "1/2", FOUR) == called[1]
    with pytest.raises(MisuseError, match="in 2 shares: give each process its --share, from 0/2"):
        called_share(called, None, FOUR)
    for wrong in ("2/2", "1/4", "0/1", "half"):
        with pytest.raises(MisuseError, match=f"--share {wrong} is none of the file's: by"):
            called_share(called, wrong, FOUR)
    whole = called_distributors(declared, "cluster-1", 3, FOUR)
    assert called_share(whole, None, FOUR) == called_share(whole, "0/1", FOUR) == whole[0]
