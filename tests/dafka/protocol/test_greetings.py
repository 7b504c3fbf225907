"""What a store tells whoever listens for its STORE-HELLO, and listens for itself."""

from __future__ import annotations

from dafka.model import ALL_SLOTS, Slots
from dafka.protocol.effects import Listen, Publish, Unlisten
from dafka.protocol.greetings import Greetings
from dafka.protocol.keeping import KEEPS_ALL, Keeping
from dafka.wire.messages import GetHeads, MessageId, StoreHello

LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, 4_096)])


def hello(peer, slots):
    return Publish(StoreHello(peer, "ME", slots))


def test_it_says_what_it_keeps_and_nothing_of_what_joins():
    greetings = Greetings("ME")
    assert greetings.met("C", Keeping(LOW, joining=HIGH)) == [hello("C", LOW)]


def test_when_slots_have_moved_it_says_so_to_all_that_it_has_greeted():
    greetings = Greetings("ME")
    for peer in ("C", "S2"):
        greetings.met(peer, Keeping(LOW))
    joining, both = Keeping(LOW, joining=HIGH), KEEPS_ALL
    assert not [one for one in greetings.moved(Keeping(LOW), joining) if isinstance(one, Publish)]
    assert greetings.moved(joining, both) == [hello("C", ALL_SLOTS), hello("S2", ALL_SLOTS)]


def test_what_it_keeps_since_slots_have_moved_it_says_once_more_when_it_asks_for_heads():
    greetings = Greetings("ME")
    greetings.met("C", Keeping(LOW))
    asked = [Publish(GetHeads("", "ME", LOW))]
    assert greetings.ask(Keeping(LOW)) == asked
    greetings.moved(Keeping(LOW, joining=HIGH), KEEPS_ALL)
    everything = Publish(GetHeads("", "ME"))
    assert greetings.ask(KEEPS_ALL) == [everything, hello("C", ALL_SLOTS)], "that may be lost"
    assert greetings.ask(KEEPS_ALL) == [everything]


def test_it_listens_for_other_slots_and_no_more_for_those_that_are_gone():
    effects = Greetings("ME").moved(KEEPS_ALL, Keeping(HIGH))
    assert Listen(MessageId.SLOT_RECORDS, "1") in effects
    assert Unlisten(MessageId.RECORDS, "") in effects


def test_who_came_first_is_forgotten_where_there_are_too_many():
    greetings = Greetings("ME", greeted_max=2)
    for peer in ("A", "B", "A", "C"):
        greetings.met(peer, Keeping(LOW))
    told = greetings.moved(Keeping(LOW), KEEPS_ALL)
    assert [one.message.consumer for one in told if isinstance(one, Publish)] == ["A", "C"]
