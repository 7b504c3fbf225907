from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dafka.errors import QueryError
from dafka.model import Partition
from distributor.errors import CommandError
from distributor.operations import loss as losses
from distributor.operations.loss import Gone, declare_lost, gone
from distributor.operations.replicas import RememberedByReplicas, ToldByReplicas
from distributor.survey import Holding
from topology import load, plan
from topology.model import ControlSpec

CONFIG = Path(__file__).parents[3] / "config"
A, B, C = (Partition("orders", address) for address in ("AA", "BB", "CC"))


def test_gone_is_what_was_known_and_nobody_has():
    kept = [{A: 9, B: 3}, {A: 4, B: 5}]
    assert gone({A: 9, B: 7, C: 1}, kept) == [
        Gone("orders", "BB", 6, 2),
        Gone("orders", "CC", 0, 2),
    ]


def test_gone_is_nothing_where_others_have_more():
    assert gone({A: 3}, [{A: 9}]) == []


@pytest.fixture
def told(monkeypatch, pair):
    """A pair of which c1 is lost: what the only distributor left answers, and who was asked."""
    asked = []
    answers = {}

    class FakeClient:
        def __init__(self, endpoint):
            asked.append(endpoint)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def lost(self, cluster):
            if "error" in answers:
                raise CommandError(answers["error"])
            return answers[cluster]

    monkeypatch.setattr(losses, "ControlClient", FakeClient)
    monkeypatch.setattr(
        losses, "survey", lambda _: [Holding("c1", None, {}, "gone"), Holding("c2", "q", {A: 2})]
    )
    topology = replace(pair.topology, control=ControlSpec(base="/f"))
    return plan(topology), answers, asked


def not_turned(cluster, level, to):
    raise AssertionError((cluster, level, to))


def test_only_other_clusters_are_told_and_what_is_lost_is_counted(told):
    the_plan, answers, asked = told
    answers["c1"] = (1_500, {A: 4, Partition("__internal", "X"): 9})
    loss = declare_lost(the_plan, "c1", not_turned)
    assert asked == ["ipc:///f/control/c2-level-1.sock"]
    assert (loss.told, loss.untold, loss.age_s) == (1, [], 1.5)
    assert loss.gone == [Gone("orders", "AA", 3, 2)]
    assert loss.unreachable == []


def test_who_cannot_be_told_is_named(told):
    the_plan, answers, _ = told
    answers["error"] = "no answer"
    loss = declare_lost(the_plan, "c1", not_turned)
    assert (loss.told, loss.age_s) == (0, None)
    assert loss.untold == ["c2 level 1: no answer"]


@pytest.fixture
def the_plan(monkeypatch):
    """The shipped tree with controllers: who asks its replicas is for each test to say."""
    the_plan = plan(load(CONFIG / "controlled.yaml"))
    holdings = [Holding(one.name, "q", {A: 2}) for one in the_plan.topology.clusters]
    monkeypatch.setattr(losses, "survey", lambda _: holdings)
    monkeypatch.setattr(losses, "ask_replicas", lambda _: ToldByReplicas())
    monkeypatch.setattr(losses, "remembered_by_replicas", lambda *_: RememberedByReplicas())
    return the_plan


class Turns(list):
    """What controllers are told; one cluster's do not answer."""

    silent = ""

    def __call__(self, cluster, level, to):
        if cluster.name == self.silent:
            raise QueryError("no answer")
        self.append((cluster.name, level, to))


def test_controllers_let_links_aim_elsewhere_that_aim_at_it(the_plan, monkeypatch):
    turns = Turns()
    loss = declare_lost(the_plan, "cluster-3", turns)
    others = [one for one in the_plan.links if one.source != "cluster-3"]
    aiming = [one for one in others if one.target == "cluster-3" and len(one.targets) > 1]
    assert {(source, level) for source, level, _ in turns} == {
        (one.source, one.level) for one in aiming
    }
    assert aiming
    assert all(to != "cluster-3" for _, _, to in turns)
    assert (loss.told, loss.untold) == (len({one.source for one in aiming}), [])
    assert not loss.silent


def test_also_those_that_have_left_what_they_prefer_for_it(the_plan, monkeypatch):
    (link,) = [one for one in the_plan.links if one.source == "cluster-1" and one.level == 3]
    row = SimpleNamespace(target="cluster-4")
    monkeypatch.setattr(losses, "ask_replicas", lambda _: ToldByReplicas({link: row}))
    turns = Turns()
    declare_lost(the_plan, "cluster-4", turns)
    assert ("cluster-1", 3, "cluster-3") in turns


def test_what_replicas_know_of_it_counts_and_who_does_not_answer_is_named(the_plan, monkeypatch):
    known = RememberedByReplicas(2.5, [{A: 4}, {A: 3, B: 0}], ["cluster-1 replica x: away"])
    monkeypatch.setattr(losses, "remembered_by_replicas", lambda *_: known)
    turns = Turns()
    turns.silent = "cluster-2"
    loss = declare_lost(the_plan, "cluster-3", turns)
    assert loss.gone == [Gone("orders", "AA", 3, 2), Gone("orders", "BB", 0, 1)]
    assert (loss.age_s, loss.told) == (2.5, len({cluster for cluster, _, _ in turns}))
    assert loss.untold == ["cluster-1 replica x: away", "cluster-2: no answer"]
