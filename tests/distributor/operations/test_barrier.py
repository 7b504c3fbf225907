from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dafka.errors import QueryError
from distributor.control.questions import LeftFlowRow, Waited
from distributor.errors import CommandError
from distributor.operations.barrier import can_be_asked, wait_at_controllers
from distributor.verify.waiting import Awaited
from topology import load, plan

CONFIG = Path(__file__).parents[3] / "config"
NAMES = [f"cluster-{number}" for number in range(1, 5)]


@pytest.fixture
def the_plan():
    return plan(load(CONFIG / "controlled.yaml"))


class Controllers:
    """What controllers answer, in turn; all is there where nothing is left to say."""

    def __init__(self):
        self.asked = []
        self.answers = {}
        self._lock = threading.Lock()

    def __call__(self, place, timeout_s):
        with self._lock:
            self.asked.append(place)
            answers = self.answers.get(place)
            answer = answers.pop(0) if answers else Waited((), 1, 1)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def controllers():
    return Controllers()


@pytest.fixture
def places(the_plan):
    return [cluster.controllers[0].listen for cluster in the_plan.topology.clusters]


def left(target, lacks, why="writing"):
    return LeftFlowRow(7, target, 2, "0/1", lacks, why)


def test_all_are_asked_as_often_as_a_record_may_travel(the_plan, controllers, places):
    rounds = len({link.level for link in the_plan.links})
    seen = []
    found = wait_at_controllers(the_plan, 5, controllers, lambda *step: seen.append(step))
    assert found == [Awaited(name, 0) for name in NAMES]
    assert rounds > 1
    assert seen == [(number, rounds) for number in range(rounds)]
    for number in range(rounds):
        assert sorted(controllers.asked[4 * number : 4 * number + 4]) == places, "all, then again"


def test_what_is_missing_is_counted_where_it_lacks(the_plan, controllers, places):
    controllers.answers[places[0]] = [Waited((left("cluster-2", 3), left("cluster-3", 4)), 2, 2)]
    controllers.answers[places[3]] = [Waited((left("cluster-3", 5, ""),), 1, 1)]
    found = {one.cluster: one for one in wait_at_controllers(the_plan, 5, controllers)}
    assert found["cluster-1"] == Awaited("cluster-1", 0)
    assert found["cluster-2"] == Awaited("cluster-2", 3, "from cluster-1 at level 2: writing")
    why = "from cluster-1 at level 2: writing; from cluster-4 at level 2: unwritten"
    assert found["cluster-3"] == Awaited("cluster-3", 9, why)
    assert len(controllers.asked) == 4, "whoever lacks something passes nothing on"


def test_what_nobody_has_said_is_not_known(the_plan, controllers, places):
    controllers.answers[places[0]] = [Waited((left("cluster-2", None), left("cluster-2", 4)), 2, 2)]
    found = wait_at_controllers(the_plan, 5, controllers)
    assert found[1].lacks is None


def test_who_does_not_answer_is_asked_until_time_is_up(the_plan, controllers, places):
    controllers.answers[places[0]] = [QueryError("away"), CommandError("ask again")]
    assert wait_at_controllers(the_plan, 60, controllers)[0] == Awaited("cluster-1", 0)
    controllers.answers[places[1]] = [QueryError("away")]
    assert wait_at_controllers(the_plan, 0, controllers)[1] == Awaited("cluster-2", None, "away")


def test_another_controller_of_the_cluster_may_answer(the_plan, controllers, places):
    first, *others = the_plan.topology.clusters
    two = (replace(first.controllers[0], listen="127.0.0.1:1"), *first.controllers)
    topology = replace(the_plan.topology, clusters=(replace(first, controllers=two), *others))
    controllers.answers["127.0.0.1:1"] = [QueryError("away")] * 9
    assert wait_at_controllers(plan(topology), 0, controllers)[0] == Awaited("cluster-1", 0)


def test_who_can_be_asked(the_plan):
    assert can_be_asked(the_plan, shown=False)
    assert not can_be_asked(plan(load(CONFIG / "four-clusters.yaml")), shown=True)
    first, *others = the_plan.topology.clusters

    def with_first(listen, **keys):
        one = replace(first.controllers[0], listen=listen)
        changed = replace(first, controllers=(one,), **keys)
        return plan(replace(the_plan.topology, clusters=(changed, *others)))

    assert not can_be_asked(with_first(""), shown=True)
    far = with_first("host.example:7501")
    assert (can_be_asked(far, shown=False), can_be_asked(far, shown=True)) == (False, True)
    assert can_be_asked(with_first("host.example:7501", insecure=True), shown=False)
