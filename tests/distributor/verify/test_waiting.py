from __future__ import annotations

from types import SimpleNamespace

import pytest

from dafka.model import Partition
from distributor.survey import Holding
from distributor.verify.waiting import Awaited, wait

ORDERS, LOCAL = Partition("orders", "A"), Partition("local", "A")
TOPOLOGY = SimpleNamespace(wants=lambda topic, cluster: topic != "local" or cluster == "c1")


def holding(cluster, **heads):
    return Holding(cluster, "tcp://store", {ORDERS: heads.get("orders", -1)})


AWAY = Holding("c2", None, {}, "no answer")


@pytest.fixture
def looks():
    """A function of what clusters say at each look; what they said last they say from then on."""

    def looks(*said):
        left = list(said)
        return lambda _: left.pop(0) if len(left) > 1 else left[0]

    return looks


def test_it_ends_as_soon_as_all_is_everywhere(looks):
    seen = []
    look = looks(
        [holding("c1", orders=9), holding("c2", orders=4)],
        [holding("c1", orders=20), holding("c2", orders=7)],
        [holding("c1", orders=20), holding("c2", orders=9)],
    )
    found = wait(TOPOLOGY, 60, lambda *step: seen.append(step), look)
    assert found == [Awaited("c1", 0), Awaited("c2", 0)]
    assert seen == [(0, 5), (3, 5), (5, 5)]


def test_what_is_missing_when_time_is_up_is_counted(looks):
    look = looks([holding("c1", orders=9), holding("c2")])
    assert wait(TOPOLOGY, 0, look=look) == [Awaited("c1", 0), Awaited("c2", 10)]


def test_a_cluster_that_does_not_answer_may_have_what_nobody_else_has(looks):
    look = looks(
        [holding("c1", orders=9), AWAY],
        [holding("c1", orders=9), holding("c2", orders=12)],
        [holding("c1", orders=12), holding("c2", orders=30)],
    )
    assert wait(TOPOLOGY, 60, look=look) == [Awaited("c1", 0), Awaited("c2", 0)]
    silent = looks([holding("c1", orders=9), AWAY])
    assert wait(TOPOLOGY, 0, look=silent)[1] == Awaited("c2", None, "no answer")


def test_what_is_not_for_a_cluster_is_not_waited_for(looks):
    first = Holding("c1", "tcp://store", {LOCAL: 5})
    assert wait(TOPOLOGY, 60, look=looks([first, holding("c2")]))[1].lacks == 0
