from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dafka.errors import QueryError
from distributor.dashboard import watcher as module
from distributor.dashboard.watcher import DIFFERENCES_MAX, Watcher, trace
from distributor.operations.probe import Vitals
from distributor.operations.status import LinkStatus, Status
from distributor.verify.verdict import Difference, DifferenceKind, Verdict
from topology import load, plan, spread
from topology.processes import Process, ProcessKind

EXPOSITION = """
# TYPE dafka_gateway_connections gauge
dafka_gateway_connections 3
# TYPE dafka_gateway_partitions gauge
dafka_gateway_partitions{cluster="c1",state="serving"} 5
dafka_gateway_partitions{cluster="c1",state="beginning"} 1
# TYPE dafka_gateway_groups gauge
dafka_gateway_groups{cluster="c1",state="Stable"} 1
dafka_gateway_groups{cluster="c1",state="Empty"} 1
# TYPE dafka_gateway_group_members gauge
dafka_gateway_group_members{cluster="c1"} 7
# TYPE dafka_gateway_group_lag_records gauge
dafka_gateway_group_lag_records{cluster="c1",group="a"} 10
dafka_gateway_group_lag_records{cluster="c1",group="b"} 1
"""
FOUR = Path(__file__).parents[3] / "config" / "four-clusters.yaml"


def test_the_topology_is_its_tree_and_its_links():
    told = Watcher(plan(load(FOUR)), []).topology()
    left = {"level": 1, "children": ["cluster-1", "cluster-2"]}
    right = {"level": 1, "children": ["cluster-3", "cluster-4"]}
    assert told["tree"] == {"level": 3, "children": [left, right]}
    assert {"source": "cluster-1", "target": "cluster-3", "level": 3} in told["links"]
    assert len(told["links"]) == 8


def test_a_way_has_the_flags_at_every_stop():
    found = trace(spread(plan(load(FOUR)), "cluster-1"), 3)
    flags = {hop["target"]: hop["flags"] for hop in found["hops"]}
    assert flags == {"cluster-2": "0001", "cluster-3": "0100", "cluster-4": "0101"}


@pytest.mark.net
def test_a_look_shows_clusters_links_and_what_is_not_there(pair, make_batch):
    pair.fill(1, make_batch([b"x"] * 3))
    watcher = Watcher(plan(pair.topology), [])
    with pair.running(1):
        look = watcher.look()
        again = watcher.look()
    one, two = look["clusters"]
    assert (one["records"], one["error"], one["records_per_s"]) == (3, "", None)
    assert "cannot reach" in two["error"]
    assert again["clusters"][0]["records_per_s"] == 0
    assert all(link["error"] for link in look["links"])
    assert look["processes"] == []
    assert look["comparison"] == {"running": False}


def test_links_are_shown_towards_the_targets_they_serve(monkeypatch):
    the_plan = plan(load(FOUR))
    watcher = Watcher(the_plan, [])
    link = next(one for one in the_plan.links if len(one.targets) > 1)
    rows = [LinkStatus(one.source, one.target, one.level) for one in the_plan.links]
    rows[the_plan.links.index(link)] = LinkStatus(link.source, link.targets[1], link.level)
    monkeypatch.setattr(module, "status_of", lambda *_: Status([], rows))
    watcher.look()
    told = {(one["source"], one["level"]): one["target"] for one in watcher.topology()["links"]}
    assert told[link.source, link.level] == link.targets[1]
    hops = spread(watcher.plan, link.source).hops
    assert {hop.target for hop in hops if hop.level == link.level} == {link.targets[1]}


def test_what_several_replicas_copy_of_a_link_adds_up(monkeypatch):
    the_plan = plan(load(FOUR))
    link = the_plan.links[0]
    rows = [LinkStatus(one.source, one.target, one.level) for one in the_plan.links]
    labels = f'source="{link.source}",target="{link.target}",level="{link.level}'
    records = 0

    def asked(_processes):
        nonlocal records
        records += 100
        for number, share in enumerate((" share 0/2", " share 1/2", "")):
            series = f'distributor_records_total{{{labels}{share}",result="forwarded"}} {records}'
            text = f"# TYPE distributor_records counter\n{series}\n"
            replica = Process(
                name=f"r{number}", kind=ProcessKind.REPLICA, cluster="c1", command=(), metrics="r:1"
            )
            yield Vitals(replica, "ok", exposition=text)

    monkeypatch.setattr(module, "probe", lambda processes: list(asked(processes)))
    monkeypatch.setattr(module, "status_of", lambda *_: Status([], rows))
    watcher = Watcher(the_plan, [])
    moments = iter([1.0, 2.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(moments))
    first, second = watcher.look()["links"][0], watcher.look()["links"][0]
    assert [one["records_per_s"] for one in (first, second)] == [None, 300]


def hops(fast, slow, beyond=0):
    """What a distributor tells of the hops of its first link since it runs."""
    labels = 'source="cluster-1",target="cluster-3",level="3"'
    bounds = [("0.01", fast), ("5.0", fast + slow), ("+Inf", fast + slow + beyond)]
    lines = ["# TYPE distributor_hop_seconds histogram"]
    lines += [f'distributor_hop_seconds_bucket{{{labels},le="{le}"}} {n}' for le, n in bounds]
    return "\n".join(lines) + "\n"


def looks_at(monkeypatch, *moments):
    """What is said of the first link, at (seconds, exposition) one after the other."""
    the_plan = plan(load(FOUR))
    link = the_plan.links[0]
    assert (link.source, link.target, link.level) == ("cluster-1", "cluster-3", 3)
    rows = [LinkStatus(one.source, one.target, one.level) for one in the_plan.links]
    process = Process(
        name="one", kind=ProcessKind.DISTRIBUTOR, cluster="cluster-1", command=(), metrics="r:1"
    )
    monkeypatch.setattr(module, "status_of", lambda *_: Status([], rows))
    watcher = Watcher(the_plan, [])
    for now_s, exposition in moments:
        told = [Vitals(process, "ok", exposition=exposition)]
        monkeypatch.setattr(module, "probe", lambda _, told=told: told)
        monkeypatch.setattr(module.time, "monotonic", lambda now_s=now_s: now_s)
        row = watcher.look()["links"][0]
        yield row["hop_p99_ms"], row["hop_p99_beyond"]


def test_the_hop_p99_is_that_of_the_last_minute(monkeypatch):
    before, during, after, idle = looks_at(
        monkeypatch,
        (100.0, hops(1_000, 0)),
        (102.0, hops(1_000, 50)),
        (140.0, hops(1_500, 50)),
        (165.0, hops(1_600, 50)),
    )
    assert before == (None, False), "when those hopped is not known"
    assert during == (5_000, False)
    assert after == (5_000, False), "50 of 550 is over a hundredth"
    assert idle == (10, False), "the slow ones are over a minute ago"


def test_an_idle_link_has_no_hop_p99(monkeypatch):
    assert [*looks_at(monkeypatch, (1.0, hops(5, 5)), (3.0, hops(5, 5)))][1] == (None, False)


def test_a_hop_p99_beyond_all_bounds_is_told_to_be(monkeypatch):
    looks = [*looks_at(monkeypatch, (1.0, hops(5, 5)), (3.0, hops(5, 5, beyond=4)))]
    assert looks[1] == (5_000, True)


def test_a_distributor_that_was_started_again_counts_from_zero(monkeypatch):
    looks = [*looks_at(monkeypatch, (1.0, hops(500, 500)), (3.0, hops(20, 0)))]
    assert looks[1] == (10, False)


def test_gateways_are_shown_by_what_they_tell(monkeypatch):
    gateway = Process(
        name="c1-gateway-1", kind=ProcessKind.GATEWAY, cluster="c1", command=(), metrics="one:1"
    )
    told = [Vitals(gateway, "ok", exposition=EXPOSITION), Vitals(gateway, "no answer")]
    the_plan = plan(load(FOUR))
    rows = [LinkStatus(one.source, one.target, one.level) for one in the_plan.links]
    monkeypatch.setattr(module, "probe", lambda _: told)
    monkeypatch.setattr(module, "status_of", lambda *_: Status([], rows))
    there, away = Watcher(the_plan, []).look()["gateways"]
    assert there == {
        "name": "c1-gateway-1",
        "cluster": "c1",
        "state": "ok",
        "connections": 3,
        "serving": 5,
        "beginning": 1,
        "groups": 2,
        "members": 7,
        "lag_records": 11,
        "requests_per_s": None,
        "received_bytes_per_s": None,
        "sent_bytes_per_s": None,
    }
    assert away == dict.fromkeys(there) | {
        "name": "c1-gateway-1",
        "cluster": "c1",
        "state": "no answer",
    }


def compared(monkeypatch, until, verify):
    monkeypatch.setattr(module, "verify", verify)
    watcher = Watcher(plan(load(FOUR)), [])
    assert watcher.compare()
    return until(lambda: None if watcher.comparison()["running"] else watcher.comparison())


def test_a_comparison_is_kept_with_its_first_differences(monkeypatch, until):
    lacking = [
        Difference(DifferenceKind.BEHIND, "t", "A", "c2", number, number, ("c1",))
        for number in range(DIFFERENCES_MAX + 5)
    ]
    verdict = Verdict({}, differences=lacking, unreachable=["c9"], more=2)
    found = compared(monkeypatch, until, lambda topology, deep, progress: verdict)
    assert not found["equal"]
    assert found["problems"][:2] == ["c9", str(lacking[0])]
    assert (len(found["problems"]), found["more"]) == (DIFFERENCES_MAX, 8)


def test_a_comparison_that_cannot_be_made_says_why(monkeypatch, until):
    def verify(topology, deep, progress):
        raise QueryError("no answer")

    found = compared(monkeypatch, until, verify)
    assert (found["equal"], found["problems"]) == (False, ["no answer"])


def test_one_comparison_at_a_time_and_it_tells_how_far_it_is(monkeypatch, until):
    go_on = threading.Event()

    def verify(topology, deep, progress):
        progress(5, 10)
        go_on.wait(120)
        return Verdict({})

    monkeypatch.setattr(module, "verify", verify)
    watcher = Watcher(plan(load(FOUR)), [])
    assert watcher.compare()
    assert not watcher.compare()
    until(lambda: watcher.comparison().get("done") == 5)
    assert watcher.comparison()["total"] == 10
    go_on.set()
    until(lambda: not watcher.comparison()["running"])
    assert watcher.comparison()["equal"]
