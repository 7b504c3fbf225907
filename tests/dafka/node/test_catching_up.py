"""A store with a new disk beside the others, which are in memory."""

from __future__ import annotations

from dafka.errors import QueryError
from dafka.model import Partition
from dafka.node.catching_up import LATE_MS, CatchingUp
from dafka.query.messages import HealthResponse

ORDERS, OTHER = Partition("orders", "A"), Partition("other", "A")


class Port:
    """The query port of a store, by what it keeps."""

    def __init__(self, kept, identity="S0"):
        self.kept, self.identity = kept, identity
        self.caught_up = self.away = False
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def health(self):
        return HealthResponse(self.identity, 0, 0)

    def ranges(self, topic):
        self.asked.append(topic)
        if self.away:
            raise QueryError("no answer")
        return {place: there for place, there in self.kept.items() if place.topic == topic}

    def catch_up(self):
        self.caught_up = True


def catching_up(**others):
    return CatchingUp(list(others), None, lambda endpoint, *_: others[endpoint])


def look(following, new, identity="S0", now_ms=0):
    found = following.look(new, identity, ["orders"], now_ms)
    assert found is new.caught_up
    return found


def test_it_has_caught_up_once_it_has_had_all_of_each_of_the_others():
    new = Port({ORDERS: range(3)})
    a, b = Port({ORDERS: range(3), OTHER: range(9)}), Port({ORDERS: range(5)})
    following = catching_up(a=a, b=b)
    assert not look(following, new)
    new.kept[ORDERS] = range(5)
    a.kept[ORDERS] = range(7)
    assert look(following, new), "of the first it had all before"


def test_it_asks_no_further_than_what_is_lacking():
    new, other = Port({}), Port({ORDERS: range(3), OTHER: range(3)})
    following = catching_up(a=other)
    assert not following.look(new, "S0", ["orders", "other"], 0)
    assert (new.asked, other.asked) == (["orders"], ["orders"])
    new.kept = {ORDERS: range(3), OTHER: range(3)}
    assert following.look(new, "S0", ["orders", "other"], 0)


def test_who_is_away_is_waited_for():
    new, other = Port({}), Port({ORDERS: range(4, 4)})
    other.away = True
    following = catching_up(a=other)
    assert not look(following, new)
    other.away = False
    assert look(following, new), "there is nothing to have"


def test_another_new_disk_begins_from_nothing():
    a, b = Port({ORDERS: range(3)}), Port({ORDERS: range(5)})
    following = catching_up(a=a, b=b)
    assert not look(following, Port({ORDERS: range(3)}))
    a.kept[ORDERS] = range(6)
    assert not look(following, Port({ORDERS: range(5)}, "S1"), "S1")
    assert not following.look(Port({ORDERS: range(9)}, "S2"), "S1", ["orders"], 0)


def test_a_store_alone_has_all_there_is():
    assert look(catching_up(), Port({}))


def test_that_it_takes_long_is_said_once_with_what_to_do(caplog):
    a, b = Port({}), Port({ORDERS: range(3)})
    b.away = True
    following, new = catching_up(a=a, b=b), Port({})
    for now_ms in (5, LATE_MS + 4):
        assert not look(following, new, now_ms=now_ms)
    assert not caplog.records
    for now_ms in (LATE_MS + 5, 2 * LATE_MS + 5):
        assert not look(following, new, now_ms=now_ms)
    (warned,) = caplog.records
    assert (warned.address, warned.others) == ("S0", ["b"])
    assert "start those that are away" in warned.message
    assert not look(following, Port({}, "S1"), "S1", 3 * LATE_MS)
    assert not look(following, Port({}, "S1"), "S1", 4 * LATE_MS)
    assert len(caplog.records) == 2, "of another disk it is said again"
