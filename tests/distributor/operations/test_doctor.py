from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dafka.model import ALL_SLOTS, Partition
from dafka.query.messages import HealthResponse
from dafka.query.slot_steps import MovingSlots, part_of
from dafka.records.envelope import Envelope
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.lmdb_log import LmdbLog
from distributor.local.processes import processes_of
from distributor.operations import doctor as module
from distributor.operations.doctor import LATE_S, examine
from distributor.operations.probe import Vitals
from distributor.operations.status import ClusterStatus, LinkStatus, Status
from tests.support.shares import HIGH, LOW, also_shared
from topology import plan
from topology.model import ControllerSpec, GatewaySpec, Links, Placement, ReplicaSpec, StoreSpec
from topology.processes import ProcessKind
from topology.testing import topology_of, tree_of

pytestmark = [pytest.mark.net, pytest.mark.usefixtures("roomy_disk")]

PLACE = Partition("orders", "AB" * 16)
TWO = topology_of(tree_of((1, "c1", "c2")))


def examined(pair, processes=()):
    late_ms = LATE_S * 1_000 + 10_005
    return examine(plan(pair.topology), processes, clock=lambda: late_ms, settle_s=0.0)


@also_shared("pair")
def test_where_all_is_well_there_is_nothing_to_say(pair, make_batch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"x"]))
    with pair.running():
        assert examined(pair) == []


def test_a_cluster_that_does_not_answer_comes_before_its_links(pair):
    with pair.running(1):
        cluster, *links = examined(pair)
    assert cluster.about == "c2"
    assert "its store does not answer" in cluster.what
    assert "start the store" in cluster.do
    assert [link.about for link in links] == ["c1 → c2, level 1", "c2 → c1, level 1"]
    assert all(link.what == "cannot be judged: c2 does not answer" for link in links)


def test_a_new_disk_that_cannot_be_compared_is_named_where_gateways_need_it():
    new, old = HealthResponse("A", 0, 0, new=True), HealthResponse("B", 0, 0)
    cluster = topology_of("c1").clusters[0]
    with_gateway = replace(cluster, gateways=(GatewaySpec(listen="127.0.0.1:9092"),))

    def found(cluster, given, away):
        return list(module._of_new_disks(cluster, given, away))

    (finding,) = found(with_gateway, {"tcp://a:1": new, "tcp://b:1": old}, ["tcp://c:1"])
    assert finding.about == "c1 tcp://a:1"
    assert "is to be compared with tcp://c:1" in finding.what
    assert found(with_gateway, {"tcp://a:1": new}, []) == []
    assert found(with_gateway, {"tcp://b:1": old}, ["tcp://c:1"]) == []
    assert found(cluster, {"tcp://a:1": new}, ["tcp://c:1"]) == []


def test_a_link_without_either_end_names_both():
    away = [ClusterStatus(name, 0, 0, "away") for name in ("c1", "c2")]
    (finding,) = module._of_links(TWO, [LinkStatus("c1", "c2", 1)], away)
    assert finding.what == "cannot be judged: c1 and c2 do not answer"


@also_shared("pair")
def test_a_link_that_is_far_behind_is_named_with_how_far(pair, make_batch):
    pair.fill(1, make_batch([b"x"] * 3, timestamp_ms=5))
    with pair.running():
        (link,) = examined(pair)
    assert link.about == "c1 → c2, level 1"
    assert link.what == "is behind by 3 records, the oldest 70 s old, in 1 partition"
    assert "distributor run --cluster c1 --level 1" in link.do


@pytest.mark.parametrize(
    ("state", "waits_for", "what"),
    [
        ("stuck", "c2 has acknowledged nothing for 5 s", "is stuck: c2 has acknowledged nothing"),
        ("silent", "", "is silent: c2 gives no sign of life"),
    ],
)
def test_a_link_of_which_nothing_is_taken_is_named_with_what_it_waits_for(state, waits_for, what):
    link = LinkStatus("c1", "c2", 1, state=state, waits_for=waits_for)
    (finding,) = module._of_links(TWO, [link], [])
    assert finding.what.startswith(what)
    assert "c2" in finding.do


@pytest.mark.parametrize(
    ("skew", "what"),
    [("3600.2", "3,600 s ahead of"), ("-12.0", "12 s behind"), ("0.4", "")],
)
def test_a_machine_with_another_time_is_named(make_pair, free_ports, skew, what):
    pair = make_pair(f"metrics: {{first_port: {free_ports(6)}}}")
    (store, *_) = [
        one for one in processes_of(plan(pair.topology), pair.file) if "store" in one.name
    ]
    exposition = f'dafka_store_clock_skew_seconds{{address="AB"}} {skew}\n'
    found = list(module._of_processes(pair.topology, [Vitals(store, "ok", (), exposition)]))
    assert [what in one.what for one in found] == [True] * bool(what)


@pytest.mark.parametrize(("meshes", "named"), [(1, True), (0, False)])
def test_a_process_that_says_nothing_for_the_sake_of_others_is_named(pair, meshes, named):
    store = next(one for one in processes_of(plan(pair.topology), pair.file) if "store" in one.name)
    exposition = f'dafka_unread_meshes{{role="store",address="AB"}} {meshes}\n'
    found = list(module._of_processes(pair.topology, [Vitals(store, "ok", (), exposition)]))
    assert ["declare it wire: libdafka" in one.do for one in found] == [True] * named


@pytest.mark.parametrize(
    ("exposition", "what"),
    [
        ('dafka_store_hold_used_ratio{address="AB"} 0.6', "has used 60% of that hold"),
        ('dafka_store_hold_used_ratio{address="AB"} 0.4', None),
        (
            'distributor_controller_gone_records{cluster="c1",other="c2"} 50',
            "c2 lacks 50 records that no store of c1 keeps any more",
        ),
        ('distributor_controller_gone_records{cluster="c1",other="c2"} 0', None),
    ],
)
def test_what_is_held_soon_no_more_and_what_is_gone_are_told(pair, exposition, what):
    process = processes_of(plan(pair.topology), pair.file)[0]
    vitals = Vitals(process, "ok", (), f"{exposition}\n")
    found = list(module._of_processes(pair.topology, [vitals]))
    assert [what in one.what for one in found] == [True] * (what is not None)
    assert all("hold_age_s" in one.do for one in found)


@pytest.mark.parametrize(("state", "named"), [("ok", True), ("no answer", False)])
def test_a_tower_that_others_do_not_hear_is_named_unless_it_is_known_to_be_ill(pair, state, named):
    processes = processes_of(plan(pair.topology), pair.file)
    tower = next(one for one in processes if one.name == "c2-tower-1")
    link = next(one for one in processes if one.name == "c1-level-1")
    endpoint = pair.topology.cluster("c2").towers[0]
    exposition = f'dafka_towers_away{{role="link",address="AB",tower="{endpoint}"}} 1\n'
    told = [Vitals(tower, state), Vitals(link, "ok", (), exposition)]
    found = list(module._of_towers(pair.topology, told))
    assert [one.about for one in found] == ["c2-tower-1 → c1-level-1"] * named


def test_a_relay_by_which_too_little_came_is_named():
    tree = plan(topology_of(tree_of((2, "c1", (1, "c2", "c3")))))
    links = [
        LinkStatus("c1", "c3", 2, state="serving", left="c2", starved="c3", left_seconds=12),
        LinkStatus("c2", "c3", 1, state="serving"),
    ]
    (finding,) = module._of_relays(tree, links)
    assert finding.about == "c2-level-1 → c3"
    assert "c3 got nothing of what c2 took, or got it far too late" in finding.what
    assert "left c2 for that 12 s ago" in finding.what
    assert "distributor retarget FILE --cluster c1 --level 2 --to c2" in finding.do
    assert not Status([], links).well
    assert list(module._of_relays(tree, links[1:])) == []


def test_partitions_that_a_link_does_not_copy_are_named_with_the_reason():
    link = LinkStatus("c1", "c2", 1, lag_seconds=900, diverged=2, overtaken=3)
    (finding,) = module._of_links(TWO, [link], [])
    assert finding.about == "c1 → c2, level 1"
    assert "2 partitions of which c2 has other records" in finding.what
    assert "3 partitions of which no store of c1 that answers keeps what c2 lacks" in finding.what


def test_a_process_that_does_not_answer_comes_with_its_command(make_pair, free_ports):
    pair = make_pair(f"metrics: {{first_port: {free_ports(6)}}}")
    processes = processes_of(plan(pair.topology), pair.file)
    with pair.running():
        findings = examined(pair, processes)
    assert [finding.about for finding in findings] == [process.name for process in processes]
    assert "does not answer" in findings[0].what
    assert findings[0].do.startswith("start it: dafka tower --endpoint tcp://127.0.0.1:")


@pytest.mark.parametrize(
    ("gateways", "means"),
    [(1, "Kafka clients cannot use its cluster"), (2, "have to go to another gateway")],
)
def test_a_gateway_that_is_away_is_told_by_what_kafka_clients_can_do(pair, gateways, means):
    first, second = pair.topology.clusters
    declared = [GatewaySpec(listen=f"127.0.0.1:{port}") for port in range(1, gateways + 1)]
    clusters = (replace(first, gateways=tuple(declared)), second)
    topology = replace(pair.topology, clusters=clusters)
    gateway = processes_of(plan(topology), pair.file)[-1]
    (finding,) = module._of_processes(topology, [Vitals(gateway, "no answer")])
    assert finding.about == f"c1-gateway-{gateways}"
    assert means in finding.what
    assert "start it: dafka gateway --cluster c1" in finding.do


@pytest.mark.parametrize(
    ("state", "what", "do"),
    [
        ("unwell", "runs but does not work (stuck)", "restart it"),
        ("not ready", "runs but waits (stuck)", "it goes on by itself"),
        ("hangs", "is there but does not answer (stuck)", "kill -CONT"),
    ],
)
def test_a_process_that_is_not_well_says_why(pair, monkeypatch, state, what, do):
    process = processes_of(plan(pair.topology), pair.file)[0]
    monkeypatch.setattr(module, "probe", lambda _: [Vitals(process, state, ("stuck",))])
    with pair.running():
        (finding,) = examined(pair)
    assert finding.what.startswith(what)
    assert do in finding.do


@pytest.mark.parametrize("state", ["ok", "unknown"])
def test_a_process_that_is_well_or_tells_nothing_is_no_finding(pair, monkeypatch, state):
    process = processes_of(plan(pair.topology), pair.file)[0]
    monkeypatch.setattr(module, "probe", lambda _: [Vitals(process, state)])
    with pair.running():
        assert examined(pair) == []


def test_a_disk_that_is_nearly_full_is_named(pair, monkeypatch):
    monkeypatch.setattr(
        module.shutil, "disk_usage", lambda _: SimpleNamespace(total=100e9, free=9.9e9)
    )
    with pair.running():
        one, two = examined(pair)
    assert (one.about[:3], two.about[:3]) == ("c1 ", "c2 ")
    assert "9.9 of 100.0 GB left" in one.what


def test_who_has_never_heard_a_cluster_is_named(make_pair):
    pair = make_pair("heartbeat_ms: 1000")
    with pair.running():
        one, two = examined(pair)
    assert (one.about, two.about) == ("c1 → c1, c2", "c2 → c1, c2")
    assert "no heartbeat of c1 has ever come to c1, c2" in one.what
    assert "lowest level" in one.do


def test_what_nobody_brings_is_named(pair, make_batch):
    done = Envelope(origin=1, copy_flags=1, epoch=0)
    pair.fill(1, make_batch([b"x"] * 3, envelope=done, timestamp_ms=5))
    with pair.running():
        (finding,) = examined(pair)
    assert finding.about == "c2"
    assert finding.what.startswith("lacks 3 records in 1 partition that other clusters have")


def test_what_is_not_to_be_on_a_cluster_is_not_lacking_there(pair, make_batch):
    done = Envelope(origin=1, copy_flags=1, epoch=0)
    pair.fill(1, make_batch([b"x"] * 3, envelope=done, timestamp_ms=5))
    placed = replace(pair.topology, placement=(Placement(topics="*", clusters=("c1",)),))
    with pair.running():
        assert examine(plan(placed), [], lambda: int(LATE_S * 1_000), settle_s=0.0) == []


@pytest.mark.parametrize(
    ("shares", "means"),
    [
        ((), "nothing that is published on its cluster is stored"),
        ((LOW, HIGH), "what is published in slots 0-2047 is not stored"),
        ((LOW, ALL_SLOTS), "its cluster has one place less where records are kept"),
    ],
)
def test_an_only_store_is_told_from_one_of_several(make_pair, monkeypatch, shares, means):
    pair = make_pair(shares=shares)
    store = processes_of(plan(pair.topology), pair.file)[2]
    monkeypatch.setattr(module, "probe", lambda _: [Vitals(store, "no answer", ("x",))])
    with pair.running():
        (finding,) = examined(pair)
    assert means in finding.what


def test_of_stores_that_do_not_answer_it_is_said_which_slots_nobody_keeps(make_pair):
    pair = make_pair(shares=(LOW, HIGH))
    with pair.running(away=[0]):
        (away, *_) = examined(pair)
    assert away.about == "c1"
    assert "producers there keep their records of slots 0-2047 until it is back" in away.what


def test_a_store_that_joins_slots_does_not_keep_them_yet(make_pair):
    """Who kept them before is down: what is published there nobody acknowledges."""
    pair = make_pair(shares=(LOW, HIGH, LOW))
    with closing(LmdbLog(pair.topology.clusters[0].stores[1].data)) as log:
        KeptSlots(log, HIGH, joins=True)
    with pair.running(1, away=[0]):
        found = list(module._of_stores(pair.topology))
    (away,) = [one for one in found if one.what.startswith("its store does") and one.about == "c1"]
    assert "producers there keep their records of slots 2048-4095 until it is back" in away.what


def test_what_arrives_meanwhile_is_no_finding(pair, monkeypatch):
    everything = [SimpleNamespace(cluster=name, heads={PLACE: 5}) for name in ("c1", "c2")]
    short = [everything[0], SimpleNamespace(cluster="c2", heads={PLACE: 4})]
    looks = iter([short, everything])
    monkeypatch.setattr(module, "survey", lambda _: next(looks))
    assert list(module._of_holdings(pair.topology, [], settle_s=0.0)) == []


@pytest.mark.parametrize(
    ("kind", "number", "means"),
    [
        (ProcessKind.REPLICA, 1, "nothing of its cluster is copied"),
        (ProcessKind.REPLICA, 2, "one less that can copy"),
        (ProcessKind.CONTROLLER, 1, "no replica takes over from another"),
        (ProcessKind.CONTROLLER, 2, "one less can say"),
    ],
)
def test_who_is_away_of_those_that_copy_is_told_by_who_is_left(pair, kind, number, means):
    first, second = pair.topology.clusters
    places = [f"127.0.0.1:{port}" for port in range(1, 3 * number + 1)]
    controllers = tuple(ControllerSpec(metrics=place) for place in places[:number])
    replicas = tuple(
        ReplicaSpec(listen=one, metrics=two)
        for one, two in zip(places[number : 2 * number], places[2 * number :], strict=True)
    )
    controlled = replace(first, controllers=controllers, replicas=replicas)
    topology = replace(pair.topology, clusters=(controlled, second))
    process = next(one for one in processes_of(plan(topology), pair.file) if one.kind is kind)
    (finding,) = module._of_processes(topology, [Vitals(process, "no answer")])
    assert means in finding.what


def test_a_link_that_no_replica_writes_is_named():
    controlled = run_by_replicas(TWO)
    (finding,) = module._of_links(controlled, [LinkStatus("c1", "c2", 1, state="unwritten")], [])
    assert finding.what == "no replica of c1 writes it: nothing of it is copied"
    assert "distributor controller flows" in finding.do
    shares = LinkStatus("c1", "c2", 1, state="unwritten", waits_for="a replica to write share 0/2")
    (finding,) = module._of_links(controlled, [shares], [])
    assert finding.what == "waits for a replica to write share 0/2: nothing of that is copied"


def test_a_share_that_no_distributor_writes_is_named_with_what_starts_it():
    shares = replace(TWO, links=Links(shares=2))
    link = LinkStatus(
        "c1", "c2", 1, state="unwritten", waits_for="a distributor to write share 0/2"
    )
    (finding,) = module._of_links(shares, [link], [])
    assert finding.what == "waits for a distributor to write share 0/2: nothing of that is copied"
    assert finding.do == "look whether distributor run --cluster c1 --level 1 --share runs"


def test_a_link_that_another_process_writes_is_named():
    link = LinkStatus("c1", "c2", 1, state="superseded", waits_for="the end of another process")
    (finding,) = module._of_links(TWO, [link], [])
    assert finding.what == "writes nothing: it waits for the end of another process"
    assert "end the one of the two that is not wanted" in finding.do
    assert not Status([], [link]).well


def test_a_link_that_is_paused_is_named_with_how_it_goes_on():
    paused = LinkStatus("c1", "c2", 1, lag_seconds=900, state="paused")
    (finding,) = module._of_links(run_by_replicas(TWO), [paused], [])
    assert finding.what == "is paused: nothing of it is copied"
    assert "distributor controller unpause HOST:PORT --level 1" in finding.do
    # Of a distributor of its own it is over by itself.
    assert [*module._of_links(TWO, [replace(paused, lag_seconds=0)], [])] == []


def test_what_no_replica_does_beside_copying_records_is_named():
    (finding,) = module._of_idle(["c1 level 1: no replica brings positions of groups"])
    assert (finding.about, finding.what) == ("c1 level 1", "no replica brings positions of groups")
    assert "controllers and replicas of c1" in finding.do
    assert not Status([], [], idle=["c1: no replica runs its schema distributor"]).well


def run_by_replicas(topology):
    """The same, with a controller and a replica of each cluster."""
    clusters = tuple(
        replace(
            one,
            controllers=(ControllerSpec(metrics=f"{one.name}:1"),),
            replicas=(ReplicaSpec(listen=f"{one.name}:2", metrics=f"{one.name}:3"),),
        )
        for one in topology.clusters
    )
    return replace(topology, clusters=clusters)


def test_where_replicas_copy_nobody_is_sent_to_a_distributor():
    tree = plan(run_by_replicas(topology_of(tree_of((2, "c1", (1, "c2", "c3"))))))
    relay = LinkStatus("c1", "c3", 2, state="serving", left="c2", starved="c3", left_seconds=12)
    (relayed,) = module._of_relays(tree, [relay])
    assert relayed.about == "c2 level 1 → c3"
    late = LinkStatus("c1", "c2", 2, lag_records=1, lag_seconds=900, partitions=1)
    overtaken = LinkStatus("c1", "c2", 2, overtaken=1)
    found = [relayed, *module._of_links(tree.topology, [late, overtaken], [])]
    assert len(found) == 3
    for finding in found:
        assert not any(word in finding.do for word in ("distributor run", "retarget"))
    assert found[2].do.endswith("or go on without what nobody has by distributor resume")


def test_slots_that_move_are_named_with_what_goes_on_moving_them():
    moves = HealthResponse("A", 0, 0, moving=MovingSlots(joining=((0, 2_048),)))
    given = {"tcp://a:1": moves, "tcp://b:1": HealthResponse("B", 0, 0)}
    (finding,) = module._of_slots(topology_of("c1").clusters[0], given)
    assert finding.about == "c1 tcp://a:1"
    assert finding.what.startswith("joins slots 0-2047: ")
    assert "distributor apply" in finding.do
    clears = HealthResponse("A", 0, 0, moving=MovingSlots(dropped=((0, 2_048),)))
    cluster = topology_of("c1").clusters[0]
    assert list(module._of_slots(cluster, {"tcp://a:1": clears})) == []


def test_a_store_with_other_slots_than_the_file_gives_it_is_named():
    """All answer, and yet nobody keeps the other half."""
    (cluster,) = topology_of("c1").clusters
    halves = LOW, HIGH
    stores = tuple(
        StoreSpec(query=f"tcp://{name}:1", data=name, slots=tuple(slots.ranges()))
        for name, slots in zip("ab", halves, strict=True)
    )
    cluster = replace(cluster, stores=stores)
    given = {store.query: HealthResponse(store.data, 0, 0, slots=part_of(LOW)) for store in stores}
    (finding,) = module._of_slots(cluster, given)
    assert finding.about == "c1 tcp://b:1"
    assert finding.what == "keeps slots 0-2047, and the file gives it slots 2048-4095"
    assert "--slots 2048-4095" in finding.do
    del given["tcp://b:1"]
    assert not list(module._of_slots(cluster, given))
