from __future__ import annotations

from types import SimpleNamespace

from dafka.node.consumer_role import ConsumerRole
from dafka.protocol.effects import Deliver, Listen
from dafka.protocol.events import TurnEnded, Woke
from dafka.wire.messages import MessageId
from tests.support.batches import make_batch

WHAT = Deliver(make_batch([b"0", b"1"]), 1)


def test_what_is_delivered_waits_for_the_application_which_is_told():
    role, told = ConsumerRole(SimpleNamespace()), []
    role.told = lambda: told.append(True)
    role.perform(None, Listen(MessageId.RECORDS, "orders"))
    assert role.next(0, whole=False) is None
    role.perform(None, WHAT)
    assert role.next(0, whole=True) == WHAT
    assert told == [True]
    role.close()
    assert told == [True, True]


def test_events_go_to_the_machine_but_for_the_end_of_a_turn():
    machine = SimpleNamespace(handle=lambda event, now_ms: [(event, now_ms)], wakeup_ms=lambda: 7)
    role = ConsumerRole(machine)
    assert role.handle(None, TurnEnded(), 5) == ()
    assert role.handle(None, Woke(), 5) == [(None, (Woke(), 5))]
    assert role.wakeup_ms() == 7
    assert role.pollable() == {}
