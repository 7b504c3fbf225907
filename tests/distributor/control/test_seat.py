"""Who is in charge: the oldest, from when all agree, and until it has no lease."""

from __future__ import annotations

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.groups.commit import CONTROLLERS, checked_consumers
from dafka.groups.events import Assigned, Expelled, Rebalanced, Released
from dafka.protocol.events import Woke
from distributor.control import seat as module
from distributor.control.seat import Office, Seat, SeatFailedError, eldest

OLD, NEW = "FF@000000000000001.1", "AA@000000000000002.1"


class ScriptedMember:
    """A member that says what it is told to, once it is woken."""

    def __init__(self):
        self.effects = []
        self.released = []

    def handle(self, event, now_ms):
        if isinstance(event, Released):
            self.released.append(event.generation)
            return []
        effects, self.effects = self.effects, []
        return effects

    def wakeup_ms(self):
        return 7


class Bench:
    def __init__(self):
        self.member, self.told = ScriptedMember(), []
        self.office = Office(self.member, self.told.append, lambda: self.told.append(None))

    def hear(self, *effects):
        self.member.effects = [*effects]
        return self.office.handle(Woke(), 0)


def assigned(generation, *members, own=OLD):
    return Assigned(own, generation, dict.fromkeys(members))


def test_the_oldest_is_who_began_first():
    assert eldest([NEW, OLD]) == OLD
    assert eldest([OLD.replace(".1", ".2"), NEW]) == OLD.replace(".1", ".2")


def test_the_oldest_is_in_charge_once_all_have_given_up_what_was():
    bench = Bench()
    bench.hear(assigned(3, OLD, NEW))
    assert (bench.told, bench.member.released) == ([], [3])
    bench.hear(Rebalanced(3))
    assert bench.told == [3]
    assert bench.office.in_charge
    bench.hear(assigned(4, OLD), Rebalanced(4))
    assert bench.told == [3], "it is in charge all the while"
    bench.hear(Expelled())
    assert bench.told == [3, None]
    bench.hear(assigned(5, OLD), Rebalanced(5))
    assert bench.told == [3, None, 5]
    assert bench.office.wakeup_ms() == 7


def test_another_one_is_not_and_gives_up_what_it_had():
    bench = Bench()
    bench.hear(assigned(3, NEW, own=NEW), Rebalanced(3))
    bench.hear(assigned(4, OLD, NEW, own=NEW))
    assert bench.told == [3, None]
    bench.hear(Rebalanced(4))
    assert bench.told == [3, None]
    bench.office.stand_down()
    assert bench.told == [3, None]


def test_no_consumer_takes_a_seat():
    with pytest.raises(MisuseError, match="that of the cluster's controllers"):
        checked_consumers(CONTROLLERS)


@pytest.fixture
def seats(pair):
    """A function that takes a seat at the first cluster; what it was told."""
    taken = []
    cluster = Cluster.declared(pair.topology.clusters[0])

    def take(began):
        told = []
        name = f"{cluster.new_address()}@{began:015}"
        taken.append(Seat(cluster, name, told.append, lambda: told.append(None)))
        return taken[-1], told

    yield take
    for seat in taken:
        seat.close()


@pytest.mark.net
def test_of_two_one_is_in_charge_and_the_other_when_it_is_gone(pair, seats, until):
    with pair.running(1):
        first, heard = seats(1)
        until(lambda: heard)
        second, others = seats(2)
        assert not first.join(0)
        first.close()
        until(lambda: others)
        assert heard[-1] is None
        assert others[0] > heard[0]
        assert second.in_charge
        assert first.join(1)


@pytest.mark.net
def test_what_must_not_be_is_complained_of(pair, seats, until, monkeypatch):
    def break_it(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(module.Office, "handle", break_it)
    seat, _ = seats(1)

    def complains():
        try:
            return seat.join(0.1)
        except SeatFailedError as error:
            return "broken" in str(error)

    until(complains)
