"""A store that has forgotten partitions: what it says of them, and when they come back."""

from __future__ import annotations

import pytest

from dafka.limits import HEARSAY_MAX
from dafka.model import Partition
from dafka.protocol.effects import Append, Dropped, Forget, Publish, Recall
from dafka.protocol.events import (
    Appended,
    Emptied,
    PartitionsForgotten,
    Recalled,
    Received,
    ReceivedTogether,
    TurnEnded,
    Woke,
)
from dafka.protocol.store import StoreMachine
from dafka.wire import messages
from tests.support.batches import make_batch

P = Partition("flights", "AA")
Q = Partition("flights", "BB")


class Bench:
    """A store that has forgotten some partitions, with a log that recalls where they ended."""

    def __init__(self, heads=None, ends=None):
        self.machine = StoreMachine("ME", heads or {}, remembers=bool(ends))
        self.machine.handle(Woke(), 0)
        self.ends = dict(ends or {})
        self.asked = []

    def give(self, event):
        """What comes of an event, but for questions to the log, which are answered."""
        effects, events = [], [event]
        for one in events:
            for effect in self.machine.handle(one, 0):
                if isinstance(effect, Recall):
                    named = {Partition(told.topic, told.address) for told in effect.messages}
                    self.asked.append(named)
                    ends = {
                        partition: self.ends[partition] for partition in named & self.ends.keys()
                    }
                    events.append(Recalled(effect.messages, ends))
                else:
                    effects.append(effect)
            self.machine.check()
        return effects

    def hear(self, message):
        return self.give(Received(message))

    def stored(self):
        (append,) = (one for one in self.give(TurnEnded()) if isinstance(one, Append))
        return [(one.sequence, one.end) for one in append.batches], self.give(
            Appended(append.token)
        )


def made(partition, sequence, count):
    return make_batch([b"v"] * count, sequence, partition)


def live(one):
    return messages.Records(*one.partition, one.sequence, one.count, one.content)


def sent(effects):
    return [effect.message for effect in effects if isinstance(effect, Publish)]


def test_a_store_that_has_forgotten_nothing_asks_its_log_nothing():
    bench = Bench({Q: 3})
    bench.hear(live(made(P, 0, 2)))
    bench.hear(messages.Head(*P, 5))
    assert bench.asked == []


def test_the_log_is_asked_once_about_a_partition_that_is_new():
    bench = Bench(ends={P: 100})
    bench.hear(live(made(Q, 0, 2)))
    bench.hear(live(made(Q, 2, 2)))
    assert bench.asked == [{Q}]
    assert bench.stored()[0] == [(0, 2), (2, 4)]


def test_of_messages_that_came_together_the_log_is_asked_once():
    bench = Bench({Partition("flights", "CC"): 5}, ends={P: 100})
    heads = [messages.Head("flights", address, 5) for address in ("AA", "BB", "CC")]
    bench.give(ReceivedTogether(tuple(heads)))
    assert bench.asked == [{P, Q}]


@pytest.mark.parametrize("sequence", [0, 95])
def test_what_lies_below_the_end_is_acknowledged_and_not_taken(sequence):
    bench = Bench(ends={P: 100})
    effects = bench.hear(live(made(P, sequence, 5)))
    assert effects == [Dropped("duplicate"), Publish(messages.Ack(*P, "ME", 99))]
    assert bench.give(TurnEnded()) == []
    assert P not in bench.machine.heads


def test_a_producer_goes_on_where_it_was():
    bench = Bench(ends={P: 100})
    bench.hear(live(made(P, 100, 5)))
    written, effects = bench.stored()
    assert written == [(100, 105)]
    assert [(ack.sequence, ack.store) for ack in sent(effects)] == [(104, "ME")]
    assert bench.machine.heads == {P: 104}


def test_a_batch_that_reaches_beyond_the_end_is_taken_from_there_on():
    bench = Bench(ends={P: 100})
    one = made(P, 98, 4)
    bench.hear(messages.DirectRecords("ME", *P, one.sequence, one.count, one.content))
    assert bench.stored()[0] == [(100, 102)]


def test_a_batch_ahead_of_the_end_makes_it_ask_from_the_end_on():
    bench = Bench(ends={P: 100})
    effects = bench.hear(live(made(P, 110, 5)))
    (fetch,) = (one for one in sent(effects) if isinstance(one, messages.Fetch))
    assert (fetch.sequence, fetch.count) == (100, 10)


def test_heads_below_the_end_bring_nothing_back():
    bench = Bench(ends={P: 100})
    ack = messages.Ack(*P, "ME", 99)
    assert sent(bench.hear(messages.Head(*P, 99))) == [ack]
    assert sent(bench.hear(messages.Head(*P, 50, stored=True))) == [ack]
    assert bench.hear(messages.Head(*P, 99, stored=True)) == []
    assert bench.hear(messages.DirectHead("ME", *P, 99, "S2")) == []
    assert bench.machine.heads == {}


def test_a_head_beyond_the_end_makes_it_ask_from_the_end_on():
    bench = Bench(ends={P: 100})
    (fetch,) = sent(bench.hear(messages.DirectHead("ME", *P, 104, "S2")))
    assert (fetch.sequence, fetch.count) == (100, 5)


def test_whoever_asks_is_told_where_the_log_starts():
    bench = Bench(ends={P: 100})
    head = messages.DirectHead("C", *P, 99, "ME")
    start = messages.LogStart("C", *P, 100, "ME")
    assert sent(bench.hear(messages.Fetch(*P, "C", 0, 10))) == [start, head]
    assert sent(bench.hear(messages.Fetch(*P, "C", 99, 1, "ME"))) == [start, head]
    assert sent(bench.hear(messages.Fetch(*P, "C", 100, 1))) == [head]
    assert sent(bench.hear(messages.Fetch(*P, "C", 100, 1, messages.ANY_STORE))) == [head]
    assert bench.asked == [{P}] * 4


def test_questions_for_others_and_its_own_are_not_looked_up():
    bench = Bench(ends={P: 100})
    assert bench.hear(messages.Fetch(*P, "C", 0, 10, "S2")) == []
    assert bench.hear(messages.Fetch(*P, "ME", 0, 10)) == []
    assert bench.asked == []


def test_whoever_only_says_that_there_is_more_brings_back_a_bounded_number():
    ends = {Partition("flights", f"{'A' * 16}{number}"): 1 for number in range(HEARSAY_MAX + 1)}
    machine = StoreMachine("ME", {}, remembers=True)
    told = tuple(messages.Head(*partition, 5) for partition in ends)
    assert Dropped("too many partitions") in machine.handle(Recalled(told, ends), 0)
    assert len(machine.heads) == HEARSAY_MAX


def test_it_forgets_what_is_empty_and_lists_it_no_more():
    bench = Bench({P: 99, Q: 4})
    assert bench.give(Emptied((P,))) == [Forget((P,))]
    bench.ends[P] = 100
    assert bench.give(PartitionsForgotten((P,))) == []
    assert bench.machine.heads == {Q: 4}
    assert sent(bench.hear(messages.GetHeads("", "C"))) == [messages.DirectHead("C", *Q, 4, "ME")]
    assert sent(bench.hear(messages.GetHeads("flights", "C"))) == [
        messages.DirectHead("C", *Q, 4, "ME")
    ]
    assert sent(bench.hear(messages.Head(*P, 99))) == [messages.Ack(*P, "ME", 99)]


def test_it_does_not_forget_what_is_about_to_go_on():
    bench = Bench({P: 99, Q: 4})
    bench.hear(live(made(P, 100, 5)))
    bench.hear(messages.Head(*Q, 9))
    assert bench.give(Emptied((P, Q))) == []
    (append,) = (one for one in bench.give(TurnEnded()) if isinstance(one, Append))
    assert bench.give(Emptied((P,))) == []
    bench.give(Appended(append.token))
    assert bench.give(Emptied((P, Partition("flights", "never")))) == [Forget((P,))]


def test_a_consumer_of_another_make_is_not_reminded_of_what_is_forgotten():
    bench = Bench({P: 99})
    bench.hear(messages.ConsumerHello("ME", "C", ("flights",), foreign=True))
    bench.give(PartitionsForgotten((P,)))
    assert not [one for one in bench.machine.handle(Woke(), 10_000) if not isinstance(one, Publish)]


def test_a_forgotten_partition_that_came_back_may_be_forgotten_again():
    bench = Bench(ends={P: 100})
    bench.hear(live(made(P, 100, 5)))
    bench.stored()
    assert bench.give(Emptied((P,))) == [Forget((P,))]
    bench.ends[P] = 105
    bench.give(PartitionsForgotten((P,)))
    assert sent(bench.hear(live(made(P, 100, 5)))) == [messages.Ack(*P, "ME", 104)]
