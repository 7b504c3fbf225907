"""What asks a controller: whom it asks next, and how it says that there is no answer."""

from __future__ import annotations

import pytest

from dafka.errors import MisuseError, QueryError
from distributor.control.demand_desk import DemandLostError
from distributor.control.operator_client import AGAIN_S, OperatorClient
from distributor.control.operator_desk import NotInChargeError
from distributor.control.operator_wire import RouteQuestion
from distributor.control.replica_server import ReplicaServer
from distributor.control.wire_values import NotUnderstoodError
from distributor.errors import CommandError, RefusedCommandError
from tests.support.control_sessions import INSTANCE, Works
from tests.support.operators import AIMED, ROUTE, FakeDesk, served

pytestmark = pytest.mark.net


def test_who_is_named_is_asked_next():
    ready, knows = FakeDesk(), FakeDesk()
    with served(knows) as there, served(ready) as place, OperatorClient(place) as client:
        ready.failure = NotInChargeError(there)
        assert client.explain("orders", None, 5) == [ROUTE]
        assert client.explain("orders", None, 5) == [ROUTE], "and stays the one that is asked"
    assert (len(ready.asked), len(knows.asked)) == (1, 2)
    assert knows.asked[0] == (RouteQuestion("orders"),)


def test_who_is_named_is_asked_though_time_is_up():
    ready, knows = FakeDesk(), FakeDesk()
    with served(knows) as there, served(ready) as place, OperatorClient(place) as client:
        ready.failure = NotInChargeError(there)
        assert client.wait(0) == knows.waited_for


def test_two_that_name_each_other_are_asked_until_time_is_up():
    one, other = FakeDesk(), FakeDesk()
    with served(one) as first, served(other) as second, OperatorClient(first) as client:
        one.failure, other.failure = NotInChargeError(second), NotInChargeError(first)
        with pytest.raises(RefusedCommandError, match="is not in charge: ask the one at"):
            client.wait(3 * AGAIN_S)
    assert 2 <= len(one.asked) <= 4, "and not in a loop"
    assert 2 <= len(other.asked) <= 4


class LaterDesk(FakeDesk):
    """A controller that fails so often at first."""

    def __init__(self, failure, times):
        super().__init__()
        self.failure, self.times = failure, times

    def _answer(self, *asked):
        if len(self.asked) == self.times:
            self.failure = None
        return super()._answer(*asked)


@pytest.mark.parametrize("failure", [NotInChargeError(""), DemandLostError("who knows")], ids=repr)
def test_a_demand_is_made_again_until_one_is_in_charge(failure):
    desk = LaterDesk(failure, 2)
    with served(desk) as place, OperatorClient(place) as client:
        assert client.retarget(3, "south", 10) == [AIMED]
    assert len(desk.asked) == 3


def test_holes_are_not_passed_again_where_it_is_not_known_whether_they_are():
    desk = LaterDesk(DemandLostError("who knows"), 1)
    with (
        served(desk) as place,
        OperatorClient(place) as client,
        pytest.raises(RefusedCommandError, match="who knows"),
    ):
        client.resume(3, "orders", 10)


def test_one_that_was_named_and_has_ended_is_waited_for(free_ports):
    desk = LaterDesk(NotInChargeError(f"127.0.0.1:{free_ports(1)}"), 2)
    with served(desk) as place, OperatorClient(place) as client:
        assert client.explain("orders", None, 10) == [ROUTE]


@pytest.mark.parametrize(
    ("failure", "raised", "said"),
    [
        (NotInChargeError(""), RefusedCommandError, "not in charge"),
        (NotUnderstoodError("what"), MisuseError, "was not understood: what"),
        (RefusedCommandError("no target"), MisuseError, "no target"),
        (DemandLostError("who knows"), RefusedCommandError, "who knows"),
        (QueryError("no store answers"), QueryError, "no answer from .*: no store answers"),
    ],
    ids=range(5),
)
def test_why_there_is_no_answer_is_said(failure, raised, said):
    desk = FakeDesk()
    desk.failure = failure
    with (
        served(desk) as place,
        OperatorClient(place) as client,
        pytest.raises(raised, match=said),
    ):
        client.wait(1)


def test_a_place_where_nobody_is_does_not_answer(free_ports):
    with (
        OperatorClient(f"127.0.0.1:{free_ports(1)}") as client,
        pytest.raises(QueryError, match="no answer from 127"),
    ):
        client.wait(0)


def test_who_is_no_controller_is_told_from_one():
    replica = ReplicaServer("r1", INSTANCE, "127.0.0.1:0", Works())
    try:
        with (
            OperatorClient(f"127.0.0.1:{replica.port}") as client,
            pytest.raises(CommandError, match="does not answer as a controller"),
        ):
            client.wait(1)
    finally:
        replica.close()
