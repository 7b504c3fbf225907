"""Where a link aims: planned, unplanned, back again."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.protocol.events import Woke
from distributor.link.target import (
    REST,
    TARGET_STATES,
    ClusterLost,
    Drain,
    Drained,
    Pause,
    Probed,
    Resume,
    Retarget,
    Starved,
    Stuck,
    Switch,
    TargetMachine,
    TargetSettings,
    TargetState,
)
from tests.support.lifecycles import assert_follows

SETTINGS = TargetSettings(failover_after_ms=1_000, drain_ms_max=5_000)
BACK = TargetSettings(failover_after_ms=1_000, failback=True, drain_ms_max=5_000)


def aim(settings=SETTINGS):
    one = TargetMachine(("a", "b", "c"), settings, -10_000)
    for target in ("a", "b", "c"):
        assert one.handle(Probed(target, True), 0) == []
    return one


def test_it_begins_with_the_preferred_target():
    assert aim().current == "a"


def test_a_planned_switch_waits_for_the_barrier():
    one = aim()
    assert one.handle(Retarget("b"), 10) == [Drain()]
    assert (one.current, one.next) == ("a", "b")
    assert one.handle(Drained(), 20) == [Switch("b", planned=True)]
    assert (one.current, one.next) == ("b", None)


def test_a_barrier_that_is_not_met_is_given_up():
    one = aim()
    one.handle(Retarget("b"), 0)
    one.handle(Probed("a", True), 4_999)
    assert one.handle(Probed("a", True), 5_000) == [Resume()]
    assert (one.current, one.next) == ("a", None)
    assert one.handle(Drained(), 5_001) == [], "too late"


def test_to_name_the_present_target_calls_a_switch_off():
    one = aim()
    one.handle(Retarget("b"), 0)
    assert one.handle(Retarget("a"), 1) == [Resume()]
    assert one.handle(Retarget("a"), 2) == []


def test_a_silent_target_is_left_for_the_next_healthy_one():
    one = aim()
    one.handle(Probed("b", False), 10)
    assert one.handle(Probed("a", False), 999) == []
    assert one.silent
    assert one.handle(Probed("a", False), 1_000) == [Switch("c", planned=False)]


def test_a_target_of_which_no_process_is_there_is_left_in_half_the_time():
    one = aim()
    assert one.handle(Probed("a", False, gone=True), 499) == []
    assert one.handle(Probed("a", False), 500) == [], "it may be there again, and start"
    assert one.handle(Probed("a", False, gone=True), 501) == [Switch("b", planned=False)]
    assert one.handle(Probed("b", False), 1_001) == [], "this one may be slow"


@pytest.mark.parametrize("event", [Probed("a", False), Stuck(500), Starved(500)])
def test_a_link_that_has_just_begun_leaves_in_half_the_time(event):
    new, old = TargetMachine(("a", "b"), SETTINGS, 0), TargetMachine(("a", "b"), SETTINGS, -1_500)
    for one in (new, old):
        for target in ("a", "b"):
            one.handle(Probed(target, True), 0)
    assert old.handle(event, 500) == []
    assert new.handle(event, 500) == [Switch("b", planned=False)]


def test_it_stays_where_no_other_is_well():
    one = aim()
    one.handle(Probed("b", False), 10)
    one.handle(Probed("c", False), 10)
    assert one.handle(Probed("a", False), 9_000) == []
    assert one.handle(Probed("c", True), 9_001) == [Switch("c", planned=False)]


def test_a_lost_cluster_is_left_at_once_and_not_aimed_at_again():
    one = aim()
    assert one.handle(ClusterLost("a"), 1) == [Switch("b", planned=False)]
    one.handle(Probed("a", True), 2)
    assert one.handle(Probed("b", False), 5_000) == [Switch("c", planned=False)]
    assert one.handle(ClusterLost("zebra"), 5_001) == []


def test_a_target_that_dies_while_it_drains_is_left_for_the_one_that_was_named():
    one = aim()
    one.handle(Retarget("c"), 0)
    assert one.handle(Probed("a", False), 1_000) == [Switch("c", planned=False)]


def stuck(one, for_ms, now_ms):
    """All answer, and the current one has taken nothing for so long."""
    for name in (one.current, *"abc"):
        assert one.handle(Probed(name, True), now_ms) == []
    return one.handle(Stuck(for_ms), now_ms)


def test_a_target_that_takes_nothing_is_left_though_it_answers():
    one = aim()
    assert stuck(one, 999, 5_000) == []
    assert stuck(one, 1_000, 6_000) == [Switch("b", planned=False)]


def test_links_do_not_go_round_in_circles_where_nobody_takes_anything():
    one = aim(BACK)
    assert stuck(one, 1_000, 1_000) == [Switch("b", planned=False)]
    assert stuck(one, 1_000, 2_000) == [Switch("c", planned=False)]
    rested_ms = 1_000 + REST * 1_000
    for now_ms in range(3_000, rested_ms, 500):
        assert stuck(one, 1_000, now_ms) == [], "all have taken nothing just now"
    assert one.handle(Probed("c", True), rested_ms) == [Switch("a", planned=False)]
    assert stuck(one, 1_000, rested_ms + 1_000) == [Switch("b", planned=False)]
    for now_ms in range(rested_ms + 1_500, rested_ms + 1_000 + 2 * REST * 1_000, 500):
        stuck(one, 0, now_ms)
        assert one.current == "b", "it does not return as soon to whom it left again"


def starved(one, for_ms, now_ms):
    """All answer, and take what they are given, but another one has got nothing for so long."""
    events = [Probed(target, True) for target in (one.current, *"abc")]
    return [
        effect
        for event in (*events, Stuck(0), Starved(for_ms))
        for effect in one.handle(event, now_ms)
    ]


def test_a_target_that_relays_nothing_is_left_and_may_be_served_again():
    one = aim()
    assert starved(one, 999, 5_000) == []
    assert starved(one, 1_000, 6_000) == [Switch("b", planned=False)]
    assert stuck(one, 1_000, 7_000) == [Switch("a", planned=False)], "b was sick itself"
    for now_ms in range(7_000, 6_000 + REST * 1_000, 500):
        assert starved(one, now_ms - 7_000, now_ms) == [], "that is known now"
    again_ms = 6_000 + REST * 1_000
    assert starved(one, 5_000, again_ms) == [Switch("c", planned=False)]
    assert stuck(one, 1_000, again_ms + 1_000) == [Switch("a", planned=False)]
    for now_ms in range(again_ms + 1_000, again_ms + 2 * REST * 1_000, 500):
        assert starved(one, 9_000, now_ms) == [], "ever more seldom"


def test_it_does_not_return_at_once_to_one_that_relayed_nothing():
    one = aim(BACK)
    assert starved(one, 1_000, 6_000) == [Switch("b", planned=False)]
    for now_ms in range(6_500, 6_000 + REST * 1_000, 500):
        one.handle(Probed("b", True), now_ms)
        assert one.handle(Probed("a", True), now_ms) == []
    assert one.handle(Probed("a", True), 6_000 + REST * 1_000) == [Drain()]


def test_a_dead_target_is_left_even_for_one_that_took_nothing():
    one = aim()
    stuck(one, 1_000, 1_000)
    one.handle(Probed("c", False), 1_100)
    assert one.handle(Probed("b", False), 2_000) == [Switch("a", planned=False)]


def test_a_stuck_target_is_left_for_the_one_that_is_named():
    one = aim()
    stuck(one, 900, 900)
    assert one.handle(Retarget("c"), 950) == [Drain()]
    assert stuck(one, 1_000, 1_000) == [Switch("c", planned=False)]


def test_what_is_named_need_not_rest():
    one = aim()
    stuck(one, 1_000, 1_000)
    assert one.handle(Retarget("a"), 1_100) == [Drain()]
    assert one.handle(Drained(), 1_200) == [Switch("a", planned=True)]


def test_it_stays_after_a_failover_unless_told_to_return():
    one = aim()
    one.handle(Probed("a", False), 1_000)
    for now_ms in range(1_100, 9_000, 100):
        one.handle(Probed("b", True), now_ms)
        assert one.handle(Probed("a", True), now_ms) == []
    assert one.current == "b"


def test_it_returns_behind_a_barrier_when_the_preferred_one_has_been_well_for_long_enough():
    one = aim(BACK)
    assert one.handle(Probed("a", False), 1_000) == [Switch("b", planned=False)]
    one.handle(Probed("b", True), 1_900)
    one.handle(Probed("b", True), 2_500)
    assert one.handle(Probed("a", True), 2_500) == []
    one.handle(Probed("b", True), 3_400)
    assert one.handle(Probed("a", True), 3_499) == []
    assert one.handle(Probed("a", True), 3_500) == [Drain()]
    assert one.handle(Drained(), 3_600) == [Switch("a", planned=True)]


def test_it_does_not_return_from_where_the_operator_sent_it():
    one = aim(BACK)
    one.handle(Retarget("b"), 0)
    one.handle(Drained(), 1)
    for now_ms in range(0, 5_000, 500):
        one.handle(Probed("b", True), now_ms)
        assert one.handle(Probed("a", True), now_ms) == []


def test_a_pause_ends_by_itself_if_it_is_not_told_again():
    one = aim()
    assert one.handle(Pause(), 0) == [Drain()]
    assert one.handle(Pause(), 3_000) == []
    assert one.paused
    assert one.handle(Probed("a", False), 7_999) == [], "a target is not left in a pause"
    assert one.handle(Probed("a", True), 8_000) == [Resume()]
    assert not one.holding


def test_a_pause_takes_the_place_of_a_retarget_and_the_other_way_round():
    one = aim()
    one.handle(Retarget("b"), 0)
    assert one.handle(Pause(), 1) == []
    assert one.handle(Drained(), 2) == []
    assert one.current == "a"
    assert one.handle(Retarget("b"), 3) == []
    assert (one.paused, one.handle(Drained(), 4)) == (False, [Switch("b", planned=True)])
    one.handle(Pause(), 5)
    assert one.handle(Retarget("b"), 6) == [Resume()]


def test_a_link_that_was_drained_in_a_pause_drains_again_when_another_target_is_named():
    one = aim()
    one.handle(Pause(), 0)
    one.handle(Drained(), 1)
    assert one.state is TargetState.DRAINED
    assert one.handle(Retarget("b"), 2) == []
    assert one.state is TargetState.DRAINING
    assert one.handle(Drained(), 3) == [Switch("b", planned=True)]


def test_it_is_to_be_woken_when_what_it_waits_for_has_taken_too_long():
    one = aim()
    assert one.wakeup_ms() is None
    one.handle(Retarget("b"), 10)
    assert one.wakeup_ms() == 5_010
    one.handle(Pause(), 20)
    one.handle(Drained(), 30)
    assert one.wakeup_ms() == 5_020
    assert one.handle(Woke(), 5_020) == [Resume()]
    assert one.wakeup_ms() is None


INTO = {
    TargetState.SERVING: [],
    TargetState.DRAINING: [Retarget("b")],
    TargetState.PAUSED: [Pause()],
    TargetState.DRAINED: [Pause(), Drained()],
}
CHANGES = {
    (TargetState.SERVING, TargetState.DRAINING): Retarget("b"),
    (TargetState.SERVING, TargetState.PAUSED): Pause(),
    (TargetState.DRAINING, TargetState.SERVING): Drained(),
    (TargetState.DRAINING, TargetState.PAUSED): Pause(),
    (TargetState.PAUSED, TargetState.SERVING): Retarget("a"),
    (TargetState.PAUSED, TargetState.DRAINING): Retarget("b"),
    (TargetState.PAUSED, TargetState.DRAINED): Drained(),
    (TargetState.DRAINED, TargetState.SERVING): Retarget("a"),
    (TargetState.DRAINED, TargetState.DRAINING): Retarget("b"),
}


@pytest.mark.parametrize("state", TargetState)
@pytest.mark.parametrize("following", TargetState)
def test_its_states_follow_each_other_as_the_table_says(state, following):
    one = aim()
    for event in INTO[state]:
        one.handle(event, 0)
    assert one.state is state
    event = CHANGES.get((state, following))
    given = event and partial(one.handle, event, 1)
    assert_follows(one._lifecycle, TARGET_STATES, following, given)
    one.check()


events = st.one_of(
    st.builds(Probed, st.sampled_from("abc"), st.booleans()),
    st.builds(Retarget, st.sampled_from("abc")),
    st.builds(Stuck, st.integers(0, 3_000)),
    st.builds(Starved, st.integers(0, 3_000)),
    st.builds(ClusterLost, st.sampled_from("abcd")),
    st.just(Drained()),
    st.just(Pause()),
    st.just(Woke()),
)


@given(st.lists(st.tuples(events, st.integers(0, 2_000))))
def test_whatever_happens_it_aims_at_one_of_its_targets(story):
    one, now_ms = TargetMachine(("a", "b", "c"), BACK, 0), 0
    for event, passed_ms in story:
        now_ms += passed_ms
        for effect in one.handle(event, now_ms):
            if isinstance(effect, Switch):
                assert effect.target == one.current
        one.check()
