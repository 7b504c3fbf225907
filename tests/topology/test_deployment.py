from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from topology.deployment import DeploymentError, by_host, placed, placed_on_hosts
from topology.loading import load
from topology.model import ControlSpec, Security, Web
from topology.processes import ProcessKind

DEPLOY = Path(__file__).parents[2] / "deploy"
FOUR = load(DEPLOY / "topology.yaml")
KEYS = Security(
    access="keys/access.toml",
    cluster_key="keys/cluster.secret",
    key="keys/link.secret",
    directory="/home/me",
)


def with_keys(topology=FOUR):
    clusters = (replace(one, security=KEYS, insecure=False) for one in topology.clusters)
    return replace(topology, clusters=tuple(clusters))


def found(topology, metrics=lambda kind, name, cluster, index: f"h:{index}"):
    return {one.name: one for one in placed(topology, metrics)}


def test_where_processes_listen_and_what_they_keep():
    processes = found(FOUR)
    assert len(processes) == 4 * 7
    assert {one.host for one in processes.values() if one.cluster == "cluster-2"} == {
        "dafka-2.example"
    }
    assert processes["cluster-1-store-1"].data == "/var/lib/dafka/store"
    assert processes["cluster-1-tower-1"].data == ""
    assert processes["cluster-1-tower-1"].metrics == 0
    words = processes["cluster-1-level-3"].command
    assert words[:4] == ("distributor", "run", "--topology", "/etc/dafka/topology.yaml")


def test_each_reads_its_own_keys_and_never_those_of_other_roles():
    processes = found(with_keys())
    own = ("keys/access.toml", "keys/cluster.secret")
    others = ("keys/access.toml", "keys/link.secret")
    for one in processes.values():
        served = one.kind in (ProcessKind.TOWER, ProcessKind.STORE)
        assert one.secrets == (own if served else others), one.name
        assert not any("/home/me" in word for word in one.command)
    web = replace(with_keys(), web=Web(access="web/web.toml", token="web/me", directory="/home/me"))
    assert "web/" in found(web)["cluster-1-store-1"].secrets
    assert "/etc/dafka/web/web.toml" in found(web)["cluster-1-store-1"].command


def test_a_digest_changes_with_what_a_process_reads_and_with_nothing_else():
    before = {name: one.digest for name, one in found(with_keys()).items()}
    elsewhere = replace(KEYS, directory="/srv/other")
    clusters = tuple(replace(one, security=elsewhere) for one in with_keys().clusters)
    again = {name: one.digest for name, one in found(replace(FOUR, clusters=clusters)).items()}
    assert again == before
    last = with_keys().clusters[3]
    gone = replace(with_keys(), clusters=(*with_keys().clusters[:3], replace(last, gateways=())))
    after = {name: one.digest for name, one in found(gone).items()}
    assert {name for name in before if after.get(name) != before[name]} == {"cluster-4-gateway-1"}
    slower = replace(with_keys(), links=replace(FOUR.links, repair_after_ms=99))
    after = {name: one.digest for name, one in found(slower).items()}
    touched = {name for name in before if after[name] != before[name]}
    assert touched == {name for name in before if "level" in name}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: replace(one, security=replace(KEYS, key="link.secret")), "keys/access.toml"),
        (
            lambda one: replace(one, security=replace(KEYS, key="/etc/a/b")),
            "cannot place '/etc/a/b'",
        ),
        (lambda one: replace(one, security=replace(KEYS, key="../a/b")), "cannot place"),
        (
            lambda one: replace(one, stores=(replace(one.stores[0], data="data/one"),)),
            "data 'data/one' of cluster-1: write a path from the root",
        ),
    ],
)
def test_what_would_not_be_found_there_is_named(change, told):
    first, *rest = FOUR.clusters
    with pytest.raises(DeploymentError, match=told):
        found(replace(FOUR, clusters=(change(first), *rest)))


@pytest.mark.parametrize("directory", ["control", "/run/dafka", "a/b/c/d"])
def test_a_control_directory_that_is_none_there_or_would_be_a_mount_is_refused(directory):
    """What an engine mounts is root's, and a process makes its directory itself."""
    with pytest.raises(DeploymentError, match=f"control directory '{directory}': write a path"):
        found(replace(FOUR, control=ControlSpec(directory=directory)))


def test_a_port_of_metrics_moves_with_no_other_process():
    hosts = placed_on_hosts(FOUR)
    assert list(hosts) == [f"dafka-{n}.example" for n in range(1, 5)]
    ports = {one.name: one.metrics for one in hosts["dafka-1.example"]}
    assert ports == {
        "cluster-1-tower-1": 9201,
        "cluster-1-store-1": 9211,
        "cluster-1-level-3": 9243,
        "cluster-1-level-1": 9241,
        "cluster-1-registry": 9220,
        "cluster-1-schemas": 9221,
        "cluster-1-gateway-1": 9231,
    }


def test_two_processes_at_one_port_of_a_host_are_refused():
    ours = list(found(FOUR, lambda *_: "h:9200").values())
    with pytest.raises(DeploymentError, match="would serve metrics at port 9200"):
        by_host(ours)
