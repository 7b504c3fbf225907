"""What is said to who waits for a cluster that is not there."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace

import pytest

from dafka.cluster import Cluster
from dafka.errors import ConnectionWarning, MisuseError, UnreachableError
from dafka.node.search import Search

TOWERS = ("tcp://a:1", "tcp://b:1")


class Scene:
    """A search whose time passes as it is waited, and what is known of its cluster."""

    def __init__(self, connect_timeout=None, **cluster):
        self.now_s = 100.0
        self.away = frozenset()
        self.others = 0
        self.steps = []
        clock = SimpleNamespace(seconds=lambda: self.now_s)
        self.search = Search(
            Cluster(TOWERS, **cluster),
            lambda: self.away,
            lambda: self.others,
            connect_timeout,
            clock,
        )

    def waited(self, seconds):
        self.steps.append(seconds)
        self.now_s += min(seconds, 3_600)
        if self.now_s >= 102:
            self.away = frozenset(TOWERS)

    def wait(self, timeout):
        return self.search.wait(self.waited, timeout)


def told(scene, timeout):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        scene.wait(timeout)
    return [(one.category, str(one.message)) for one in found]


def test_who_waits_for_less_than_two_seconds_hears_nothing():
    assert told(Scene(), 1.9) == []


def test_after_two_seconds_the_towers_that_are_not_heard_are_named_once():
    ((category, text),) = told(Scene(), 60)
    assert category is ConnectionWarning
    assert text == (
        "cannot reach the cluster for 2 s, it is tried on: nothing answers of the tower at "
        "tcp://a:1 and at tcp://b:1; is it started, and are endpoint, wire and keys right?"
    )


def test_a_cluster_with_a_name_is_called_by_it():
    ((_, text),) = told(Scene(name="lab"), 3)
    assert text.startswith("cannot reach cluster 'lab' for 2 s, it is tried on: nothing")


def test_a_warning_points_at_who_has_called():
    with pytest.warns(ConnectionWarning) as found:
        Scene().wait(3)
    assert found[0].filename == __file__


def test_where_one_tower_is_heard_it_takes_longer_to_say_that_there_is_nobody():
    scene = Scene()
    scene.waited = lambda seconds: setattr(scene, "now_s", scene.now_s + seconds)
    assert told(scene, 4.9) == []
    ((_, text),) = told(scene, 60)
    assert "no other node is found through the tower at tcp://a:1 and at tcp://b:1; is" in text


def test_once_another_node_is_found_nothing_is_said_and_waiting_is_one_step():
    scene = Scene(connect_timeout=1)
    scene.others = 1
    assert told(scene, 60) == []
    assert scene.search.found
    scene.others, scene.steps = 0, []
    assert told(scene, 60) == []
    assert scene.steps == [60]


def test_what_is_found_is_returned_at_once():
    assert Scene().search.wait(lambda seconds: "found", math.inf) == "found"


def test_who_does_not_wait_is_asked_once():
    scene = Scene()
    assert scene.wait(0) is None
    assert scene.steps == [0]


def test_after_connect_timeout_waiting_is_an_error_also_without_end():
    scene = Scene(connect_timeout=1.5)
    with pytest.raises(UnreachableError, match=r"within 1\.5 s: .* the tower at tcp://a:1"):
        scene.wait(math.inf)
    assert scene.now_s == 101.5
    with pytest.raises(UnreachableError):
        scene.search.check()
    assert UnreachableError.retriable


def test_who_needs_towers_only_is_told_that_none_is_heard():
    scene = Scene()
    scene.search.check_towers()
    scene.away = frozenset(TOWERS[:1])
    scene.search.check_towers()
    scene.away, scene.now_s = frozenset(TOWERS), 103.0
    with pytest.raises(UnreachableError, match=r"within 3 s: nothing answers of the tower at"):
        scene.search.check_towers()


def test_a_warning_says_when_that_will_be():
    with pytest.warns(ConnectionWarning, match="it is tried on, 30 s in all"):
        Scene(connect_timeout=30).wait(3)


@pytest.mark.parametrize("timeout", [0, -1, math.nan])
def test_a_connect_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(MisuseError, match="connect_timeout must be more than 0"):
        Scene(connect_timeout=timeout)


def test_states():
    scene = Scene()
    assert scene.search.state(closed=False, failed=False) == "not connected"
    scene.others = 2
    assert scene.search.state(closed=False, failed=False) == "connected"
    assert scene.search.state(closed=True, failed=False) == "closed"
    assert scene.search.state(closed=True, failed=True) == "failed"
