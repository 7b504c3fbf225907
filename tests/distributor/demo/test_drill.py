from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dafka.model import Partition
from distributor.demo import drill as module
from distributor.demo.drill import (
    TOPIC,
    Load,
    Stalls,
    all_hold,
    carried_by,
    look,
    patience_s,
    union,
    victim_of,
    wait_until_back,
    watch_until,
    without,
)
from distributor.demo.job import prove
from distributor.errors import PlanError, ProcessError
from topology import load, plan

FOUR = Path(__file__).parents[3] / "config" / "four-clusters.yaml"
P1, P3 = Partition(TOPIC, "A1"), Partition(TOPIC, "A3")
HOMES = {P1: "cluster-1", P3: "cluster-3"}
NOBODY = SimpleNamespace(watch=list)


def link_of(the_plan, source, level):
    (found,) = (link for link in the_plan.links if (link.source, link.level) == (source, level))
    return found


def test_a_link_carries_what_is_published_before_it_and_what_it_relays():
    the_plan = plan(load(FOUR))
    assert carried_by(the_plan, link_of(the_plan, "cluster-1", 3)) == {"cluster-1"}
    everything = {"cluster-1", "cluster-2", "cluster-3"}
    assert carried_by(the_plan, link_of(the_plan, "cluster-3", 1)) == everything


def test_a_stall_is_the_longest_time_without_anything_new():
    the_plan = plan(load(FOUR))
    stalls = Stalls(the_plan, HOMES)
    link = link_of(the_plan, "cluster-1", 3)
    for now_s, head in ((0, 0), (1, 5), (2, 5), (4, 5), (4.5, 6), (5, 7)):
        stalls.update({"cluster-3": {P1: head}}, now_s)
    assert stalls.longest_s[link] == 3.5


def test_whoever_behind_the_link_has_it_counts():
    the_plan = plan(load(FOUR))
    stalls = Stalls(the_plan, HOMES)
    link = link_of(the_plan, "cluster-1", 3)
    stalls.update({"cluster-3": {P1: 0}}, 0)
    stalls.update({"cluster-4": {P1: 3}}, 1)
    stalls.update({"cluster-4": {P1: 4}}, 2)
    assert stalls.longest_s[link] == 1


def test_what_a_link_does_not_carry_does_not_count_for_it():
    the_plan = plan(load(FOUR))
    stalls = Stalls(the_plan, HOMES)
    stalls.update({"cluster-3": {P3: 0}}, 0)
    stalls.update({"cluster-3": {P3: 9}}, 7)
    assert stalls.longest_s[link_of(the_plan, "cluster-1", 3)] == 7


def test_time_without_load_is_nobodys_fault(monkeypatch):
    the_plan = plan(load(FOUR))
    stalls = Stalls(the_plan, HOMES)
    stalls.update({}, 10)
    now = iter([10.0, 15.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    with stalls.paused():
        pass
    stalls.update({}, 17)
    assert set(stalls.longest_s.values()) == {2.0}


def test_the_victim_relays_for_others_unless_another_is_wanted():
    the_plan = plan(load(FOUR))
    assert victim_of(the_plan, None) == "cluster-3"
    assert victim_of(the_plan, "cluster-2") == "cluster-2"
    with pytest.raises(PlanError, match="no cluster 'c9': there are cluster-1, cluster-2"):
        victim_of(the_plan, "c9")


def test_a_single_cluster_has_nobody_to_take_over(tmp_path):
    text = FOUR.read_text()
    head = text[: text.index("  - name: cluster-2")]
    (tmp_path / "one.yaml").write_text(head + "tree: cluster-1\n")
    with pytest.raises(PlanError, match="single cluster"):
        victim_of(plan(load(tmp_path / "one.yaml")), None)


def test_survivors_are_all_but_one():
    rest = without(load(FOUR), "cluster-3")
    assert [one.name for one in rest.clusters] == ["cluster-1", "cluster-2", "cluster-4"]


def test_a_union_is_the_most_anybody_holds_and_all_must_hold_it():
    topology = without(without(load(FOUR), "cluster-3"), "cluster-4")
    heads = {"cluster-1": {P1: 5, P3: 1}, "cluster-2": {P1: 2, P3: 4}}
    assert union(heads) == {P1: 5, P3: 4}
    assert not all_hold(topology, union(heads))(heads)
    assert all_hold(topology, {P1: 2, P3: 1})(heads)
    assert not all_hold(topology, {P1: 0})({"cluster-1": {P1: 0}})


def test_survivors_get_the_time_their_timers_need(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text(FOUR.read_text() + "links: {failover_after_ms: 5000, repair_after_ms: 7000}\n")
    assert patience_s(load(file)) == 5 + 2 * 7 + module.SLACK_S


@pytest.mark.net
def test_load_is_numbered_can_be_paused_and_is_proved(pair):
    with pair.running(1), pair.running(2):
        running = Load(pair.topology, rate=1_000)
        until_s = time.monotonic() + 120
        while not all(held for held in (look(pair.topology) or {"": {}}).values()):
            assert time.monotonic() < until_s
        running.pause("c2")
        paused = look(pair.topology)
        with running.paused(["c1"]):
            pass
        published = running.finish()
        after = look(pair.topology)
        proofs = prove(pair.topology, published, lambda _: None)
    assert set(published.homes.values()) == {"c1", "c2"}
    # No links run: each cluster has its own half, and the proof misses the other.
    assert sum(proof.found for proof in proofs) == published.rows
    assert all(proof.lost and not proof.duplicated and not proof.disordered for proof in proofs)
    assert union(after).keys() == set(published.homes)
    assert all(union(after)[partition] >= head for partition, head in union(paused).items())


@pytest.mark.net
@pytest.mark.slow
def test_waiting_ends_with_the_condition_or_with_the_time(pair):
    with pair.running(1):
        assert watch_until(lambda heads: "c1" in heads, 20, pair.topology, NOBODY) is not None
        stalls = Stalls(plan(pair.topology), {})
        assert watch_until(lambda _: False, 0, pair.topology, NOBODY, stalls) is None
        assert stalls.longest_s
        with pytest.raises(ProcessError, match="no answer within 0 s from c2"):
            wait_until_back(pair.topology, NOBODY, ready_s=0.0)


def test_who_has_answered_once_is_back(monkeypatch):
    """On a busy machine not all answer in one look."""
    looks = [{"cluster-1": {}}, {"cluster-2": {}, "cluster-3": {}}, {"cluster-4": {}}]
    monkeypatch.setattr("distributor.demo.drill.look", lambda _: looks.pop(0))
    wait_until_back(load(FOUR), NOBODY)
    assert not looks
