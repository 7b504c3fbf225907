"""Who gets nothing of what another target takes."""

from __future__ import annotations

import pytest

from dafka.model import Partition
from distributor.control.relays import LATE_PARTS, RelayWatch

A, B = Partition("orders", "A"), Partition("orders", "B")
TARGETS = ("c2", "c3", "c4")


class Clusters:
    def __init__(self):
        self.heads = {name: {A: 0} for name in TARGETS}
        self.watch = RelayWatch()
        self.now_ms = 0

    def look(self, answering=TARGETS, served="c2"):
        self.now_ms += 1_000
        heads = {name: self.heads[name] for name in answering}
        return self.watch.look(served, heads, self.now_ms)


@pytest.fixture
def clusters():
    clusters = Clusters()
    assert clusters.look() == ("c4", 0)
    return clusters


def test_who_stands_while_the_served_one_goes_on_is_starved(clusters):
    for moment in range(1, 4):
        clusters.heads["c2"] = {A: moment}
        clusters.heads["c4"] = {A: moment}
        assert clusters.look() == ("c3", moment * 1_000)
    clusters.heads["c3"] = {A: 1}
    assert clusters.look()[1] == 0


def test_who_moves_or_has_all_is_not(clusters):
    for moment in range(1, 4):
        clusters.heads["c2"] = {A: 10 * moment, B: moment}
        clusters.heads["c3"] = {A: moment}
        clusters.heads["c4"] = {A: 10 * moment, B: moment}
        assert clusters.look()[1] <= 2_000 // LATE_PARTS


def test_nobody_is_where_nothing_comes(clusters):
    clusters.heads["c2"] = {A: 0, B: 5}
    clusters.look()
    clusters.heads["c3"] = clusters.heads["c4"] = {A: 0, B: 3}
    assert clusters.look()[1] <= 1_000 // LATE_PARTS
    for _ in range(5):
        assert clusters.look()[1] == 0, "the served one stands, too"


def test_who_moves_and_is_ever_later_is_starved_and_who_catches_up_is_not(clusters):
    for moment in range(1, 20):
        clusters.heads["c2"] = {A: 10 * moment}
        clusters.heads["c3"] = {A: moment}
        starved_ms = clusters.look(TARGETS[:2])[1]
    assert 4_000 < starved_ms < 20_000 // LATE_PARTS
    clusters.heads["c2"], clusters.heads["c3"] = {A: 200}, {A: 60}
    assert clusters.look(TARGETS[:2]) == ("c3", 0), "it was 18 s late, and is 14 s late"


def test_who_does_not_answer_is_not_judged(clusters):
    clusters.heads["c2"] = {A: 9}
    assert clusters.look(("c2", "c4")) == ("c4", 1_000)
    assert clusters.look(("c2", "c3")) == ("c3", 0), "from when it is back"
    assert clusters.look(("c3",)) == ("", 0)


def test_a_switch_begins_anew(clusters):
    clusters.heads["c2"] = {A: 9}
    assert clusters.look()[1] == 1_000
    clusters.watch.forget()
    assert clusters.look()[1] == 0
