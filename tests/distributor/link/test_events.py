from __future__ import annotations

import pytest

from dafka.model import Partition, replace
from dafka.protocol.effects import Dropped, Lost, Publish
from dafka.protocol.events import Received, Woke
from dafka.records.envelope import Envelope
from dafka.wire import messages
from distributor.link.events import (
    REFUSED_REST_MS_MAX,
    AskHeads,
    HeadsRead,
    Hole,
    PassOver,
    Resumed,
    Stop,
    Stopped,
    StopReason,
    Stops,
)
from tests.support.link_bench import (
    Bench,
    batch,
    durable,
    fetched,
    live,
    of,
    published,
    sequences,
    surveyed,
)
from tests.support.link_bench import P as FLIGHTS

P, Q = (Partition("orders", letter * 32) for letter in "PQ")
NONE = dict.fromkeys(StopReason, 0)


def test_other_histories_stop_once_and_until_they_are_found_no_more():
    stops = Stops()
    assert stops.take(HeadsRead({P: 4}, diverged={P: 3}), 0) == ([P], [])
    assert stops.take(HeadsRead({P: 4}, diverged={P: 3}), 0) == ([], [])
    assert P in stops
    assert stops.by_partition == {P: Stop(StopReason.DIVERGED, 3, 4)}
    assert stops.counts() == {**NONE, StopReason.DIVERGED: 1}
    assert stops.take(HeadsRead({P: 4}), 0) == ([], [P])
    assert P not in stops


def test_other_histories_stop_until_they_are_compared_again():
    stops = Stops()
    stops.take(HeadsRead({P: 4}, diverged={P: 3}), 0)
    assert stops.take(HeadsRead({P: 4}, waiting=frozenset({P})), 0) == ([], [])
    assert stops.take(HeadsRead({P: 4}, {P: 4}), 0) == ([], [P])


def test_a_hole_stops_until_it_is_filled():
    stops = Stops()
    assert stops.overtaken(P, 5, 10, unsure=False) == Stop(StopReason.OVERTAKEN, 5, 10)
    assert stops.take(HeadsRead({P: 4}, {P: 30}, begins={P: 12}), 0) == ([], [])
    assert stops.take(HeadsRead({P: 8}, {P: 30}, begins={P: 12}), 0) == ([], [])
    assert stops.take(HeadsRead({P: 8}), 0) == ([], []), "a source that is silent says nothing"
    assert stops.take(HeadsRead({P: 9}, {P: 30}, begins={P: 12}), 0) == ([], [P])


def test_a_hole_that_grows_begins_where_it_did():
    stops = Stops()
    stops.overtaken(P, 5, 10, unsure=False)
    assert stops.overtaken(P, 50, 100, unsure=False) == Stop(StopReason.OVERTAKEN, 5, 100)
    stops.refused(Q, 0, 6, 0)
    assert stops.overtaken(Q, 50, 100, unsure=False) == Stop(StopReason.OVERTAKEN, 0, 100)


def test_a_hole_that_a_silent_store_may_fill_is_waited_for():
    stops = Stops()
    stops.overtaken(P, 5, 10, unsure=True)
    stops.overtaken(Q, 0, 10, unsure=True)
    heads = HeadsRead({P: 4}, {P: 30, Q: 30}, begins={P: 12, Q: 10}, certain=False)
    assert stops.take(heads, 0) == ([], [])
    assert stops.take(replace(heads, target={P: 11}), 0) == ([], [P])
    assert stops.take(replace(heads, begins={P: 12}), 0) == ([], [Q]), "it has come back"
    stops.overtaken(Q, 0, 10, unsure=True)
    assert stops.take(replace(heads, certain=True), 0) == ([], [Q]), "to be found out anew"


def test_a_hole_stands_while_another_store_of_the_target_may_keep_what_lies_before():
    stops = Stops()
    stops.overtaken(P, 5, 10, unsure=False)
    heads = HeadsRead({}, {P: 30}, begins={P: 10}, kept=frozenset({P}))
    assert stops.take(heads, 0) == ([], [])
    assert stops.take(replace(heads, kept=frozenset()), 0) == ([], [P])


def test_a_hole_in_another_history_is_another_history():
    stops = Stops()
    stops.overtaken(P, 5, 10, unsure=False)
    stops.overtaken(Q, 5, 10, unsure=False)
    assert stops.take(HeadsRead({P: 4, Q: 4}, diverged={P: 2}), 0) == ([P], [])
    assert stops.counts() == {**NONE, StopReason.DIVERGED: 1, StopReason.OVERTAKEN: 1}


def test_a_partition_with_another_history_at_the_target_is_not_copied():
    bench = Bench()
    bench.source(durable(1_000_000))
    effects = bench.target(HeadsRead({FLIGHTS: 1}, {FLIGHTS: 9}, diverged={FLIGHTS: 1}))
    assert of(Stopped, effects) == [Stopped(FLIGHTS, Stop(StopReason.DIVERGED, 1, 2))]
    assert not published(bench.source(live(batch(2))))
    for _ in range(10):
        effects = surveyed(bench, 9, 1, diverged={FLIGHTS: 1})
        assert not of(Publish, effects), "nor is it pulled"
        assert not of(Stopped, effects), "once is enough"


def test_a_partition_that_turns_out_to_differ_is_stopped_in_the_middle():
    bench = Bench().placed()
    bench.source(live(batch(0)))
    bench.target(HeadsRead({FLIGHTS: 0}, {FLIGHTS: 9}, diverged={FLIGHTS: 0}))
    assert of(Dropped, bench.source(live(batch(2)))) == [Dropped("stopped")]


def test_it_is_copied_again_when_one_end_has_been_emptied():
    bench = Bench()
    bench.source(durable(1_000_000))
    bench.target(HeadsRead({FLIGHTS: 1}, {FLIGHTS: 9}, diverged={FLIGHTS: 1}))
    effects = surveyed(bench, 9, -1)
    assert of(Resumed, effects) == [Resumed(FLIGHTS)]
    assert sequences(bench.source(live(batch(0)))) == [0, 1]


def log_start(sequence: int) -> Received:
    return Received(
        messages.LogStart("LINK", FLIGHTS.topic, FLIGHTS.address, sequence, "SOURCE-STORE")
    )


def overtaken(
    target: int, kept: frozenset[Partition] = frozenset(), **settings
) -> tuple[Bench, list]:
    """A link whose source keeps ten and more only, while the target has up to `target`."""
    held = {} if target < 0 else {FLIGHTS: target}
    bench = Bench(**settings).placed(held)
    bench.source(live(batch(20)))
    bench.source(durable(20))
    for _ in range(10):
        bench.now_ms += 1_000
        effects = bench.source(Woke(), log_start(10))
        if of(AskHeads, effects):
            facts = {"begins": {FLIGHTS: 10}, "kept": kept}
            effects += bench.target(HeadsRead(held, {FLIGHTS: 21}, **facts))
        if of(Stopped, effects) or of(Lost, effects):
            return bench, effects
    raise AssertionError("nothing is said")


def test_a_hole_stops_the_partition_and_the_target_keeps_what_it_has():
    bench, effects = overtaken(target=4)
    assert of(Stopped, effects) == [Stopped(FLIGHTS, Stop(StopReason.OVERTAKEN, 5, 10))]
    assert not of(Lost, effects)
    assert not published(bench.source(live(batch(10)), live(batch(12))))
    answers = of(Publish, bench.target(fetched(5)))
    assert not [one for one in answers if isinstance(one.message, messages.LogStart)]
    for _ in range(10):
        effects = surveyed(bench, 21, 4, begins={FLIGHTS: 10})
        assert not of(Publish, effects)
        assert not of(Resumed, effects)
    assert bench.link.lag(bench.now_ms)[0] > 5, "it is not forgotten that something is missing"


def until_lost_or_stopped(bench, log_begins, target):
    """Its source keeps nothing below a place any more; returns what comes of it."""
    for _ in range(10):
        bench.now_ms += 1_000
        effects = bench.source(Woke(), log_start(log_begins))
        if of(AskHeads, effects):
            facts = {"begins": {FLIGHTS: log_begins}}
            effects += bench.target(
                HeadsRead({FLIGHTS: target}, {FLIGHTS: log_begins + 20}, **facts)
            )
        if of(Lost, effects) or of(Stopped, effects):
            return effects
    return []


def test_what_is_overtaken_twice_is_told_from_where_the_target_is():
    bench, _ = overtaken(target=4)
    bench.source(*(live(batch(sequence)) for sequence in range(10, 30, 2)), durable(30))
    bench.source(live(batch(110)), durable(112))
    effects = until_lost_or_stopped(bench, 100, 4)
    assert of(Stopped, effects) == [Stopped(FLIGHTS, Stop(StopReason.OVERTAKEN, 5, 100))]


def test_another_history_is_not_told_as_a_hole():
    bench = Bench().placed({FLIGHTS: 4})
    bench.source(live(batch(20)), durable(20))
    differs = {"diverged": {FLIGHTS: 1}, "begins": {FLIGHTS: 10}}
    surveyed(bench, 21, 4, **differs)
    diverged = dict(bench.link.stops.by_partition)
    for _ in range(10):
        bench.now_ms += 1_000
        effects = bench.source(Woke(), log_start(10))
        if of(AskHeads, effects):
            effects += bench.target(HeadsRead({FLIGHTS: 4}, {FLIGHTS: 21}, **differs))
        assert not of(Stopped, effects)
    assert bench.link.stops.by_partition == diverged


@pytest.mark.parametrize(
    ("target", "facts"),
    [
        (9, {"begins": {FLIGHTS: 10}}),
        (4, {"begins": {FLIGHTS: 10}, "empty": frozenset({FLIGHTS})}),
        (4, {"begins": {FLIGHTS: 5}}),
        (4, {}),
    ],
    ids=["another link has brought it", "the target is empty", "it is back", "it is back whole"],
)
def test_it_goes_on_when_the_hole_is_no_more(target, facts):
    bench, _ = overtaken(target=4)
    effects = surveyed(bench, 21, target, **facts)
    assert of(Resumed, effects) == [Resumed(FLIGHTS)]
    assert sequences(bench.source(live(batch(target + 1)))) == [target + 1, target + 2]


def test_an_empty_target_begins_where_the_source_does():
    bench, effects = overtaken(target=-1)
    assert of(Lost, effects) == [Lost(FLIGHTS, 0, 10)]
    assert not of(Stopped, effects)
    assert sequences(bench.source(live(batch(10)))) == [10, 11]
    assert bench.link.shortened == {FLIGHTS}
    answer, shown, _ = of(Publish, bench.target(fetched(0)))
    assert (type(answer.message), answer.message.sequence) == (messages.LogStart, 10)
    assert shown.message.sequence == 10, "which shows that it is so"


def test_a_target_of_which_only_one_store_is_empty_does_not_begin_there():
    bench, effects = overtaken(target=-1, kept=frozenset({FLIGHTS}))
    assert of(Stopped, effects) == [Stopped(FLIGHTS, Stop(StopReason.OVERTAKEN, 0, 10))]
    assert not of(Lost, effects)
    assert not published(bench.source(live(batch(10))))
    effects = surveyed(bench, 21, 4, begins={FLIGHTS: 10})
    assert not of(Resumed, effects), "the store with what lies before speaks"


def test_by_hand_it_goes_on_behind_the_hole_and_the_target_hears_where():
    bench, _ = overtaken(target=4)
    assert not of(Resumed, bench.target(PassOver("another topic")))
    effects = bench.target(PassOver(FLIGHTS.topic))
    assert of(Resumed, effects) == [Resumed(FLIGHTS)]
    # Retention went on meanwhile: the source begins even later than was known.
    for _ in range(10):
        bench.now_ms += 1_000
        effects += bench.source(Woke(), log_start(12))
        if of(Lost, effects):
            break
    assert of(Lost, effects) == [Lost(FLIGHTS, 5, 12)]
    assert not of(Stopped, effects)
    assert sequences(bench.source(live(batch(12)))) == [12, 13]
    answer, shown, _ = of(Publish, bench.target(fetched(5)))
    assert (type(answer.message), answer.message.sequence) == (messages.LogStart, 12)
    assert shown.message.sequence == 12, "which shows that it is so"
    assert bench.link.shortened == {FLIGHTS}


def test_what_was_passed_over_by_hand_once_stops_when_it_is_overtaken_again():
    stops = Stops()
    stops.overtaken(P, 5, 10, unsure=False)
    assert stops.pass_over(Q.topic + "-other") == {}
    assert stops.pass_over(P.topic) == {P: Stop(StopReason.OVERTAKEN, 5, 10)}
    assert stops.counts()[StopReason.OVERTAKEN] == 0
    assert stops.take(HeadsRead({Q: 4}, diverged={Q: 3}), 0) == ([Q], [])
    assert stops.pass_over(Q.topic) == {}, "another history is nobody's to pass over"


@pytest.mark.parametrize("skipped", [True, False])
def test_a_word_to_pass_over_ends_with_its_hole(skipped):
    bench, _ = overtaken(target=4)
    bench.target(PassOver(FLIGHTS.topic))
    assert of(Lost, until_lost_or_stopped(bench, 10, 4)) == [Lost(FLIGHTS, 5, 10)]
    # Another link brings what is behind it.
    if skipped:
        done = Envelope(3, 0b1)
        bench.source(*(live(batch(n, envelope=done)) for n in range(10, 60, 2)), durable(60))
    else:
        surveyed(bench, 59, 59, begins={FLIGHTS: 10})
    bench.source(live(batch(120)), durable(122))
    effects = until_lost_or_stopped(bench, 100, 59)
    assert of(Stopped, effects)
    assert not of(Lost, effects), "that is another one"


@pytest.mark.parametrize("hole", [(5, 10), (3, 11)], ids=["it", "a larger one"])
def test_a_hole_that_is_known_is_passed_over(hole):
    bench, effects = overtaken(target=4, passes={FLIGHTS: Hole(FLIGHTS, *hole)})
    assert of(Lost, effects) == [Lost(FLIGHTS, 5, 10)]
    assert not of(Stopped, effects)
    assert sequences(bench.source(live(batch(10)))) == [10, 11]
    assert bench.link.shortened == {FLIGHTS}


@pytest.mark.parametrize("hole", [(6, 10), (5, 9)], ids=["more before it", "more behind it"])
def test_a_hole_that_is_larger_than_was_known_stops(hole):
    _, effects = overtaken(target=4, passes={FLIGHTS: Hole(FLIGHTS, *hole)})
    assert of(Stopped, effects) == [Stopped(FLIGHTS, Stop(StopReason.OVERTAKEN, 5, 10))]
    assert not of(Lost, effects)


def test_topics_that_are_to_be_skipped_never_stop():
    bench, effects = overtaken(target=4, skips=lambda topic: topic == FLIGHTS.topic)
    assert of(Lost, effects) == [Lost(FLIGHTS, 5, 10)]
    assert not of(Stopped, effects)
    assert sequences(bench.source(live(batch(10)))) == [10, 11]


def test_what_is_refused_is_tried_again_ever_later_until_something_is_stored():
    stops = Stops()
    rests = []
    for now_ms in (0, 1_000_000, 2_000_000):
        stop = stops.refused(P, 5, 9, now_ms)
        rests.append(stop.until_ms - now_ms)
        assert stops.take(HeadsRead({P: 4}, {P: 8}), stop.until_ms - 1) == ([], [])
        assert stops.take(HeadsRead({P: 4}, {P: 8}), stop.until_ms) == ([], [P])
    assert rests == [10_000, 20_000, 40_000]
    for _ in range(10):
        rest_ms = stops.refused(P, 5, 9, 0).until_ms
    assert rest_ms == REFUSED_REST_MS_MAX
    assert stops.take(HeadsRead({P: 5}, {P: 8}), 1) == ([], [P]), "somebody else has brought it"
    stops.stored(P)
    assert stops.refused(P, 5, 9, 0).until_ms == 10_000


OTHER = Partition("flights", "BB")


def refusing(bench, seconds, *, others):
    """Let time pass in which the target acknowledges nothing of `FLIGHTS`; returns the effects."""
    effects = []
    for second in range(seconds):
        bench.now_ms += 1_000
        effects += bench.source(Woke())
        if others:
            effects += bench.source(
                Received(messages.Ack(*OTHER, "SOURCE-STORE", 2 * second + 1)),
                live_of(OTHER, 2 * second),
            )
            effects += bench.target(Received(messages.Ack(*OTHER, "TARGET-STORE", 2 * second + 1)))
        if of(AskHeads, effects[-20:]):
            effects += bench.target(HeadsRead({OTHER: 2 * second + 1}, {FLIGHTS: 1}))
    return effects


def live_of(partition, sequence):
    one = batch(sequence)
    return Received(messages.Records(*partition, sequence, one.count, one.content))


def test_a_partition_that_is_passed_by_is_set_aside_and_others_go_on():
    bench = Bench().placed()
    bench.source(live(batch(0)), Received(messages.Ack(*OTHER, "SOURCE-STORE", 1)))
    bench.target(HeadsRead({}))
    assert not of(Stopped, refusing(bench, 25, others=True))
    effects = refusing(bench, 30, others=True)
    stopped = [one for one in of(Stopped, effects) if one.partition == FLIGHTS]
    assert (stopped[0].stop.reason, stopped[0].stop.first) == (StopReason.REFUSED, 0)
    assert bench.link.stuck_ms(bench.now_ms) < 5_000, "the target takes others"
    assert of(Resumed, effects + refusing(bench, 15, others=True)), "it is tried again"


def test_what_fills_the_room_and_is_not_taken_is_set_aside():
    bench = Bench(buffer_bytes_max=1_000).placed()
    bench.source(*(live(batch(number, size=100)) for number in (0, 2, 4)))
    effects = refusing(bench, 20, others=False)
    assert [one.stop.reason for one in of(Stopped, effects)][:1] == [StopReason.REFUSED]
    assert bench.link.stuck_ms(bench.now_ms) >= 15_000, "it is still said that it takes nothing"
    bench.source(Received(messages.Ack(*OTHER, "SOURCE-STORE", 1)))
    bench.target(HeadsRead({}))
    assert sequences(bench.source(live_of(OTHER, 0))) == [0, 1]
