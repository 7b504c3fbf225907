from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.model import Partition
from distributor.errors import CommandError
from distributor.operations import loss as losses
from distributor.operations.loss import Gone, declare_lost, gone
from distributor.survey import Holding
from topology import plan
from topology.model import ControlSpec

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


def test_only_other_clusters_are_told_and_what_is_lost_is_counted(told):
    the_plan, answers, asked = told
    answers["c1"] = (1_500, {A: 4, Partition("__internal", "X"): 9})
    loss = declare_lost(the_plan, "c1")
    assert asked == ["ipc:///f/control/c2-level-1.sock"]
    assert (loss.told, loss.untold, loss.age_s) == (1, [], 1.5)
    assert loss.gone == [Gone("orders", "AA", 3, 2)]
    assert loss.unreachable == []


def test_who_cannot_be_told_is_named(told):
    the_plan, answers, _ = told
    answers["error"] = "no answer"
    loss = declare_lost(the_plan, "c1")
    assert (loss.told, loss.age_s) == (0, None)
    assert loss.untold == ["c2 level 1: no answer"]
