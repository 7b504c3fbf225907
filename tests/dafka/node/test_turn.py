"""The turn by itself: no thread, no socket, a clock that stands where it is put."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from dafka.model import Partition
from dafka.node.turn import Turn
from dafka.process.clock import Clock
from dafka.protocol.effects import Dropped, Listen, Lost, Publish, Unlisten
from dafka.protocol.events import Received, TurnEnded, Woke
from dafka.protocol.presence import Disconnect, Refused, TowerAway, TowerBack
from dafka.wire import messages
from dafka.wire.dialect import Company
from dafka.wire.messages import MessageId

HEAD = messages.Head("orders", "AB" * 16, 7)


class FakeMesh:
    """A mesh that writes down what it is asked for."""

    def __init__(self):
        self.did = []
        self.due_ms = None
        self.notices = []
        self.refuses = None
        self.peers = 2

    def publish(self, message):
        self.did.append(message)
        return self.refuses

    def flush(self):
        self.did.append("flush")

    def listen(self, message_id, key):
        self.did.append(("listen", message_id, key))

    def unlisten(self, message_id, key):
        self.did.append(("unlisten", message_id, key))

    def wake(self, now_ms):
        self.did.append(("wake", now_ms))
        return self.notices

    def wakeup_ms(self):
        return self.due_ms

    def close(self, linger_ms):
        self.did.append(("close", linger_ms))


class FakeRole:
    """A role that answers events with what it was given for them."""

    name = "fake"

    def __init__(self, **answers):
        self.answers = answers
        self.events = []
        self.performed = []
        self.due_ms = None

    def handle(self, side, event, now_ms):
        self.events.append((side, event, now_ms))
        return [(side, effect) for effect in self.answers.get(event, ())] if event in NAMES else []

    def wakeup_ms(self):
        return self.due_ms

    def perform(self, side, effect):
        self.performed.append((side, effect))
        return "done" if effect == "do" else None

    def pollable(self):
        return {}

    def close(self):
        self.performed.append("closed")


NAMES = {"say", "listen", "do", "done", "drop", "lose"}


class Running:
    """A turn in two meshes."""

    def __init__(self, **answers):
        self.now_ms = 5
        self.woken = 0
        self.role = FakeRole(**answers)
        self.meshes = {"near": FakeMesh(), "far": FakeMesh()}
        clock = Clock(now_ms=lambda: self.now_ms)
        self.turn = Turn(self.role, "ME", self.meshes, clock, self.wake)
        self.turn.begin()
        self.role.events.clear()
        for mesh in self.meshes.values():
            mesh.did.clear()

    def wake(self):
        self.woken += 1

    def kinds(self):
        return [event for _, event, _ in self.role.events]


@pytest.fixture
def run():
    """A function that makes a turn which is closed at the end."""
    runs = []

    def run(**answers):
        runs.append(Running(**answers))
        return runs[-1]

    yield run
    for one in runs:
        one.turn.close(0)


def dropped(reason):
    labels = {"role": "fake", "reason": reason}
    return REGISTRY.get_sample_value("dafka_dropped_total", labels) or 0.0


def test_a_turn_is_what_arrived_then_what_was_posted_then_its_end(run):
    here = run()
    here.turn.post("far", "posted")
    assert here.woken == 1
    here.turn.take("near", [Received(HEAD)])
    here.turn.end(woken=False)
    assert here.role.events == [
        ("near", Received(HEAD), 5),
        ("far", "posted", 5),
        ("near", TurnEnded(), 5),
    ]
    assert [mesh.did for mesh in here.meshes.values()] == [["flush"], ["flush"]]


def test_effects_go_to_the_mesh_of_their_side_at_once(run):
    listen, unlisten = Listen(MessageId.HEAD, ""), Unlisten(MessageId.HEAD, "")
    here = run(say=[Publish(HEAD)], listen=[listen, unlisten])
    here.turn.feed("far", "say")
    here.turn.feed("near", "listen")
    assert here.meshes["far"].did == [HEAD]
    assert here.meshes["near"].did == [
        ("listen", MessageId.HEAD, ""),
        ("unlisten", MessageId.HEAD, ""),
    ]


def test_what_completes_an_effect_is_fed_before_anything_else(run):
    here = run(do=["do"], done=[Publish(HEAD)])
    here.turn.complete([("far", "do"), ("near", "next")])
    assert here.kinds() == ["do", "done", "next"]
    assert here.meshes["far"].did == [HEAD]


def test_whoever_is_due_is_woken_and_nobody_else(run):
    here = run()
    here.role.due_ms, here.meshes["far"].due_ms = 10, 20
    assert here.turn.due_ms() == 10
    here.turn.end(woken=False)
    assert Woke() not in here.kinds()
    here.now_ms = 10
    here.turn.end(woken=False)
    assert here.kinds().count(Woke()) == 1
    here.role.due_ms = None
    assert here.turn.due_ms() == 20
    here.now_ms = 20
    here.turn.end(woken=False)
    assert here.kinds().count(Woke()) == 1
    assert ("wake", 20) in here.meshes["far"].did
    assert ("wake", 20) not in here.meshes["near"].did


def test_who_wakes_it_may_have_made_something_due(run):
    here = run()
    assert here.turn.due_ms() is None
    here.role.due_ms = 5
    here.turn.end(woken=False)
    assert Woke() not in here.kinds()
    here.turn.end(woken=True)
    assert Woke() in here.kinds()


def test_what_is_dropped_or_lost_is_counted_and_not_the_roles(run):
    lost = Lost(Partition("orders", "AB" * 16), 3, 5)
    here = run(drop=[Dropped("useless")], lose=[lost], say=[Publish(HEAD)])
    before = dropped("useless")
    here.turn.feed("near", "drop")
    here.meshes["near"].refuses = Dropped("useless")
    here.turn.feed("near", "say")
    here.turn.take("near", [Dropped("useless"), Disconnect("tcp://h:1")])
    assert dropped("useless") == before + 3
    records = "dafka_lost_records_total"
    lost_before = REGISTRY.get_sample_value(records, {"role": "fake"}) or 0.0
    here.turn.feed("near", "lose")
    assert REGISTRY.get_sample_value(records, {"role": "fake"}) == lost_before + 2
    assert here.role.performed == []


def test_meshes_in_which_nobody_reads_are_told_of():
    here = Running()
    labels = {"role": "fake", "address": "ME"}

    def unread():
        return REGISTRY.get_sample_value("dafka_unread_meshes", labels)

    here.turn.take("near", [Company.OTHER])
    here.turn.take("far", [Company.ALIKE])
    assert unread() == 1
    here.turn.take("near", [Company.ALIKE])
    assert unread() == 0
    here.turn.close(200)
    assert unread() is None


def test_where_its_key_is_not_let_in_is_said_and_what_to_do(caplog):
    here = Running()
    here.turn.take("near", [Refused("tcp://t:1", 10_000)])
    (said,) = (one for one in caplog.records if "is not let in" in one.message)
    assert said.endpoint == "tcp://t:1"
    assert "access file" in said.message
    assert said.message.endswith("every 10 s")
    here.turn.close(200)


def test_its_end_releases_everything_and_leaves_no_series():
    here = Running()
    labels = {"role": "fake", "address": "ME"}
    assert REGISTRY.get_sample_value("dafka_peers", labels) == 4
    here.turn.take("near", [TowerAway("tcp://t:1", 0), TowerAway("tcp://t:2", 0)])
    here.turn.take("near", [TowerBack("tcp://t:1")])
    towers = [labels | {"tower": f"tcp://t:{number}"} for number in (1, 2)]
    assert [REGISTRY.get_sample_value("dafka_towers_away", one) for one in towers] == [None, 1]
    here.turn.close(200)
    assert REGISTRY.get_sample_value("dafka_towers_away", towers[1]) is None
    assert here.role.performed == ["closed"]
    assert [mesh.did for mesh in here.meshes.values()] == [[("close", 200)]] * 2
    assert REGISTRY.get_sample_value("dafka_peers", labels) is None
