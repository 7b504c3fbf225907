"""The link: where it begins, what it forwards, when it goes back."""

from __future__ import annotations

from functools import partial

import pytest

from dafka.limits import PeerBounds
from dafka.model import Batch, Partition
from dafka.protocol.effects import Publish
from dafka.protocol.events import Received, Woke
from dafka.rate import BURST_MS
from dafka.records.batch import records_of
from dafka.records.envelope import Envelope
from dafka.wire import messages
from dafka.wire.fields import SEQUENCE_MAX
from distributor.link.events import (
    AskHeads,
    HeadsRead,
    HeadsUnread,
    Held,
    Hold,
    Hopped,
    Permit,
    Side,
    Skipped,
)
from distributor.link.machine import ASK_AGAIN_MS, LINK_STATES, LinkState
from distributor.link.settings import LinkSettings
from tests.support.lifecycles import assert_follows
from tests.support.link_bench import (
    ORIGIN,
    REPAIR_MS,
    SURVEY_MS,
    Bench,
    P,
    batch,
    durable,
    fetched,
    live,
    of,
    published,
    sequences,
    stored,
    surveyed,
)
from topology.copyflags import EVERY_FLAG
from topology.model import HEARTBEATS


def test_it_asks_the_target_before_it_forwards_anything():
    bench = Bench()
    effects = bench.source(live(batch(0)), durable(2))
    assert (Side.TARGET, AskHeads(frozenset({P}))) in effects
    assert not published(effects)
    assert of(AskHeads, bench.source(live(batch(2)))) == [], "one question at a time"


def test_it_says_how_long_the_target_has_taken_nothing_and_how_late_it_is():
    bench = Bench().placed()
    machine = bench.link
    assert machine.stuck_ms(bench.now_ms + 60_000) == 0, "there was nothing to take"
    bench.now_ms += 60_000
    bench.source(live(batch(0)), durable(4))
    assert machine.stuck_ms(bench.now_ms + 1_000) == 1_000
    bench.source(live(batch(2)))
    bench.now_ms += 2_000
    bench.target(stored(2))
    assert machine.stuck_ms(bench.now_ms + 500) == 500, "it takes, and lacks some"
    assert machine.late_ms == 2_000
    bench.target(stored(4))
    assert machine.stuck_ms(bench.now_ms + 500) == 0
    assert machine.late_ms == 0


def test_a_target_that_does_not_say_what_it_has_takes_nothing():
    bench = Bench()
    bench.source(live(batch(0)), durable(2))
    assert bench.link.stuck_ms(bench.now_ms) == 0
    bench.target(HeadsUnread())
    assert bench.link.stuck_ms(bench.now_ms + 700) == 700
    bench.target(HeadsRead({}, {}))
    bench.target(stored(2))
    assert bench.link.stuck_ms(bench.now_ms + 900) == 0


def test_a_target_that_does_not_show_what_it_has_takes_nothing():
    bench = Bench()
    bench.source(live(batch(0)), durable(2))
    place = batch(0).partition
    bench.target(HeadsRead({place: 1}, {place: 1}, waiting=frozenset({place})))
    assert bench.link.stuck_ms(bench.now_ms) == 0, "it may be the source that does not"
    bench.target(HeadsRead({place: 1}, {place: 1}, waiting=frozenset({place}), hidden=True))
    assert bench.link.stuck_ms(bench.now_ms + 700) == 700
    bench.target(HeadsRead({place: 1}, {place: 1}))
    assert bench.link.stuck_ms(bench.now_ms + 900) == 0


def test_it_goes_on_behind_what_the_target_has_or_at_the_first_record():
    bench = Bench().placed({P: 3})
    assert sequences(bench.source(live(batch(4)))) == [4, 5]
    assert sequences(bench.source(live(batch(2)))) == []
    assert sequences(Bench().placed().source(live(batch(0)))) == [0, 1]


@pytest.mark.parametrize(("source", "asks"), [({P: 1}, False), ({}, True)])
def test_what_a_survey_has_told_is_not_asked_of_every_store_again(source, asks):
    bench = Bench().placed()
    asked = []
    for bench.now_ms in range(0, 60_000, 1_000):
        effects = bench.source(durable(2), Woke())
        if of(AskHeads, effects):
            bench.target(HeadsRead({P: 1}, source))
        if any(isinstance(one.message, messages.GetHeads) for one in of(Publish, effects)):
            asked.append(bench.now_ms)
    assert asked[0] == 1_000
    assert bool([at for at in asked if at > 20_000]) is asks


FORGET_MS = LinkSettings().forget_after_ms
OTHER = Partition("flights", "other")


def with_all_stored():
    """A link that has copied all of a partition."""
    bench = Bench()
    bench.source(durable(2))
    bench.target(HeadsRead({}, {P: 1}))
    assert sequences(bench.source(live(batch(0)))) == [0, 1]
    bench.target(stored(2))
    return bench


def listing(bench, *partitions, later_ms):
    """A survey, so much later, of a source that lists these."""
    bench.now_ms += later_ms
    effects = bench.source(Woke())
    assert of(AskHeads, effects) == [AskHeads()]
    while of(AskHeads, effects):  # once more where it finds one by that
        effects = bench.target(HeadsRead({P: 1}, dict.fromkeys(partitions, 1)))


def test_what_the_source_lists_no_more_is_forgotten_after_a_while_and_found_anew():
    bench = with_all_stored()
    listing(bench, OTHER, later_ms=FORGET_MS - 1)
    assert P in bench.consumer.heads
    listing(bench, OTHER, later_ms=SURVEY_MS)
    assert P not in bench.consumer.heads
    assert of(AskHeads, bench.source(durable(4))) == [AskHeads(frozenset({P}))]
    bench.target(HeadsRead({P: 1}, {P: 3}))
    assert sequences(bench.source(live(batch(2)))) == [2, 3]


def test_what_there_was_no_room_for_is_placed_when_there_is():
    third = Partition("flights", "third")
    bench = Bench(bounds=PeerBounds(partitions=2))
    for partition in (P, OTHER):
        bench.source(Received(messages.Ack(*partition, "SOURCE-STORE", 1)))
    effects = bench.target(HeadsRead({}))
    while of(AskHeads, effects):
        effects = bench.target(HeadsRead({P: 1, OTHER: 1}, {P: 1, OTHER: 1}))
    assert bench.consumer.heads.keys() == {P, OTHER}
    shown = messages.DirectHead("LINK", *third, 1, "SOURCE-STORE")
    assert of(AskHeads, bench.source(Received(shown))) == [AskHeads(frozenset({third}))]
    assert of(AskHeads, bench.target(HeadsRead({P: 1, OTHER: 1}, {third: 1}))) == []
    assert third not in bench.consumer.heads
    asked = 0
    for _ in range(3 * FORGET_MS // 1_000):
        bench.now_ms += 1_000
        effects = bench.source(Woke())
        if of(AskHeads, effects):
            asked += 1
            assert not of(AskHeads, bench.target(HeadsRead({P: 1, OTHER: 1}, {third: 1})))
    assert third in bench.consumer.heads
    assert asked <= 3 * FORGET_MS // SURVEY_MS, "no more often than both ends are asked anyway"


def test_what_both_ends_have_forgotten_is_not_copied_again():
    bench = Bench()
    (asked,) = of(AskHeads, bench.source(durable(2)))
    assert asked.found == {P}
    assert published(bench.target(HeadsRead({P: 1}, {OTHER: 1}))) == []
    assert bench.consumer.next(P) == 2
    assert sequences(bench.source(live(batch(2)), durable(4))) == [2, 3]


def test_what_is_found_while_both_ends_are_asked_is_asked_about_by_name():
    bench = Bench()
    bench.source(durable(2))
    other = messages.Ack(*OTHER, "SOURCE-STORE", 1)
    assert of(AskHeads, bench.source(Received(other))) == []
    (asked,) = of(AskHeads, bench.target(HeadsRead({}, {P: 1})))
    assert asked.found == {OTHER}
    assert bench.consumer.heads.keys() == {P}
    bench.target(HeadsRead({}, {P: 1}))
    assert bench.consumer.heads.keys() == {P, OTHER}


def test_what_is_listed_or_under_way_is_not_forgotten():
    bench = with_all_stored()
    listing(bench, P, later_ms=FORGET_MS)
    listing(bench, later_ms=FORGET_MS)  # the source has not answered
    assert P in bench.consumer.heads
    bench.source(live(batch(2)), durable(4))
    listing(bench, OTHER, later_ms=FORGET_MS)
    assert P in bench.consumer.heads


def test_it_asks_again_when_nobody_answered_but_not_at_once():
    bench = Bench()
    bench.source(durable(1))
    assert of(AskHeads, bench.target(HeadsUnread())) == []
    assert bench.link.wakeup_ms() is not None
    bench.now_ms += ASK_AGAIN_MS
    assert of(AskHeads, bench.source(Woke())) == [AskHeads(frozenset({P}))]


def test_it_does_not_copy_what_is_not_durable_at_the_source():
    bench = Bench()
    bench.source(durable(2))
    bench.target(HeadsRead({}))
    assert sequences(bench.source(live(batch(0)), live(batch(2)))) == [0, 1]
    assert sequences(bench.source(durable(4))) == [2, 3]


def test_a_copy_has_one_more_flag_and_the_origin_of_its_first_cluster():
    bench = Bench(level=3).placed()
    (first,) = published(bench.source(live(batch(0))))
    record = next(records_of(Batch(P, 0, 2, first.content)))
    assert (record.copy_flags, record.origin) == (0b100, ORIGIN)

    bench = Bench(level=1).placed()
    (second,) = published(bench.source(live(batch(0, envelope=Envelope(3, 0b100)))))
    record = next(records_of(Batch(P, 0, 2, second.content)))
    assert (record.copy_flags, record.origin) == (0b101, 3)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("flags", range(16))
@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_it_forwards_exactly_if_no_flag_up_to_its_level_is_set(level, flags, epoch):
    one = live(batch(0, envelope=Envelope(3, flags, epoch)))
    effects = Bench(level, epoch=1).placed().source(one)
    expected = flags == 0 or (epoch == 1 and flags & ((1 << level) - 1) == 0)
    assert bool(published(effects)) == expected
    assert bool(of(Skipped, effects)) != expected


def test_what_was_forwarded_keeps_its_records_untouched():
    original = batch(0, count=5)
    (copy,) = published(Bench().placed().source(live(original)))
    assert copy.content[20:] == original.content[20:]


def test_a_batch_that_begins_below_is_cut():
    bench = Bench().placed({P: 2})
    effects = bench.source(live(batch(0, count=6)))
    assert sequences(effects) == [3, 4, 5]
    assert [record.value.strip() for record in records_of(batch(3, 3))] == [b"3", b"4", b"5"]


def test_damaged_content_is_dropped_and_its_place_kept_for_what_belongs_there():
    bench = Bench().placed()
    effects = bench.source(Received(messages.Records(P.topic, P.address, 0, 2, b"bare")))
    assert [effect.reason for _, effect in effects if hasattr(effect, "reason")] == ["batch size"]
    assert sequences(bench.source(live(batch(2)))) == []
    assert sequences(bench.source(live(batch(0)))) == [0, 1, 2, 3]


def test_a_hop_is_measured_from_delivery_to_durability():
    bench = Bench().placed()
    one = batch(0)
    bench.source(live(one))
    bench.now_ms += 30
    assert of(Hopped, bench.target(stored(2))) == [Hopped(2, len(one.content), 30)]


def test_a_hop_of_heartbeats_is_told_to_be_one():
    bench = Bench()
    bench.source(Received(messages.Ack(HEARTBEATS, P.address, "SOURCE-STORE", 999)))
    bench.target(HeadsRead({}))
    bench.source(Received(messages.Records(HEARTBEATS, P.address, 0, 2, batch(0).content)))
    taken = Received(messages.Ack(HEARTBEATS, P.address, "TARGET-STORE", 1))
    assert [one.internal for one in of(Hopped, bench.target(taken))] == [True]


def test_what_is_under_way_bounds_what_is_taken_in():
    size = len(batch(0, size=1_000).content)
    bench = Bench(buffer_bytes_max=2 * size).placed()
    effects = bench.source(*(live(batch(2 * n, size=1_000)) for n in range(5)))
    assert sequences(effects) == [0, 1, 2, 3]
    answered = messages.DirectHead("LINK", P.topic, P.address, 999_999, "SOURCE-STORE")
    assert of(Publish, bench.source(Received(answered))) == [], "full: nothing is fetched"
    effects = bench.target(stored(4))
    fetches = [e.message for side, e in effects if side is Side.SOURCE and isinstance(e, Publish)]
    assert [(type(fetch), fetch.sequence) for fetch in fetches] == [(messages.Fetch, 4)]


def test_it_goes_back_to_what_the_target_has_lost():
    bench = Bench().placed()
    bench.source(live(batch(0)), live(batch(2)))
    bench.target(stored(4))
    bench.source(live(batch(4)))
    effects = bench.target(fetched(0))
    assert of(AskHeads, effects) == [AskHeads()]
    effects = bench.target(HeadsRead({}))
    wanted = [e.message for side, e in effects if side is Side.SOURCE and isinstance(e, Publish)]
    assert [(fetch.sequence, fetch.address) for fetch in wanted] == [(0, "AA")]
    assert sequences(bench.source(live(batch(0)))) == [0, 1]


def test_it_does_not_go_back_for_a_consumer_that_reads_old_records():
    bench = Bench().placed()
    bench.source(live(batch(0)))
    bench.target(stored(2))
    bench.source(live(batch(2)))
    bench.target(fetched(0))
    assert sequences(bench.target(HeadsRead({P: 1}))) == []
    assert sequences(bench.source(live(batch(4)))) == [4, 5]


def test_it_does_not_go_back_for_what_was_stored_while_it_asked():
    bench = Bench().placed()
    bench.source(live(batch(0)))
    bench.target(stored(2))
    bench.source(live(batch(2)))
    bench.target(fetched(0))
    bench.target(stored(4))
    bench.target(HeadsRead({P: 1}))
    assert sequences(bench.source(live(batch(4)))) == [4, 5]


def test_a_question_without_an_answer_is_put_again_for_what_was_wanted():
    bench = Bench().placed()
    bench.source(live(batch(0)))
    bench.target(stored(2))
    bench.source(live(batch(2)))
    bench.target(fetched(0), HeadsUnread())
    bench.now_ms += ASK_AGAIN_MS
    assert of(AskHeads, bench.source(Woke())) == [AskHeads()]
    bench.target(HeadsRead({}))
    assert sequences(bench.source(live(batch(0)))) == [0, 1]


def test_lag_is_what_the_source_has_and_the_target_lacks():
    bench = Bench()
    bench.source(durable(4))
    bench.target(HeadsRead({}))
    assert bench.link.lag(bench.now_ms)[0] == 4
    bench.source(live(batch(0)))
    assert bench.link.lag(bench.now_ms)[0] == 4
    bench.now_ms += 250
    assert bench.link.lag(bench.now_ms)[1] == 250
    bench.target(stored(2))
    assert bench.link.lag(bench.now_ms)[0] == 2
    bench.source(live(batch(2)))
    bench.target(stored(4))
    assert bench.link.lag(bench.now_ms)[0] == 0
    assert bench.link.lag(bench.now_ms)[1] == 0


def test_lag_does_not_count_what_another_level_carries():
    bench = Bench(level=3)
    bench.source(durable(2))
    bench.target(HeadsRead({}))
    bench.source(live(batch(0, envelope=Envelope(3, 0b1))))
    assert bench.link.lag(bench.now_ms)[0] == 0


def test_lag_of_what_does_not_move_grows_with_time():
    bench = Bench()
    bench.source(durable(4))
    bench.target(HeadsRead({}))
    bench.now_ms += 5_000
    assert bench.link.lag(bench.now_ms)[1] == 5_000


def carried_elsewhere() -> Bench:
    """A link that has left two records to another level."""
    bench = Bench().placed()
    bench.source(live(batch(0, envelope=Envelope(3, 0b1))))
    return bench


def test_what_nobody_brings_is_pulled_whatever_its_flags_say_and_goes_no_further():
    bench = carried_elsewhere()
    for _ in range(REPAIR_MS // SURVEY_MS):
        assert not of(Publish, surveyed(bench, 1, -1))
    (fetch,) = of(Publish, surveyed(bench, 1, -1))
    assert fetch.message.sequence == 0
    (copy,) = published(bench.source(live(batch(0, envelope=Envelope(3, 0b1)))))
    record = next(records_of(Batch(P, 0, 2, copy.content)))
    assert (record.copy_flags, record.origin) == (EVERY_FLAG, 3)
    (hopped,) = of(Hopped, bench.target(stored(2)))
    assert hopped.pulled
    assert published(bench.source(live(batch(2, envelope=Envelope(3, 0b1))))) == []


def test_a_target_that_is_behind_but_moves_is_left_alone():
    bench = carried_elsewhere()
    for step in range(20):
        assert not of(Publish, surveyed(bench, 100, step))


def test_what_the_link_has_under_way_or_has_still_to_look_at_is_not_pulled():
    carrying, late = Bench().placed(), Bench()
    carrying.source(live(batch(0)))
    late.source(durable(2))
    late.target(HeadsRead({}))
    for bench in [carrying, late] * 20:
        effects = surveyed(bench, 1, -1)
        assert not [e for side, e in effects if side is Side.TARGET and isinstance(e, Publish)]


def test_it_notices_a_loss_of_which_nobody_complains():
    bench = Bench().placed()
    bench.source(live(batch(0)))
    bench.target(stored(2))
    (fetch,) = of(Publish, surveyed(bench, 1, -1))
    assert fetch.message.sequence == 0
    assert sequences(bench.source(live(batch(0)))) == [0, 1]


def test_what_the_sources_stores_have_and_never_told_it_is_asked_for():
    bench = Bench()
    bench.source(durable(2))
    bench.target(HeadsRead({}))
    asked = [effect.message for effect in of(Publish, surveyed(bench, 5, -1))]
    assert messages.Fetch("flights", "AA", "LINK", SEQUENCE_MAX, 1, messages.ANY_STORE) in asked
    bench.source(durable(6))
    assert of(Publish, surveyed(bench, 5, -1)) == []


def test_on_hold_it_takes_nothing_more_and_finishes_what_is_under_way():
    bench = Bench().placed()
    one = batch(0)
    bench.source(live(one))
    assert of(Held, bench.source(Hold())) == [Held({P: 2})]
    assert bench.source(live(batch(2)), Woke()) == []
    assert of(Hopped, bench.target(stored(2))) == [Hopped(2, len(one.content), 0)]
    assert of(AskHeads, bench.source(Woke())) == []


def test_a_partition_waits_until_it_is_known_whether_histories_differ():
    bench = Bench()
    bench.source(durable(1_000_000))
    assert bench.target(HeadsRead({P: 1}, {P: 9}, waiting=frozenset({P}))) == []
    assert not published(bench.source(live(batch(2))))
    bench.now_ms += ASK_AGAIN_MS
    assert of(AskHeads, bench.source(Woke())) == [AskHeads(frozenset({P}))]
    bench.target(HeadsRead({P: 1}, {P: 9}))
    assert sequences(bench.source(live(batch(2)))) == [2, 3]


def test_what_both_ends_say_tells_how_long_the_target_stands_still():
    bench = carried_elsewhere()
    surveyed(bench, 1, -1)
    surveyed(bench, 1, -1)
    assert bench.link.standstill(bench.now_ms) == (1, SURVEY_MS)
    surveyed(bench, 1, 1)
    assert bench.link.standstill(bench.now_ms) == (0, 0)


def test_a_link_with_a_bounded_rate_takes_more_in_only_when_it_may_send_more():
    size = len(batch(0, size=1_000).content)
    bench = Bench(buffer_bytes_max=size, bytes_per_s=size).placed()
    bench.source(live(batch(0, size=1_000)))
    answered = messages.DirectHead("LINK", P.topic, P.address, 999_999, "SOURCE-STORE")
    assert not of(Publish, bench.target(stored(2)) + bench.source(Received(answered)))
    bench.now_ms = 1_000 - BURST_MS
    fetches = [e.message for side, e in bench.source(Woke()) if isinstance(e, Publish)]
    assert 2 in [fetch.sequence for fetch in fetches if isinstance(fetch, messages.Fetch)]


def is_to_survey(bench):
    assert of(AskHeads, bench.source(durable(1))) == [AskHeads(frozenset({P}))]


def is_answered(bench):
    bench.target(HeadsRead({}))


def is_to_hold(bench):
    assert of(Held, bench.source(Hold()))


INTO = {
    LinkState.COPYING: [],
    LinkState.SURVEYING: [is_to_survey],
    LinkState.HOLDING: [is_to_survey, is_to_hold],
}
CHANGES = {
    (LinkState.COPYING, LinkState.SURVEYING): is_to_survey,
    (LinkState.COPYING, LinkState.HOLDING): is_to_hold,
    (LinkState.SURVEYING, LinkState.COPYING): is_answered,
    (LinkState.SURVEYING, LinkState.HOLDING): is_to_hold,
}


@pytest.mark.parametrize("state", LinkState)
@pytest.mark.parametrize("following", LinkState)
def test_its_states_follow_each_other_as_the_table_says(state, following):
    bench = Bench()
    for happens in INTO[state]:
        happens(bench)
    assert bench.link.state is state
    change = CHANGES.get((state, following))
    given = change and partial(change, bench)
    assert_follows(bench.link._lifecycle, LINK_STATES, following, given)


def test_a_link_on_hold_asks_for_nothing_and_takes_no_survey_in():
    bench = Bench()
    is_to_survey(bench)
    is_to_hold(bench)
    assert bench.target(HeadsRead({P: 5}, {P: 9})) == []
    assert bench.target(HeadsUnread()) == []
    bench.now_ms += 10 * SURVEY_MS
    assert of(AskHeads, bench.source(Woke())) == []
    assert of(Held, bench.source(Hold())) == [Held({})]


def ready():
    """A link that may not write, and knows both ends."""
    bench = Bench(permitted=False)
    assert of(AskHeads, bench.source(durable(6), live(batch(4)))) == [], "it asks one at a time"
    bench.target(HeadsRead({P: 3}, {P: 5}))
    return bench


def test_one_that_may_not_write_is_ready_and_begins_nothing():
    bench = ready()
    assert bench.link.progress() == ({P: 4}, {P: 4}, {P: 4})
    for last in (7, 9):
        effects = bench.source(live(batch(last - 1)), durable(last + 1))
        bench.now_ms += SURVEY_MS
        effects += bench.source(Woke())
        assert of(AskHeads, effects) == [AskHeads()]
        effects += bench.target(HeadsRead({P: last - 2}, {P: last}))
        assert not [one for one in effects if one[0] is Side.TARGET and of(Publish, [one])]
        assert bench.link.lag(bench.now_ms) == (0, 0)
        assert bench.link.progress().there == {P: last - 1}


def test_once_it_may_it_begins_where_the_target_is_then():
    bench = ready()
    effects = bench.target(Permit())
    assert of(AskHeads, effects) == [AskHeads(frozenset({P}))]
    bench.target(HeadsRead({P: 5}, {P: 5}))
    assert sequences(bench.source(live(batch(6)), durable(8))) == [6, 7]
    assert bench.link.progress() == ({P: 8}, {P: 6}, {P: 6})
    bench.target(stored(8))
    assert bench.link.progress() == ({P: 8}, {P: 8}, {P: 8})


def test_what_was_asked_before_it_might_write_is_no_place_to_begin():
    bench = ready()
    bench.now_ms += SURVEY_MS
    assert of(AskHeads, bench.source(Woke())) == [AskHeads()]
    assert of(AskHeads, bench.target(Permit())) == []
    effects = bench.target(HeadsRead({P: 3}, {P: 5}))
    assert of(AskHeads, effects) == [AskHeads(frozenset({P}))]
    assert bench.link.progress().done == {P: 4}
    bench.target(HeadsRead({P: 5}, {P: 5}))
    assert bench.link.progress().done == {P: 6}


def test_a_target_that_does_not_answer_keeps_one_that_may_write_waiting():
    bench = ready()
    bench.target(Permit(), HeadsUnread())
    assert bench.link.wakeup_ms() == ASK_AGAIN_MS
    bench.now_ms += ASK_AGAIN_MS
    assert of(AskHeads, bench.source(Woke())) == [AskHeads(frozenset({P}))]


def test_of_what_stands_still_a_link_has_taken_what_is_before():
    bench = Bench().placed()
    bench.source(live(batch(0)), durable(4))
    surveyed(bench, 3, -1, diverged={P: 0})
    bench.source(live(batch(2)))
    assert bench.link.progress() == ({P: 0}, {P: 0}, {P: 0})
