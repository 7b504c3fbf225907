from __future__ import annotations

from dafka.model import Partition
from dafka.protocol.effects import Publish
from dafka.protocol.events import Received
from dafka.protocol.store import StoreMachine
from dafka.protocol.topic_heads import TopicHeads
from dafka.wire import messages

FLIGHTS, MORE_FLIGHTS = Partition("flights", "AA"), Partition("flights", "BB")
WEATHER = Partition("weather", "AA")


def test_the_partitions_of_a_topic():
    heads = TopicHeads({FLIGHTS: 1, WEATHER: 2})
    heads[MORE_FLIGHTS] = 0
    heads[FLIGHTS] = 5
    assert heads == {FLIGHTS: 5, WEATHER: 2, MORE_FLIGHTS: 0}
    assert heads.of(["flights"]) == [FLIGHTS, MORE_FLIGHTS]
    assert heads.of(["flight", "weather"]) == [WEATHER]


def test_each_once_however_often_it_is_named():
    heads = TopicHeads({FLIGHTS: 1, WEATHER: 2})
    assert heads.of(["weather", "flights", "weather"]) == [WEATHER, FLIGHTS]
    assert heads.of(["weather", ""]) == [FLIGHTS, WEATHER]


def test_a_store_that_is_asked_for_one_topic_looks_at_no_other(monkeypatch):
    def walked(_):
        raise AssertionError("looked through all partitions")

    machine = StoreMachine("ME", {FLIGHTS: 1, WEATHER: 2})
    monkeypatch.setattr(TopicHeads, "__iter__", walked)
    effects = machine.handle(Received(messages.GetHeads("weather", "YOU")), 0)
    assert effects == [Publish(messages.DirectHead("YOU", "weather", "AA", 2, "ME"))]
