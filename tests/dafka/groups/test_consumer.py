"""Whole groups, with records, are in tests/dafka/testing/test_groups.py."""

from __future__ import annotations

from functools import partial

import pytest

from dafka.groups.commit import RESTATED_MS, Commit, CommitKey
from dafka.groups.consumer import (
    COMMIT_AGAIN_MS,
    GROUP_STATES,
    PATIENCE_MS,
    RETRY_MS,
    GroupMachine,
    GroupSettings,
    GroupState,
    Loading,
)
from dafka.groups.events import (
    AskOffsets,
    Assigned,
    Closing,
    Collect,
    Collected,
    CommitDone,
    CommitFailed,
    Committed,
    CommitWanted,
    Expelled,
    Handed,
    Leave,
    Left,
    OffsetsAnswered,
    Overdue,
    PartitionAssigned,
    PublishCommits,
    Rebalanced,
    Released,
    Revoke,
    Revoked,
    Sought,
    WallTime,
)
from dafka.groups.membership import Member
from dafka.model import Partition, replace
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.events import Received, Woke
from dafka.records.batch import BatchBuilder, enclosed
from dafka.wire import messages
from tests.support.lifecycles import assert_follows

A1, B2 = Partition("orders", "A1"), Partition("orders", "B2")


@pytest.fixture
def loading():
    return Loading(2, 7, 0)


def answer(store, *rows, more=False, token=7):
    commits = tuple((CommitKey("g", place), Commit(at, 1, ms)) for place, at, ms in rows)
    return OffsetsAnswered(store, token, commits, more)


def test_the_commit_that_holds_is_that_of_the_store_that_has_it(loading):
    assert loading.ask(0) == [AskOffsets(0, 7, None), AskOffsets(1, 7, None)]
    loading.answered(answer(0, (A1, 5, 10), (B2, 9, 20)), 1)
    assert not loading.complete(1)
    loading.answered(answer(1, (A1, 7, 11), (B2, 8, 19)), 2)
    assert loading.complete(2)
    assert {place: commit.position for place, commit in loading.commits.items()} == {A1: 7, B2: 9}


def test_pages_are_asked_for_one_behind_the_other(loading):
    loading.ask(0)
    loading.answered(answer(0, (A1, 5, 10), more=True), 1)
    assert loading.ask(1) == [AskOffsets(0, 7, A1)]
    loading.answered(answer(0, (B2, 5, 10)), 2)
    loading.answered(answer(1), 2)
    assert loading.complete(2)
    assert loading.commits.keys() == {A1, B2}


def test_a_store_that_turns_no_page_is_done(loading):
    loading.ask(0)
    loading.answered(answer(0, more=True), 1)
    loading.answered(answer(1, more=True), 1)
    assert loading.complete(1)


def test_who_does_not_answer_is_asked_again_and_left_out_in_the_end(loading):
    loading.ask(0)
    assert loading.ask(RETRY_MS - 1) == []
    assert len(loading.ask(RETRY_MS)) == 2
    loading.answered(answer(1, (A1, 5, 10)), RETRY_MS)
    assert not loading.complete(100 * PATIENCE_MS), "the other one may have a later commit"
    three = Loading(3, 7, 0)
    three.ask(0)
    three.answered(answer(1, (A1, 5, 10)), 1)
    assert not three.complete(PATIENCE_MS)
    three.answered(answer(2, (A1, 6, 11)), 2)
    assert not three.complete(PATIENCE_MS - 1)
    assert three.wakeup_ms() <= PATIENCE_MS
    assert three.complete(PATIENCE_MS), "whatever was committed, one of two of three has it"
    assert three.commits[A1].position == 6


def test_a_store_that_was_silent_before_is_not_waited_for():
    three = Loading(3, 7, 0, frozenset({0}))
    three.ask(0)
    three.answered(answer(1, (A1, 5, 10)), 1)
    assert not three.complete(1)
    three.answered(answer(2, (A1, 6, 11)), 2)
    assert three.complete(2), "whatever was committed, one of two of three has it"
    other = Loading(3, 7, 0, frozenset({1}))
    other.ask(0)
    for store in (1, 2):
        other.answered(answer(store), 1)
    assert not other.complete(1), "who answers is waited for a while"


def test_a_store_that_waits_for_links_is_asked_again_from_the_beginning(loading):
    loading.ask(0)
    loading.answered(answer(1), 1)
    behind = replace(answer(0, (A1, 5, 10)), in_sync=False)
    loading.answered(behind, 1)
    assert not loading.complete(2)
    assert loading.ask(1 + RETRY_MS) == [AskOffsets(0, 7, None)]
    loading.answered(answer(0, (A1, 9, 11)), 2 + RETRY_MS)
    assert loading.complete(2 + RETRY_MS)
    assert loading.commits[A1].position == 9


def test_without_any_answer_it_waits(loading):
    loading.ask(0)
    assert not loading.complete(100 * PATIENCE_MS)
    assert loading.wakeup_ms() == RETRY_MS


def test_answers_to_an_earlier_reading_do_not_count(loading):
    loading.ask(0)
    loading.answered(answer(0, (A1, 5, 10), token=6), 1)
    assert loading.commits == {}


ABOUT = Member((b"orders",), 1_000)
OTHER = "N4"
"""A member that takes A1 from "M", by the hashes, and not B2."""


def two_records(partition, sequence):
    builder = BatchBuilder(1_000)
    for _ in range(2):
        builder.append(0, None, b"", ())
    return messages.Records(*partition, sequence, 2, enclosed(builder.build(), sequence))


class ScriptedMember:
    """A member that is told when a generation comes and when it is settled."""

    def __init__(self):
        self.generation = 0
        self.log = []
        self.coming = []

    def handle(self, event, now_ms):
        match event:
            case Woke():
                coming, self.coming = self.coming, []
                return coming
            case Released():
                self.log.append(("released", event.generation))
                return []
            case Leave():
                self.log.append("left")
                return [Left()]

    def silent_since(self, then_ms):
        return frozenset()

    def wakeup_ms(self):
        return None

    def check(self):
        pass


class Scene:
    """A consumer in a group, its membership scripted."""

    def __init__(self, *, latest=False, auto_commit_ms=100, stores=1):
        settings = ConsumerSettings(topics=("orders",), start=Start.ASSIGNED)
        self.member = ScriptedMember()
        self.machine = GroupMachine(
            ConsumerMachine("ME", settings),
            self.member,
            GroupSettings(
                stores=stores, latest=latest, auto_commit_ms=auto_commit_ms, hold_ms_max=1_000
            ),
        )
        self.now_ms = 0
        self.said = []

    def tell(self, event):
        """Returns what comes of an event, without what goes to the mesh."""
        effects = [
            one
            for one in self.machine.handle(event, self.now_ms)
            if type(one).__module__ == "dafka.groups.events"
        ]
        self.machine.check()
        return effects

    def comes(self, *happened):
        self.member.coming = list(happened)
        return [one for one in self.tell(Woke()) if one != Collect()]

    def find(self, partition, head=9):
        return self.tell(Received(messages.DirectHead("ME", *partition, head, "S")))

    def settle(self, generation, members, *commits):
        """A generation comes and is settled; returns what comes of that."""
        effects = self.comes(Assigned("M", generation, dict.fromkeys(members, ABOUT)))
        (settled, ask) = self.comes(Rebalanced(generation))
        assert isinstance(ask, AskOffsets)
        found = tuple((CommitKey("g", place), Commit(at, 1, 1)) for place, at in commits)
        answered = OffsetsAnswered(0, ask.token, found, False)
        return [*effects, settled, *self.tell(answered)]


@pytest.fixture
def scene():
    scene = Scene()
    scene.find(A1)
    scene.settle(1, ["M"], (A1, 5))
    return scene


def begun(effects):
    return {one.partition: one.position for one in effects if isinstance(one, PartitionAssigned)}


def test_nothing_is_begun_before_the_generation_is_settled_and_positions_are_known():
    scene = Scene()
    assert scene.find(A1) == []
    assert scene.comes(Assigned("M", 1, {"M": ABOUT})) == []
    assert scene.member.log == [("released", 1)]
    _, ask = scene.comes(Rebalanced(1))
    answered = OffsetsAnswered(0, ask.token, ((CommitKey("g", A1), Commit(5, 1, 1)),), False)
    assert begun(scene.tell(answered)) == {A1: 5}


def test_what_is_found_later_is_begun_at_once(scene):
    assert begun(scene.find(B2)) == {B2: 0}


def test_what_is_another_members_is_not_begun():
    scene = Scene()
    scene.find(A1)
    scene.find(B2)
    assert begun(scene.settle(1, ["M", OTHER])) == {B2: 0}


@pytest.mark.parametrize(("latest", "position"), [(False, 0), (True, 10)])
def test_what_has_no_commit_begins_as_it_is_told(latest, position):
    scene = Scene(latest=latest)
    scene.find(A1, head=9)
    assert begun(scene.settle(1, ["M"])) == {A1: position}


def test_a_position_that_was_forgotten_is_none():
    scene = Scene()
    scene.find(A1)
    assert begun(scene.settle(1, ["M"], (A1, None))) == {A1: 0}


@pytest.mark.parametrize("sought", [False, True])
def test_a_commit_says_how_far_the_group_has_come_elsewhere_until_somebody_seeks(sought):
    scene = Scene()
    scene.find(A1)
    scene.comes(Assigned("M", 1, {"M": ABOUT}))
    _, ask = scene.comes(Rebalanced(1))
    commit = Commit(5, 1, 1, processed=90)
    scene.tell(OffsetsAnswered(0, ask.token, ((CommitKey("g", A1), commit),), False))
    if sought:
        scene.tell(Sought(A1, 3))
    (first,) = scene.tell(CommitWanted(1, {A1: 8}))
    (last,) = scene.tell(CommitWanted(2, {A1: 90}))
    assert (first.processed, last.processed) == ({} if sought else {A1: 90}, {})


def test_what_holds_for_long_is_committed_again_by_who_owns_it(scene):
    scene.find(B2)
    assert scene.tell(WallTime(RESTATED_MS)) == []
    (publish,) = scene.tell(WallTime(RESTATED_MS + 1))
    assert publish.positions == {A1: 5}, "nothing holds of the other one"
    assert scene.tell(WallTime(2 * RESTATED_MS)) == []
    assert scene.tell(Committed(publish.token)) == []
    (publish,) = scene.tell(WallTime(2 * RESTATED_MS + 1))
    assert publish.positions == {A1: 5}


def test_what_moves_is_not_committed_again(scene):
    scene.tell(WallTime(RESTATED_MS))
    (publish,) = scene.tell(Collected({A1: 7}))
    assert scene.tell(WallTime(2 * RESTATED_MS - 1)) == []
    scene.tell(Committed(publish.token))
    (publish,) = scene.tell(WallTime(2 * RESTATED_MS))
    assert publish.positions == {A1: 7}


def test_what_could_not_be_committed_again_is_tried_again(scene):
    (publish,) = scene.tell(WallTime(RESTATED_MS + 1))
    assert scene.tell(CommitFailed(publish)) == []
    scene.now_ms += COMMIT_AGAIN_MS
    assert scene.comes() == [publish]


def test_who_owns_nothing_any_more_commits_nothing_again(scene):
    scene.comes(Assigned("M", 2, {OTHER: ABOUT}))
    assert scene.tell(WallTime(RESTATED_MS + 1)) == []


def test_where_it_begins_at_the_end_is_committed_so_that_it_holds():
    scene = Scene(latest=True)
    scene.find(A1, head=9)
    scene.settle(1, ["M"])
    assert scene.tell(Woke()) == [Collect()]
    (publish,) = scene.tell(Collected({A1: 10}))
    assert publish.positions == {A1: 10}


def test_otherwise_the_first_commit_comes_when_an_interval_has_passed(scene):
    assert scene.machine.wakeup_ms() <= 100
    scene.now_ms = 99
    assert scene.tell(Woke()) == []
    scene.now_ms = 100
    assert scene.tell(Woke()) == [Collect()]


def test_records_are_handed_over_with_their_run(scene):
    record = two_records(A1, 5)
    (handed,) = scene.tell(Received(record))
    assert isinstance(handed, Handed)
    assert (handed.start, handed.batch.sequence) == (5, 5)


def test_positions_are_collected_and_what_is_new_is_committed(scene):
    scene.now_ms = 100
    assert scene.tell(Woke()) == [Collect()]
    assert scene.tell(Collected({A1: 5})) == []
    scene.now_ms = 200
    assert scene.tell(Woke()) == [Collect()]
    (publish,) = scene.tell(Collected({A1: 8}))
    assert publish == PublishCommits(publish.token, 1, {A1: 8}, {})
    scene.now_ms = 900
    assert scene.tell(Woke()) == []  # one at a time
    assert scene.tell(Committed(publish.token)) == []
    assert scene.tell(Woke()) == [Collect()]


def test_without_auto_commit_nothing_is_collected():
    scene = Scene(auto_commit_ms=None)
    scene.find(A1)
    scene.settle(1, ["M"])
    scene.now_ms = 100_000
    assert scene.tell(Woke()) == []


def test_a_commit_is_done_when_it_is_stored(scene):
    (publish,) = scene.tell(CommitWanted(1, {A1: 8}))
    assert scene.tell(CommitWanted(2, {A1: 8})) == []
    assert scene.tell(Committed(publish.token)) == [
        CommitDone(1, frozenset()),
        CommitDone(2, frozenset()),
    ]
    assert scene.tell(CommitWanted(3, {A1: 8})) == [CommitDone(3, frozenset())]


def test_a_commit_of_what_is_not_its_own_says_so(scene):
    (done,) = scene.tell(CommitWanted(1, {B2: 8}))
    assert done == CommitDone(1, frozenset({B2}))


def test_what_is_given_back_is_committed_before_the_others_hear_of_it(scene):
    (revoke,) = scene.comes(Assigned("M", 2, dict.fromkeys(("M", OTHER), ABOUT)))
    assert revoke == Revoke(revoke.token, frozenset({A1}))
    assert scene.member.log == [("released", 1)]
    (publish,) = scene.tell(Revoked(revoke.token, {A1: 7}))
    assert publish.epoch == 1
    assert publish.positions == {A1: 7}
    assert scene.member.log == [("released", 1)]
    scene.tell(Committed(publish.token))
    assert scene.member.log == [("released", 1), ("released", 2)]


def test_a_generation_that_comes_while_something_is_given_back_is_looked_at_then(scene):
    scene.find(B2)
    (revoke,) = scene.comes(Assigned("M", 2, dict.fromkeys(("M", OTHER), ABOUT)))
    assert scene.comes(Assigned("M", 3, {OTHER: ABOUT})) == []
    (second,) = scene.tell(Revoked(revoke.token, {A1: 5}))
    assert second == Revoke(second.token, frozenset({B2}))
    scene.tell(Revoked(second.token, {B2: 0}))
    assert scene.member.log[-1] == ("released", 3)


def test_without_auto_commit_nothing_is_committed_for_the_application():
    scene = Scene(auto_commit_ms=None)
    scene.find(A1)
    scene.settle(1, ["M"])
    (revoke,) = scene.comes(Assigned("M", 2, dict.fromkeys(("M", OTHER), ABOUT)))
    assert scene.tell(Revoked(revoke.token, {A1: 7})) == []
    assert scene.member.log[-1] == ("released", 2)


def test_what_stays_is_not_interrupted(scene):
    scene.find(B2)
    (revoke,) = scene.comes(Assigned("M", 2, dict.fromkeys(("M", OTHER), ABOUT)))
    assert B2 not in revoke.partitions
    (handed,) = scene.tell(Received(two_records(B2, 0)))
    assert handed.batch.partition == B2


def test_everything_is_lost_with_the_lease(scene):
    assert scene.comes(Expelled()) == [Expelled()]
    assert scene.tell(Received(two_records(A1, 5))) == []
    (done,) = scene.tell(CommitWanted(1, {A1: 8}))
    assert done.lost == {A1}
    assert begun(scene.settle(3, ["M"], (A1, 6))) == {A1: 6}


def test_what_was_being_given_back_is_lost_with_the_lease_too(scene):
    (revoke,) = scene.comes(Assigned("M", 2, dict.fromkeys(("M", OTHER), ABOUT)))
    (publish,) = scene.tell(Revoked(revoke.token, {A1: 7}))
    scene.comes(Expelled())
    assert scene.tell(Committed(publish.token)) == []
    assert scene.member.log == [("released", 1)]


def test_an_application_that_does_not_come_back_is_not_waited_for_for_ever(scene):
    scene.comes(Assigned("M", 2, dict.fromkeys(("M", OTHER), ABOUT)))
    scene.now_ms = 999
    assert Overdue() not in scene.tell(Woke())
    scene.now_ms = 1_000
    assert scene.machine.wakeup_ms() == 1_000
    assert scene.tell(Woke()) == [Overdue(), Left()]
    assert scene.member.log[-1] == "left"


def test_seeking_begins_a_new_run(scene):
    (began,) = scene.tell(Sought(A1, 2))
    assert (began.partition, began.position) == (A1, 2)
    (publish,) = scene.tell(Collected({A1: 2}))
    assert publish.positions == {A1: 2}
    assert scene.tell(Sought(B2, 2)) == []


def test_closing_commits_and_leaves(scene):
    (publish,) = scene.tell(Closing({A1: 9}))
    assert publish.positions == {A1: 9}
    assert scene.tell(Collected({A1: 8})) == []
    scene.comes(Assigned("M", 2, {"M": ABOUT}))
    assert scene.member.log == [("released", 1)]
    assert scene.tell(Committed(publish.token)) == [Left()]


def test_closing_without_anything_new_leaves_at_once(scene):
    assert scene.tell(Closing({})) == [Left()]


def test_the_lag_is_what_is_not_delivered(scene):
    scene.tell(Received(messages.DirectHead("ME", *A1, 24, "S")))
    assert scene.machine.lag == 20


def assigned(generation):
    return lambda scene: scene.comes(Assigned("M", generation, {"M": ABOUT}))


def rebalanced(scene):
    (scene.settled, scene.asked) = scene.comes(Rebalanced(1))


def answers(scene):
    scene.tell(OffsetsAnswered(0, scene.asked.token, (), False))


def expelled(scene):
    scene.comes(Expelled())


INTO = {
    GroupState.EMPTY: [],
    GroupState.PREPARING: [assigned(1)],
    GroupState.COMPLETING: [assigned(1), rebalanced],
    GroupState.STABLE: [assigned(1), rebalanced, answers],
}
CHANGES = {
    (GroupState.EMPTY, GroupState.PREPARING): assigned(1),
    (GroupState.PREPARING, GroupState.COMPLETING): rebalanced,
    (GroupState.PREPARING, GroupState.EMPTY): expelled,
    (GroupState.COMPLETING, GroupState.STABLE): answers,
    (GroupState.COMPLETING, GroupState.PREPARING): assigned(2),
    (GroupState.COMPLETING, GroupState.EMPTY): expelled,
    (GroupState.STABLE, GroupState.PREPARING): assigned(2),
    (GroupState.STABLE, GroupState.EMPTY): expelled,
}


@pytest.mark.parametrize("state", GroupState)
@pytest.mark.parametrize("following", GroupState)
def test_its_states_follow_each_other_as_the_table_says(state, following):
    scene = Scene()
    for happens in INTO[state]:
        happens(scene)
    assert scene.machine.state is state
    change = CHANGES.get((state, following))
    given = change and partial(change, scene)
    assert_follows(scene.machine._lifecycle, GROUP_STATES, following, given)


def test_what_could_not_be_committed_is_published_again_as_far_as_it_has_come(scene):
    scene.now_ms = 100
    assert scene.tell(Woke()) == [Collect()]
    (publish,) = scene.tell(Collected({A1: 8}))
    assert scene.tell(CommitFailed(publish)) == []
    (later,) = scene.tell(CommitWanted(1, {A1: 9}))
    assert later.positions == {A1: 9}
    assert scene.machine.wakeup_ms() <= 100 + COMMIT_AGAIN_MS
    scene.now_ms = 99 + COMMIT_AGAIN_MS
    assert not [one for one in scene.tell(Woke()) if isinstance(one, PublishCommits)]
    scene.now_ms = 100 + COMMIT_AGAIN_MS
    again = [one for one in scene.tell(Woke()) if isinstance(one, PublishCommits)]
    assert again == [PublishCommits(publish.token, 1, {A1: 9}, {})], "never behind what came later"
    scene.tell(Committed(publish.token))
    scene.now_ms += 100
    assert Collect() in scene.tell(Woke()), "and committing by itself goes on"


def test_what_is_others_by_now_is_not_published_again(scene):
    scene.now_ms = 100
    scene.tell(Woke())
    (publish,) = scene.tell(Collected({A1: 8}))
    scene.tell(CommitFailed(publish))
    scene.comes(Expelled())
    scene.now_ms += COMMIT_AGAIN_MS
    assert not [one for one in scene.tell(Woke()) if isinstance(one, PublishCommits)]
    assert not scene.machine._then
