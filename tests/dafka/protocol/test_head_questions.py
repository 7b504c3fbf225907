from __future__ import annotations

from dafka.limits import HEADS_AT_ONCE_MAX
from dafka.model import Partition, Slots, slot_of
from dafka.protocol.effects import Append, Publish
from dafka.protocol.events import PartitionsForgotten, Received, TurnEnded, Woke
from dafka.protocol.head_questions import HeadQuestions
from dafka.protocol.heads import TopicHeads
from dafka.protocol.store import StoreMachine
from dafka.protocol.stores import HEADS_INTERVAL_MS_MAX
from dafka.wire.messages import ConsumerHello, GetHeads, Records
from tests.support.batches import make_batch

FLIGHTS = [Partition("flights", f"F{number}") for number in range(5)]
WEATHER = [Partition("weather", f"W{number}") for number in range(2)]


def told_by(effects):
    return [effect.message.address for effect in effects if isinstance(effect, Publish)]


def test_a_store_stores_between_the_parts_of_a_long_answer():
    many = [f"{number:04}" for number in range(2 * HEADS_AT_ONCE_MAX + 100)]
    machine = StoreMachine("ME", {Partition("flights", one): 9 for one in many})
    machine.handle(Woke(), 0)
    told = told_by(machine.handle(Received(GetHeads("", "YOU")), 5))
    assert told == many[:HEADS_AT_ONCE_MAX]
    new = make_batch([b"value"], partition=Partition("orders", "AA"))
    machine.handle(Received(Records("orders", "AA", 0, 1, new.content)), 5)
    write, *told = machine.handle(TurnEnded(), 6)
    assert isinstance(write, Append)
    assert told_by(told) == many[HEADS_AT_ONCE_MAX : 2 * HEADS_AT_ONCE_MAX]
    assert machine.wakeup_ms() == 6
    machine.handle(PartitionsForgotten((Partition("flights", many[-1]),)), 6)
    assert told_by(machine.handle(TurnEnded(), 7)) == many[2 * HEADS_AT_ONCE_MAX : -1]
    assert machine.wakeup_ms() > 7


def questions(at_once_max=3, **settings):
    heads = TopicHeads(dict.fromkeys(FLIGHTS + WEATHER, 9))
    return HeadQuestions(heads, at_once_max=at_once_max, **settings)


def turns(asked, most=20):
    """What is told in each turn, until nothing is left."""
    told = []
    for now_ms in range(most):
        told.append([*asked.told(now_ms)])
        asked.turn_ended(now_ms)
        if asked.wakeup_ms() is None:
            return told
        assert asked.wakeup_ms() == now_ms
    raise AssertionError(told)


def of(requester, places):
    return [(requester, place) for place in places]


def test_who_does_not_listen_takes_no_time_of_others():
    """Each of a thousand names had all partitions looked at, and honest ones waited behind."""
    asked = questions(at_once_max=6, listens={"YOU"}.__contains__)
    for number in range(1_000):
        assert asked.add(GetHeads("flights", f"N{number}"), 0)
    assert asked.add(GetHeads("flights", "YOU"), 0)
    assert [*asked.told(0)] == of("YOU", FLIGHTS)


def test_little_is_told_at_once():
    asked = questions(at_once_max=20)
    assert asked.wakeup_ms() is None
    assert asked.add(GetHeads("", "A"), 0)
    assert turns(asked) == [of("A", FLIGHTS + WEATHER)]


def test_much_is_told_in_parts():
    asked = questions()
    assert asked.add(GetHeads("flights", "A"), 0)
    assert turns(asked) == [of("A", FLIGHTS[:3]), of("A", FLIGHTS[3:])]


def test_who_asks_again_before_his_turn_is_told_once():
    asked = questions()
    for _ in range(100):
        assert asked.add(GetHeads("weather", "A"), 0)
        assert asked.add(GetHeads("flights", "B"), 0)
    assert [one for turn in turns(asked) for one in turn] == [*of("A", WEATHER), *of("B", FLIGHTS)]


def test_who_asks_much_does_not_hold_up_who_asks_little():
    asked = questions()
    mark = "A" * 16
    assert all(asked.add(GetHeads("flights", f"{mark}{number}"), 0) for number in range(3))
    assert asked.add(GetHeads("weather", "B"), 0)
    told = [requester for turn in turns(asked) for requester, _ in turn]
    assert told.index("B") == len(FLIGHTS), "behind one of the first"


def test_only_slots_that_are_asked_for_are_told_and_all_are_looked_at():
    asked = questions()
    slot = slot_of(FLIGHTS[4].address)
    assert asked.add(GetHeads("flights", "A", Slots.of([range(slot, slot + 1)])), 0)
    assert turns(asked) == [[], of("A", FLIGHTS[4:])]


def test_what_is_asked_of_nothing_does_not_wait():
    asked = questions()
    assert asked.add(GetHeads("wea", "A"), 0)
    assert asked.wakeup_ms() is None


def test_a_greeting_asks_for_each_of_its_topics():
    asked = questions(at_once_max=20)
    assert asked.add(ConsumerHello("ME", "A", ("weather", "none", "flights")), 0)
    assert turns(asked) == [of("A", WEATHER + FLIGHTS)]


def test_there_is_room_for_so_many():
    asked = questions(peer_max=1, all_max=2)
    assert asked.add(GetHeads("weather", "A"), 0)
    assert not asked.add(GetHeads("flights", "A"), 0)
    assert asked.add(GetHeads("flights", "B"), 0)
    assert not asked.add(GetHeads("flights", "C"), 0)


def test_what_has_waited_for_long_is_asked_again_or_not_needed():
    asked = questions(at_once_max=20)
    assert asked.add(GetHeads("flights", "A"), 0)
    assert asked.add(GetHeads("weather", "A"), 0)
    assert asked.add(GetHeads("weather", "B"), 1)
    assert [*asked.told(HEADS_INTERVAL_MS_MAX)] == of("B", WEATHER)
    assert asked.wakeup_ms() is None
