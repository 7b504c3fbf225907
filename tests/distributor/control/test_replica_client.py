"""A controller's machine over gRPC, with a replica at the other end of the network."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest
import trustme

from distributor.control.certificates import Certificates
from distributor.control.controller import ControllerMachine, ControllerState
from distributor.control.events import PeekAnswered, SessionEnd, SessionSettings, Superseded
from distributor.control.messages import (
    AllowWrites,
    CreateInstance,
    FlowStatus,
    Peek,
    Positions,
    Schedule,
)
from distributor.control.replica_client import ReplicaClient
from distributor.control.replica_server import ReplicaServer
from distributor.link.progress import LinkProgress
from tests.support.control_commands import COMPLETE, A, create
from tests.support.control_sessions import INSTANCE, Works

pytestmark = pytest.mark.net

WINDOW = create(1), Schedule(1), AllowWrites(1, 3)
PATIENT = SessionSettings(retry_ms_max=200)
HASTY = SessionSettings(ping_ms=100, silence_ms=600, stall_ms=60_000, retry_ms_max=200)


class Driver:
    """A client in a loop of its own."""

    def __init__(self):
        self.told = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client = None

    def do(self, action):
        async def act():
            found = action()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(120)

    def begin(self, port, *, epoch=1, certificates=None, instance=INSTANCE, replica="r1"):
        settings = HASTY if replica == "r1" else PATIENT
        machine = ControllerMachine("c1", epoch, replica, settings)
        address = f"localhost:{port}"

        def made():
            return ReplicaClient(machine, address, self.told.append, lambda: None, certificates)

        self.client = self.do(made)
        self.do(lambda: self.client.want(instance, *WINDOW, COMPLETE))
        return self.client

    def close(self):
        if self.client is not None:
            self.do(self.client.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


@pytest.fixture
def driver():
    one = Driver()
    yield one
    one.close()


@pytest.fixture
def works():
    return Works()


@contextmanager
def serving(works, port=0, **given):
    replica = ReplicaServer("r1", INSTANCE, f"127.0.0.1:{port}", works, **given)
    try:
        yield replica
    finally:
        replica.close()


def writes(client):
    flow = client.machine.reports.flows.get(1)
    active = client.machine.state is ControllerState.ACTIVE
    return active and flow is not None and flow.status is FlowStatus.WRITING


def test_what_is_wanted_comes_to_be_and_is_heard(driver, works, until):
    with serving(works) as replica:
        client = driver.begin(replica.port)
        until(lambda: writes(client))
        works.last.progress = LinkProgress({A: 5}, {A: 5}, {A: 5})
        driver.do(lambda: client.want(Peek(1, 1, {A: 5})))
        until(lambda: driver.told == [PeekAnswered(1, Positions({A: 5}))])
        assert client.machine.reports.flows[1].output == {A: 5}


def test_it_connects_again_and_disturbs_nothing(driver, works, until, free_ports):
    port = free_ports(1)
    client = driver.begin(port)
    until(lambda: client.machine._stream > 3)  # nobody listens, and that is known at once
    with serving(works, port):
        until(lambda: writes(client))
    until(lambda: client.machine.state is not ControllerState.ACTIVE)
    with serving(works, port):
        until(lambda: writes(client))
    assert [one.closed for one in works.opened] == [True, True]


def test_an_older_one_is_told_and_stops(driver, works, until):
    with serving(works) as replica:
        newer = Driver()
        try:
            client = newer.begin(replica.port, epoch=5)
            until(lambda: writes(client))
            driver.begin(replica.port, epoch=4)
            until(lambda: driver.told == [Superseded(5)])
            assert driver.client.machine.state is ControllerState.STOPPED
            assert writes(client)
        finally:
            newer.close()


def test_a_replica_that_stands_still_is_given_up(driver, works, until, monkeypatch, caplog):
    with serving(works) as replica:
        client = driver.begin(replica.port)
        until(lambda: writes(client))
        going = threading.Event()
        replica._loop.call_soon_threadsafe(going.wait)
        until(lambda: "session with a replica is ended" in caplog.text)
        going.set()
        until(lambda: writes(client))
        assert len(works.opened) == 1


def test_one_for_another_instance_is_left(driver, works, until, caplog):
    with serving(works) as replica:
        driver.begin(replica.port, instance=CreateInstance("south", 8))
        until(lambda: "replica has ended a session" in caplog.text)


def test_what_is_tried_again_in_vain_is_said_once(driver, works, until, caplog):
    with serving(works) as replica:
        client = driver.begin(replica.port, replica="r9")
        until(lambda: client.last_end is SessionEnd.WRONG_REPLICA)
        until(lambda: client.machine._stream > 4)
    said = [one for one in caplog.records if one.message == "replica has ended a session"]
    assert [one.why for one in said] == ["wrong replica"]


def test_who_hangs_up_hears_nothing_more(driver, works, until):
    with serving(works) as replica:
        client = driver.begin(replica.port)
        until(lambda: writes(client))
        driver.do(client.close)
        before = client.machine.state
        driver.do(lambda: client.want(Peek(1, 1, {})))
        assert client.machine.state is before
        assert client.machine.history.peeks == {}


def test_a_machine_that_breaks_its_rules_is_complained_of(driver, works, until, monkeypatch):
    def break_it(*_):
        raise AssertionError("broken")

    with serving(works) as replica:
        client = driver.begin(replica.port)
        until(lambda: writes(client))
        monkeypatch.setattr(client.machine, "handle", break_it)
        until(lambda: client.failure is not None)


def test_both_sides_show_certificates(driver, works, until):
    authority = trustme.CA()

    def certificates(name):
        shown = authority.issue_cert(name)
        return Certificates(
            certificate=b"".join(one.bytes() for one in shown.cert_chain_pems),
            key=shown.private_key_pem.bytes(),
            authority=authority.cert_pem.bytes(),
        )

    with serving(works, certificates=certificates("localhost")) as replica:
        client = driver.begin(replica.port, certificates=certificates("controller"))
        until(lambda: writes(client))
