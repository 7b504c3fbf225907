"""A controller's door for operators: who may come in, and how what is answered gets out."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import grpc
import pytest

from dafka.errors import MisuseError, QueryError
from dafka.process.authority import new_authority, new_certificate
from distributor.control import operator_wire as wire
from distributor.control.aims import LinkTurn
from distributor.control.certificates import Certificates
from distributor.control.demand_desk import DemandLostError
from distributor.control.demands import LevelPause
from distributor.control.operator_client import OperatorClient
from distributor.control.operator_desk import NotInChargeError
from distributor.control.operator_server import Operators, OperatorServer
from distributor.control.operator_wire import IN_CHARGE_KEY, RouteQuestion
from distributor.control.protocol import PassedOver
from distributor.control.resuming import ResumeOrder
from distributor.control.wait_desk import WaitFailedError
from distributor.errors import CommandError, RefusedCommandError
from tests.support.operators import AIMED, ROUTE, FakeDesk, served

pytestmark = pytest.mark.net


def asked(place, octets, method=wire.WAIT, timeout=20):
    """How a call ends: its code, its details, and where it says that one is in charge."""
    with grpc.insecure_channel(place) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"/{wire.SERVICE}/{method}")(octets, timeout=timeout)
    trailing = dict(caught.value.trailing_metadata() or ())
    return caught.value.code(), caught.value.details(), trailing.get(IN_CHARGE_KEY)


def test_questions_come_to_the_desk_and_answers_back():
    desk = FakeDesk()
    with served(desk) as place, OperatorClient(place) as client:
        assert client.wait(1.5) == desk.waited_for
        assert client.explain("orders", 3, 5) == [ROUTE]
        assert client.retarget(3, "south", 5) == [AIMED]
        assert client.pause(3, paused=True, timeout_s=5) == [AIMED]
        assert client.resume(3, "orders", 5) == PassedOver(2, 70)
    (asker, timeout_ms), (question,), *demanded = desk.asked
    assert demanded == [
        (LinkTurn(3, "south"),),
        (LevelPause(3, paused=True),),
        (ResumeOrder(3, "orders"),),
    ]
    assert (asker, timeout_ms) == ("ipv4:127.0.0.1", 1_500)
    assert question == RouteQuestion("orders", 3)
    assert desk.closed


@pytest.mark.parametrize(
    ("failure", "code", "place"),
    [
        (NotInChargeError("h:1"), grpc.StatusCode.FAILED_PRECONDITION, "h:1"),
        (NotInChargeError(""), grpc.StatusCode.FAILED_PRECONDITION, ""),
        (WaitFailedError("many wait", busy=True), grpc.StatusCode.RESOURCE_EXHAUSTED, None),
        (WaitFailedError("it has changed", busy=False), grpc.StatusCode.ABORTED, None),
        (QueryError("no store"), grpc.StatusCode.UNAVAILABLE, None),
        (DemandLostError("who knows"), grpc.StatusCode.ABORTED, None),
        (RefusedCommandError("no target"), grpc.StatusCode.OUT_OF_RANGE, None),
    ],
    ids=range(7),
)
def test_why_there_is_no_answer_is_said(failure, code, place):
    desk = FakeDesk()
    desk.failure = failure
    with served(desk) as at:
        assert asked(at, b"") == (code, str(failure), place)


def test_what_is_no_question_is_refused():
    with served(FakeDesk()) as place:
        code, said, _ = asked(place, b"\xff")
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "octets that are no message" in said


def test_who_goes_away_ends_what_is_done_for_him():
    desk = FakeDesk()
    desk.stands = asyncio.Event()
    with served(desk) as place, grpc.insecure_channel(place) as channel:
        call = channel.unary_unary(f"/{wire.SERVICE}/{wire.WAIT}").future(b"", timeout=60)
        deadline = threading.Event()
        for _ in range(200):
            if desk.asked:
                break
            deadline.wait(0.1)
        call.cancel()
        assert desk.gone.wait(60)


def test_who_does_not_want_to_wait_any_longer_ends_it_too():
    desk = FakeDesk()
    desk.stands = asyncio.Event()
    with served(desk) as place:
        assert asked(place, b"", timeout=0.3)[0] is grpc.StatusCode.DEADLINE_EXCEEDED
        assert desk.gone.wait(60)


def test_where_it_cannot_listen_that_is_said():
    async def start():
        await OperatorServer("nowhere.invalid:1", FakeDesk()).start()

    with pytest.raises(MisuseError, match=r"cannot serve operators at nowhere\.invalid:1"):
        asyncio.run(start())


def test_where_others_reach_it_is_known_unless_it_is_every_host():
    assert Operators("h:1", None, None).place == "h:1"
    assert Operators("0.0.0.0:1", None, None).place == ""


@pytest.fixture(scope="module")
def shown():
    """What holders of roles show, of one authority, and of a stranger's."""
    now = datetime.now(UTC)
    authority, strange = new_authority(now), new_authority(now)
    found = {}
    for role in ("controller", "replica", "operator", "viewer"):
        made = new_certificate(authority, role, ["127.0.0.1"], now)
        pems = made.certificate, made.key, authority.certificate
        found[role] = Certificates(*(one.encode() for one in pems))
    made = new_certificate(strange, "operator", [], now)
    pems = made.certificate, made.key, authority.certificate
    found["stranger"] = Certificates(*(one.encode() for one in pems))
    return found


@pytest.mark.parametrize("role", ["operator", "viewer"])
def test_who_looks_is_let_in(shown, role):
    desk = FakeDesk()
    with (
        served(desk, shown["controller"]) as place,
        OperatorClient(place, shown[role]) as client,
    ):
        assert client.wait(1) == desk.waited_for


def test_who_only_looks_commands_nothing(shown):
    desk = FakeDesk()
    with served(desk, shown["controller"]) as place:
        with (
            OperatorClient(place, shown["viewer"]) as client,
            pytest.raises(RefusedCommandError, match="a certificate of a viewer may not"),
        ):
            client.retarget(3, "south", 5)
        assert desk.asked == []
        with OperatorClient(place, shown["operator"]) as client:
            assert client.retarget(3, "south", 5) == [AIMED]


def test_who_has_another_role_is_not(shown):
    desk = FakeDesk()
    with (
        served(desk, shown["controller"]) as place,
        OperatorClient(place, shown["controller"]) as client,
        pytest.raises(RefusedCommandError, match="a certificate of a controller may not"),
    ):
        client.wait(1)
    assert desk.asked == []


@pytest.mark.parametrize("role", ["stranger", None])
def test_who_shows_nothing_that_is_believed_is_not(shown, role):
    desk = FakeDesk()
    with (
        served(desk, shown["controller"]) as place,
        OperatorClient(place, shown.get(role)) as client,
        pytest.raises((QueryError, CommandError)),
    ):
        client.wait(0)
    assert desk.asked == []


def test_who_serves_has_to_be_a_controller(shown):
    """One who only connects may not pass for it: its certificate is of another use."""
    desk = FakeDesk()
    with (
        served(desk, shown["viewer"]) as place,
        OperatorClient(place, shown["operator"]) as client,
        pytest.raises((QueryError, CommandError)),
    ):
        client.wait(0)
    assert desk.asked == []
