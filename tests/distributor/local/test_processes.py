from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dafka.cli.store import retention_of
from distributor.errors import PlanError
from distributor.local.processes import (
    control_endpoints,
    endpoints_of,
    is_own,
    processes_of,
    refuse_elsewhere,
    refuse_lacking,
)
from topology import MissingExtraError, load, plan
from topology.model import (
    ControllerSpec,
    ControlSpec,
    GatewaySpec,
    Ports,
    ReplicaSpec,
    RetentionSpec,
    Security,
    Web,
)
from topology.processes import ProcessKind

FOUR = Path(__file__).parents[3] / "config" / "four-clusters.yaml"


def test_towers_come_first_then_stores_then_distributors():
    kinds = [process.kind for process in processes_of(plan(load(FOUR)), FOUR)]
    assert (
        kinds == [ProcessKind.TOWER] * 4 + [ProcessKind.STORE] * 4 + [ProcessKind.DISTRIBUTOR] * 8
    )


def test_names_and_metrics_are_unique():
    processes = processes_of(plan(load(FOUR)), FOUR)
    assert len({process.name for process in processes}) == 16
    ports = [f"127.0.0.1:{port}" for port in range(17_900, 17_916)]
    assert [process.metrics for process in processes] == ports


def test_commands_say_all_there_is_to_say():
    by_name = {process.name: process for process in processes_of(plan(load(FOUR)), FOUR)}
    assert by_name["cluster-1-tower-1"].command == (
        *(sys.executable, "-m", "dafka", "tower", "--endpoint", "tcp://127.0.0.1:17100"),
        *("--metrics", "127.0.0.1:17900"),
    )
    assert by_name["cluster-2-store-1"].command == (
        *(sys.executable, "-m", "dafka", "store", "--data", "data/cluster-2"),
        *("--query", "tcp://127.0.0.1:17112", "--host", "127.0.0.1"),
        *("--durability", "fsync", "--number", "2"),
        *("--retain", "__heartbeat,age_s=3600", "--wire", "rfc46"),
        *("--tower", "tcp://127.0.0.1:17110", "--metrics", "127.0.0.1:17905"),
    )
    link = by_name["cluster-4-level-3"]
    assert link.cluster == "cluster-4"
    assert link.command[2:-2] == (
        *("distributor", "run", "--topology", str(FOUR)),
        *("--cluster", "cluster-4", "--level", "3"),
    )


def test_registries_and_schema_distributors_come_last():
    file = FOUR.with_name("schemas.yaml")
    *_, registry, _, ours, theirs = processes_of(plan(load(file)), file)
    assert [registry.kind, ours.kind] == [ProcessKind.REGISTRY, ProcessKind.SCHEMAS]
    assert registry.command == (
        *(sys.executable, "-m", "dafka", "schemas", "--cluster", "cluster-1", "--number", "1"),
        *("--listen", "127.0.0.1:8081", "--host", "127.0.0.1", "--wire", "rfc46"),
        *("--tower", "tcp://127.0.0.1:18100", "--store", "tcp://127.0.0.1:18102"),
        *("--metrics", "127.0.0.1:18906"),
    )
    assert theirs.name == "cluster-2-schemas"
    assert theirs.command[2:] == (
        *("distributor", "schemas", "--topology", str(file), "--cluster", "cluster-2"),
        *("--metrics", "127.0.0.1:18909"),
    )


def test_gateways_are_last_so_that_other_processes_keep_their_ports():
    topology = load(FOUR)
    gateways = (
        GatewaySpec(listen="127.0.0.1:9092"),
        GatewaySpec(
            listen="127.0.0.1:9093", advertised_listener="kafka.example:9093", users="kafka.toml"
        ),
    )
    first, *others = topology.clusters
    clusters = (replace(first, gateways=gateways), *others)
    before = processes_of(plan(topology), FOUR)
    with_gateways = plan(replace(topology, clusters=clusters))
    *after, one, two = processes_of(with_gateways, FOUR)
    assert after == before
    assert (one.name, one.kind) == ("cluster-1-gateway-1", ProcessKind.GATEWAY)
    assert one.command[1:] == (
        *("-m", "dafka", "gateway", "--cluster", "cluster-1", "--listen", "127.0.0.1:9092"),
        *("--host", "127.0.0.1", "--wire", "rfc46", "--tower", "tcp://127.0.0.1:17100"),
        *("--store", "tcp://127.0.0.1:17102", "--metrics", "127.0.0.1:17916"),
    )
    at = two.command.index("--advertised-listener")
    assert two.command[at + 1] == "kafka.example:9093"
    assert two.command[two.command.index("--users") + 1] == str(FOUR.parent / "kafka.toml")
    assert {"tcp://127.0.0.1:9092", "tcp://127.0.0.1:9093"} <= set(endpoints_of(with_gateways))


def test_where_others_reach_nodes_is_said_where_it_is_declared():
    file = FOUR.with_name("schemas.yaml")
    topology = load(file)
    clusters = tuple(replace(one, advertise="192.0.2.7") for one in topology.clusters)
    told = ("--host", "127.0.0.1", "--advertise", "192.0.2.7")
    for process in processes_of(plan(replace(topology, clusters=clusters)), file):
        if process.kind in (ProcessKind.STORE, ProcessKind.REGISTRY):
            at = process.command.index("--host")
            assert process.command[at : at + 4] == told


def test_a_schema_distributor_is_started_again_when_the_way_to_spell_changes():
    file = FOUR.with_name("schemas.yaml")
    topology = load(file)
    first, second = topology.clusters
    other = replace(second, subject_format="{environment}-{topic}")
    changed = replace(topology, clusters=(first, other))
    before, after = processes_of(plan(topology), file), processes_of(plan(changed), file)
    differ = [one.name for one in before if one not in after]
    assert {"cluster-1-schemas", "cluster-2-schemas"} <= set(differ)
    assert "cluster-1-registry" not in differ


def test_stores_are_told_what_they_need_not_keep(pair):
    rules = (
        RetentionSpec(topics="logs-*", age_s=60, bytes_max=1_000),
        RetentionSpec(topics="*", age_s=9),
        RetentionSpec(topics="big", bytes_max=7, hold_bytes=9),
    )
    topology = replace(pair.topology, retention=rules)
    stores = [
        one for one in processes_of(plan(topology), pair.file) if one.kind is ProcessKind.STORE
    ]
    for process in stores:
        words = [process.command[at + 1] for at, w in enumerate(process.command) if w == "--retain"]
        assert words == ["logs-*,age_s=60,bytes=1000", "*,age_s=9", "big,bytes=7,hold_bytes=9"]
        assert [one.topics for one in retention_of(words)] == ["logs-*", "*", "big"]


def test_without_metrics_there_are_no_ports(pair):
    processes = processes_of(plan(pair.topology), pair.file)
    assert [process.metrics for process in processes] == [None] * 6
    assert not any("--metrics" in process.command for process in processes)


def changed(file, tmp_path, *edits):
    """Names of the processes that have to be started again after an edit of the file."""
    text = file.read_text()
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    edited = tmp_path / file.name
    edited.write_text(text)
    old = {process.name: process for process in processes_of(plan(load(file)), file)}
    new = {process.name: process for process in processes_of(plan(load(edited)), file)}
    assert old.keys() == new.keys()
    return {name for name in old if old[name] != new[name]}


def test_a_new_name_or_comment_starts_nothing_again(tmp_path):
    assert (
        changed(FOUR, tmp_path, ("name: four-clusters", "name: other # same"), ("#", "##")) == set()
    )


def test_a_moved_store_concerns_itself_and_the_links_that_may_reach_it(tmp_path):
    assert changed(FOUR, tmp_path, ("17132", "17142")) == {
        *("cluster-4-store-1", "cluster-4-level-1", "cluster-4-level-3"),
        *("cluster-1-level-3", "cluster-2-level-3", "cluster-3-level-1"),
    }


def test_other_topics_concern_every_distributor_and_nobody_else(tmp_path):
    found = changed(FOUR, tmp_path, ('include: ["*"]', 'include: ["a*"]'))
    assert len(found) == 8
    assert all("-level-" in name for name in found)


def test_towers_and_stores_are_told_of_their_keys(pair):
    keys = Security(access="keys/access.toml", cluster_key="keys/cluster.secret", key="keys/me")
    first, second = pair.topology.clusters
    clusters = (replace(first, security=keys), replace(second, insecure=True))
    file = Path("/etc/dafka/topology.yaml")
    changed = plan(replace(pair.topology, clusters=clusters))
    told = {process.name: process.command for process in processes_of(changed, file)}
    options = ("--access", "/etc/dafka/keys/access.toml", "--key", "/etc/dafka/keys/cluster.secret")
    for kind in ("tower", "store"):
        secured, open_to_all = (told[f"{one.name}-{kind}-1"] for one in clusters)
        at = secured.index("--access")
        assert secured[at : at + 4] == options
        assert "--insecure" in open_to_all
        assert "--insecure" not in secured


def test_what_speaks_http_is_told_who_may_use_it(pair):
    web = Web(access="keys/web.toml", token="keys/ops.token", directory="/etc/dafka")
    clusters = tuple(
        replace(one, registry=f"https://127.0.0.1:{8_081 + index}")
        for index, one in enumerate(pair.topology.clusters)
    )
    declared = replace(pair.topology, web=web, clusters=clusters, primary=clusters[0].name)
    told = ("--web", "/etc/dafka/keys/web.toml")
    for metrics in (None, Ports(first_port=9_000)):
        for process in processes_of(plan(replace(declared, metrics=metrics)), Path("t.yaml")):
            serves = metrics is not None or process.kind is ProcessKind.REGISTRY
            assert (process.command[-2:] == told) == serves, process
            assert process.web == web


FOUR_CLUSTERS = load(Path(__file__).parents[3] / "config" / "four-clusters.yaml")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "0.0.0.0"])
def test_loopback_is_this_machine_s(host):
    assert is_own(host)


def test_so_is_an_interface_by_its_name():
    assert all(is_own(name) for _, name in socket.if_nameindex())


def test_so_is_a_name_that_stands_for_an_own_address(monkeypatch):
    stands_for = {"here": "127.0.0.1", "there": "192.0.2.1"}
    found = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **how: found(stands_for[host], *rest, **how)
    )
    assert is_own("here")
    assert not is_own("there")


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]", "dafka-1.example", "a" * 64])
def test_the_address_of_another_machine_or_of_none_is_not(host):
    assert not is_own(host)


def test_a_topology_of_this_machine_can_run_here():
    refuse_elsewhere(FOUR_CLUSTERS)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"host": "192.0.2.1"},
        {"towers": ("tcp://127.0.0.1:17110", "tcp://192.0.2.1:1")},
        {"stores": (replace(FOUR_CLUSTERS.clusters[1].stores[0], query="tcp://192.0.2.1:2"),)},
        {"registry": "http://192.0.2.1:3"},
        {"gateways": (GatewaySpec(listen="192.0.2.1:3"),)},
    ],
)
def test_a_host_of_another_machine_is_named_with_its_cluster(elsewhere):
    one, two, *rest = FOUR_CLUSTERS.clusters
    topology = replace(FOUR_CLUSTERS, clusters=(one, replace(two, **elsewhere), *rest))
    with pytest.raises(PlanError, match=r"host '192\.0\.2\.1' of cluster-2 is not this machine's"):
        refuse_elsewhere(topology)


CONTROLLED = FOUR.with_name("controlled.yaml")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("kafka.yaml", "kio", "gateway"),
        ("schemas.yaml", "avro", "schemas"),
        ("controlled.yaml", "grpc", "distributor"),
    ],
)
def test_what_some_process_needs_has_to_be_installed(name, module, extra, monkeypatch):
    file = FOUR.with_name(name)
    processes = processes_of(plan(load(file)), file)
    refuse_lacking(processes)
    monkeypatch.setitem(sys.modules, module, None)
    refuse_lacking(processes_of(plan(load(FOUR)), FOUR))
    with pytest.raises(MissingExtraError) as raised:
        refuse_lacking(processes)
    assert raised.value.extras == (extra,)


def test_replicas_and_controllers_come_last_with_metrics_of_their_own():
    processes = processes_of(plan(load(CONTROLLED)), CONTROLLED)
    kinds = [process.kind for process in processes]
    assert kinds[8:] == [ProcessKind.REPLICA] * 8 + [ProcessKind.CONTROLLER] * 4
    by_name = {process.name: process for process in processes}
    told = ("--topology", str(CONTROLLED), "--cluster", "cluster-2")
    replica = by_name["cluster-2-replica-2"]
    assert replica.command[2:] == (
        *("distributor", "replica", *told, "--listen", "127.0.0.1:17316"),
        *("--metrics", "127.0.0.1:17317"),
    )
    assert replica.metrics == "127.0.0.1:17317"
    assert by_name["cluster-2-controller-1"].command[2:] == (
        *("distributor", "controller", "run", *told, "--metrics", "127.0.0.1:17313"),
    )
    named = {f"tcp://127.0.0.1:{port}" for port in (17_313, 17_314, 17_315, 17_316, 17_317)}
    assert named <= set(endpoints_of(plan(load(CONTROLLED))))


def test_what_replicas_run_has_no_control_sockets():
    topology = replace(load(CONTROLLED), control=ControlSpec())
    assert control_endpoints(plan(topology)) == []


def test_where_a_cluster_gets_replicas_its_distributors_go_and_all_others_stay_as_they_are():
    file = FOUR.with_name("schemas.yaml")
    topology = load(file)
    first, *others = topology.clusters
    with_replica = replace(
        first,
        gateways=(GatewaySpec(listen="127.0.0.1:9092"),),
        controllers=(ControllerSpec(metrics="127.0.0.1:7003"),),
        replicas=(ReplicaSpec(listen="127.0.0.1:7001", metrics="127.0.0.1:7002"),),
    )
    plain = replace(with_replica, controllers=(), replicas=())
    before, after = (
        processes_of(plan(replace(topology, clusters=(one, *others))), file)
        for one in (plain, with_replica)
    )
    gone = {one.name for one in before if one not in after}
    assert gone == {"cluster-1-level-1", "cluster-1-schemas"}
    new = [one.name for one in after if one not in before]
    assert new == ["cluster-1-replica-1", "cluster-1-controller-1"]


def test_controllers_and_replicas_are_started_again_when_links_change_or_who_runs_them():
    topology = load(CONTROLLED)
    first, *others = topology.clusters
    fewer = replace(first, replicas=first.replicas[:1])
    elsewhere = replace(others[0], targets={3: ("cluster-4",)})
    reads = {one.name: one.reads for one in processes_of(plan(topology), CONTROLLED)}

    def again(*clusters):
        changed = plan(replace(topology, clusters=clusters))
        processes = processes_of(changed, CONTROLLED)
        return {one.name for one in processes if one.reads != reads[one.name]}

    mine = {"cluster-1-replica-1", "cluster-1-controller-1"}
    assert again(fewer, *others) == mine
    assert again(first, elsewhere, *others[1:]) >= mine | {"cluster-2-controller-1"}
