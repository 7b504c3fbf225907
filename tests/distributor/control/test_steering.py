"""Steering by itself: stores that say what they are told to, a clock that is put forward."""

from __future__ import annotations

from itertools import cycle
from types import SimpleNamespace

import pytest

from dafka.model import Partition
from dafka.process.clock import Clock
from distributor.control.steering import (
    BARRIER_INTERVAL_MS,
    PROBE_AGAIN_MS,
    PROBE_INTERVAL_MS,
    ClusterStores,
    Steering,
)
from distributor.link.target import REST, Pause, Retarget, TargetSettings
from topology.model import ClusterSpec, StoreSpec

ORDERS = Partition("orders", "AB" * 16)
LINK = SimpleNamespace(
    source="c1", level=2, targets=("c2", "c3"), beyond=("c2", "c3"), branch=1, target="c2", span=()
)


class FakeNode:
    """The link that is steered."""

    def __init__(self):
        self.sent = None
        self.held = 0
        self.opened = []
        self.lacks = ""
        self.stuck_ms = self.late_ms = 0

    def hold(self):
        self.held += 1

    def reopen(self, target):
        self.opened.append(target)
        self.sent = None

    def unready(self):
        return self.lacks


class FakeStores:
    """What clusters answer: their heads, None for silence."""

    def __init__(self):
        self.held = {"c2": {}, "c3": {}}
        self.gone = set()
        self.asked = []

    def is_well(self, name):
        return self.held[name] is not None

    def are_gone(self, name):
        return name in self.gone

    def heads(self, name, partitions):
        self.asked.append(name)
        return self.held[name]

    def carried(self, name):
        return self.held[name]


class Steered:
    def __init__(self, stores=None, **settings):
        self.now_ms = -60_000
        self.node, self.stores = FakeNode(), stores or FakeStores()
        clock = Clock(now_ms=lambda: self.now_ms)
        self.steering = Steering(
            LINK, TargetSettings(**settings), self.node, self.stores, clock=clock
        )
        self.now_ms = 0  # it has run for a while

    def look(self, after_ms=0):
        self.now_ms += after_ms
        self.steering.look()
        self.steering.aim.check()


@pytest.fixture
def here():
    return Steered()


def test_a_planned_switch_waits_for_every_cluster_behind_the_target(here):
    here.look()
    here.steering.handle(Retarget("c3"))
    assert (here.node.held, here.steering.state, here.steering.stall_ms) == (1, "draining", -1)
    here.look()
    assert here.stores.asked == [], "the link has not said yet what it sent"
    here.node.sent = {ORDERS: 5}
    here.stores.held = {"c2": {ORDERS: 4}, "c3": {ORDERS: 3}}
    here.look()
    assert here.steering.waits_for == "c3 lacks records of 1 partition"
    assert here.node.opened == []
    here.stores.held["c3"] = {ORDERS: 4}
    here.look(after_ms=700)
    assert (here.node.opened, here.steering.switches, here.steering.waits_for) == (["c3"], 1, "")
    here.look(after_ms=50)
    assert (here.steering.state, here.steering.stall_ms) == ("serving", 750)


def test_a_cluster_that_does_not_answer_has_nothing(here):
    here.look()
    here.steering.handle(Retarget("c3"))
    here.node.sent, here.stores.held = {}, {"c2": {}, "c3": None}
    here.look()
    assert here.steering.waits_for == "c3 does not answer"
    assert here.node.opened == []


def test_a_barrier_that_is_not_met_in_time_is_given_up():
    here = Steered(drain_ms_max=1_000)
    here.look()
    here.steering.handle(Retarget("c3"))
    here.look(after_ms=1_000)
    assert (here.node.opened, here.steering.switches) == (["c2"], 0)
    here.look()
    assert (here.steering.state, here.steering.stall_ms) == ("serving", 1_000)


def test_a_paused_link_says_when_what_it_sent_is_everywhere(here):
    here.look()
    here.steering.handle(Pause())
    assert here.steering.state == "paused"
    here.node.sent = {ORDERS: 1}
    here.look()
    assert here.steering.state == "paused"
    here.stores.held = {"c2": {ORDERS: 0}, "c3": {ORDERS: 0}}
    here.look()
    assert here.steering.state == "drained"
    asked = len(here.stores.asked)
    here.look()
    assert len(here.stores.asked) == asked, "that does not change any more"


def test_a_target_that_relays_nothing_to_another_is_left(caplog):
    here = Steered(failover_after_ms=5_000)
    for second in range(6):
        assert here.node.opened == []
        here.stores.held = {"c2": {ORDERS: second}, "c3": {ORDERS: 0}}
        here.look(after_ms=PROBE_INTERVAL_MS)
    assert here.node.opened == ["c3"]
    assert "target was left, it relays nothing to another" in caplog.text
    here.now_ms += 7_000
    assert here.steering.left == ("c2", "c3", 7_000)
    here.now_ms += REST * 5_000
    assert here.steering.left is None, "it may be mended by now"


def test_a_target_that_was_left_and_is_served_again_is_not_told_of():
    here = Steered(failover_after_ms=5_000)
    for second in range(6):
        here.stores.held = {"c2": {ORDERS: second}, "c3": {ORDERS: 0}}
        here.look(after_ms=PROBE_INTERVAL_MS)
    assert here.steering.left
    here.steering.handle(Retarget("c2"))
    here.node.sent = {}
    here.look(after_ms=PROBE_INTERVAL_MS)
    assert here.steering.aim.current == "c2"
    assert here.steering.left is None


class Relayed(FakeStores):
    """Records that come to c2 all the time, and on to c3 until that ends.

    Args:
        end_ms: When nothing is relayed any more.
    """

    def __init__(self, end_ms):
        super().__init__()
        self._end_ms = end_ms
        self._answer_ms = cycle((40, 20, 3, 1, 25))
        self.here = None
        """Whose clock answers put forward: the one takes longer than the other."""

    def is_well(self, name):
        self.here.now_ms += next(self._answer_ms)
        return super().is_well(name)

    def carried(self, name):
        now_ms = self.here.now_ms
        return {ORDERS: (now_ms if name == "c2" else min(now_ms, self._end_ms)) // 20}


@pytest.mark.parametrize("end_ms", range(9_000, 11_000, 130))
def test_a_relay_that_ends_is_noticed_with_the_next_look_and_left_when_patience_is(end_ms):
    here = Steered(Relayed(end_ms), failover_after_ms=5_000)
    here.stores.here = here
    while not here.node.opened and here.now_ms < 60_000:
        here.look(after_ms=here.steering.wait_ms())
    noticed_ms = PROBE_INTERVAL_MS + 100
    assert 4_900 < here.now_ms - end_ms < 5_000 + noticed_ms + PROBE_AGAIN_MS


def test_a_target_that_takes_nothing_is_left_when_patience_is_over_and_not_a_second_later():
    here = Steered(failover_after_ms=5_000)
    here.look()
    while not here.node.opened and here.now_ms < 60_000:
        here.node.stuck_ms = here.now_ms - 700
        here.look(after_ms=here.steering.wait_ms())
    assert here.now_ms - 700 <= 5_000 + PROBE_AGAIN_MS + BARRIER_INTERVAL_MS


def test_where_there_is_nowhere_to_go_targets_are_looked_at_as_ever():
    here = Steered(failover_after_ms=2_000)
    here.stores.held = {"c2": None, "c3": None}
    for _ in range(5):
        here.look(after_ms=1_000)
    assert here.steering._probe_due_ms - here.now_ms == PROBE_INTERVAL_MS


def test_who_is_gone_is_not_asked_for_a_sign_of_life(here):
    asked = []
    here.stores.is_well = lambda name: bool(asked.append(name))
    here.stores.gone = {"c3"}
    here.look()
    here.look(after_ms=1_000)
    assert asked == ["c2", "c3", "c2"]


def test_a_silent_target_is_left_for_one_that_answers():
    here = Steered(failover_after_ms=2_500)
    here.look()
    here.stores.held["c2"] = None
    for _ in range(3):
        here.look(after_ms=1_000)
        if not here.node.opened:
            assert here.steering.state == "silent"
    assert here.node.opened == ["c3"]
    here.node.lacks = "no node heard of c3"
    here.look(after_ms=10)
    assert here.steering.stall_ms == -1


@pytest.mark.parametrize("alive", [0, 1, 2])
def test_stores_are_gone_where_none_of_them_is_there(alive):
    queries = ("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")
    specs = [StoreSpec(query=query, data="d") for query in queries]
    cluster = ClusterSpec(name="c2", id=2, stores=tuple(specs))
    topology = SimpleNamespace(cluster={"c2": cluster}.get, carries=None)
    stores = ClusterStores(topology, LINK, refuses=lambda query: query in queries[alive:])
    assert stores.are_gone("c2") == (alive == 0)


def test_a_target_of_which_no_store_is_there_is_left_sooner():
    here = Steered(failover_after_ms=5_000)
    here.look()
    here.stores.held["c2"], here.stores.gone = None, {"c2"}
    for _ in range(3):
        assert here.node.opened == []
        here.look(after_ms=1_000)
    assert here.node.opened == ["c3"]


def test_a_target_that_answers_and_takes_nothing_is_left_and_told_of():
    here = Steered(failover_after_ms=5_000)
    here.look()
    here.node.stuck_ms = 4_999
    here.look(after_ms=1_000)
    assert here.steering.state == "stuck"
    assert here.steering.waits_for == "c2 has acknowledged nothing for 4 s"
    here.node.lacks = "no node heard of c2"
    assert here.steering.waits_for == "no node heard of c2"
    here.node.stuck_ms = 5_000
    here.look(after_ms=1_000)
    assert here.node.opened == ["c3"]
    here.node.stuck_ms = 0
    assert (here.steering.state, here.steering.waits_for) == ("serving", "")


def test_a_target_that_is_far_too_slow_is_left_like_one_that_takes_nothing():
    here = Steered(failover_after_ms=5_000)
    here.node.stuck_ms, here.node.late_ms = 100, 19_999
    here.look()
    assert here.steering.state == "stuck"
    assert here.steering.waits_for == "c2 acknowledges what was sent 19 s ago"
    here.node.late_ms = 20_000
    here.look(after_ms=1_000)
    assert here.node.opened == ["c3"]


def test_targets_are_looked_at_once_a_second_and_a_barrier_more_often(here):
    assert here.steering.wait_ms() == 0
    here.look()
    assert here.steering.wait_ms() == BARRIER_INTERVAL_MS
    here.now_ms += 900
    assert here.steering.wait_ms() == 100
