from __future__ import annotations

import dataclasses
import random

import pytest

from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.consumer_group import EMPTY, RECONCILING, STABLE, ConsumerGroupMachine
from dafka.gateway.coordinator import CoordinatorSettings
from dafka.gateway.group_events import (
    JOINS,
    LEAVES,
    NO_GENERATION,
    PAUSES,
    ConsumerHeard,
    GroupIdentity,
    JoinGroup,
    LeaveGroup,
    MemberHeard,
)
from dafka.model import replace
from dafka.protocol.events import Woke
from tests.support.seeds import broken_by

SESSION_MS, REBALANCE_MS = 45_000, 60_000
SETTINGS = CoordinatorSettings(members_max=4)


def parts(*numbers):
    return frozenset(KafkaPartition("orders", number) for number in numbers)


class Bench:
    """A group over one topic of four partitions, and its clock."""

    def __init__(self, settings=SETTINGS):
        self.counts = {"orders": 4}
        self.machine = ConsumerGroupMachine(settings, lambda name: self.counts.get(name, 0))
        self.now_ms = 0

    def hear(self, who, epoch, held=None, instance=None, **changed):
        first = epoch == JOINS
        event = ConsumerHeard(
            token=1,
            who=GroupIdentity(who, instance),
            epoch=epoch,
            client=("app", "127.0.0.1"),
            **{
                "rebalance_ms": REBALANCE_MS if first else -1,
                "topics": frozenset({"orders"}) if first else None,
                "assignor": None,
                "owned": frozenset() if first else held,
            }
            | changed,
        )
        (answer,) = self.machine.handle(event, self.now_ms)
        self.machine.check()
        return answer

    def join(self, who, instance=None, **changed):
        answer = self.hear(who, JOINS, instance=instance, **changed)
        assert answer.error is ErrorCode.NONE
        return answer

    def commits(self, who, epoch, instance=None):
        event = MemberHeard(1, GroupIdentity(who, instance), epoch, commits=True)
        (answer,) = self.machine.handle(event, self.now_ms)
        return answer.error

    def wait(self, ms):
        self.now_ms += ms
        self.machine.handle(Woke(), self.now_ms)
        self.machine.check()


@pytest.fixture
def bench():
    return Bench()


def test_what_a_member_says_has_a_bound_also_once_it_is_one():
    bench = Bench(dataclasses.replace(SETTINGS, member_bytes_max=100))
    bench.join("a")
    much = frozenset({"x" * 100})
    assert bench.hear("b", JOINS, topics=much).error is ErrorCode.INVALID_REQUEST
    assert bench.hear("a", 1, topics=much).error is ErrorCode.INVALID_REQUEST
    assert bench.machine.members["a"].topics == {"orders"}
    assert bench.hear("a", 1).error is ErrorCode.NONE


def test_the_first_member_has_everything_and_gives_half_to_the_next(bench):
    first = bench.join("a")
    assert (first.epoch, first.assignment) == (1, parts(0, 1, 2, 3))
    assert bench.hear("a", 1, parts(0, 1, 2, 3)).epoch == 1
    assert bench.hear("a", 1).assignment is None, "nothing is new"
    second = bench.join("b")
    assert (second.epoch, second.assignment) == (2, parts())
    assert bench.machine.state == RECONCILING
    told = bench.hear("a", 1)
    assert (told.epoch, told.assignment) == (1, parts(0, 1))
    assert bench.hear("b", 2).assignment is None, "they are not given up yet"
    assert bench.hear("a", 1, parts(0, 1)).epoch == 2
    assert bench.hear("b", 2).assignment == parts(2, 3)
    assert bench.machine.state == STABLE


def test_who_leaves_makes_room(bench):
    bench.join("a")
    bench.join("b")
    assert bench.hear("a", LEAVES).epoch == LEAVES
    assert bench.hear("b", 2).assignment == parts(0, 1, 2, 3)
    bench.hear("b", LEAVES)
    assert bench.machine.idle
    assert bench.machine.state == EMPTY
    assert bench.hear("b", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_silent_is_taken_for_dead(bench):
    bench.join("a")
    bench.join("b")
    bench.wait(SESSION_MS - 1)
    bench.hear("b", 2)
    bench.wait(1)
    assert bench.hear("a", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.hear("b", 2).assignment == parts(0, 1, 2, 3)
    assert bench.machine.wakeup_ms() == bench.now_ms + SESSION_MS


def test_who_does_not_give_up_what_it_has_to_is_replaced(bench):
    bench.join("a")
    bench.join("b")
    for _ in range(REBALANCE_MS // 10_000):
        assert bench.hear("a", 1).error is ErrorCode.NONE
        bench.hear("b", 2)
        bench.wait(10_000)
    assert bench.hear("a", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.hear("b", 2).assignment == parts(0, 1, 2, 3)


def test_a_lost_answer_is_given_again_and_other_epochs_are_fenced(bench):
    bench.join("a")
    bench.join("b")
    bench.hear("a", 1)
    assert bench.hear("a", 1, parts(0, 1)).epoch == 2
    again = bench.hear("a", 1, parts(0, 1))
    assert (again.error, again.epoch, again.assignment) == (ErrorCode.NONE, 2, parts(0, 1))
    for epoch, owned in ((1, None), (1, parts(0, 3)), (3, parts(0, 1))):
        assert bench.hear("a", epoch, owned).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_who_was_fenced_begins_anew_with_nothing(bench):
    bench.join("a")
    bench.join("b")
    bench.join("a")
    assert bench.hear("b", 2).assignment == parts(2, 3)
    assert bench.machine.state == STABLE


def test_topics_that_are_made_or_wanted_later_are_shared_as_well(bench):
    assert bench.join("a", topics=frozenset({"orders", "later"})).epoch == 1
    bench.counts["later"] = 2
    told = bench.hear("a", 1)
    assert (told.epoch, len(told.assignment)) == (2, 6)
    told = bench.hear("a", 2, topics=frozenset({"later"}))
    assert told.epoch == 2, "it has to give up the others first"
    assert {one.topic for one in told.assignment} == {"later"}
    assert bench.hear("a", 2, told.assignment).epoch == 3


def test_commits_are_taken_of_the_epoch_that_a_member_is_in(bench):
    assert bench.commits("", NO_GENERATION) is ErrorCode.NONE
    bench.join("a")
    assert bench.commits("a", 1) is ErrorCode.NONE
    assert bench.commits("a", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert bench.commits("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.commits("", NO_GENERATION) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "changed",
    [
        {"topics": None},
        {"owned": None},
        {"owned": parts(0)},
        {"rebalance_ms": -1},
        {"topics": frozenset({"x" * 300_000})},
    ],
)
def test_who_joins_says_all_that_it_wants_and_not_too_much(bench, changed):
    assert bench.hear("a", JOINS, **changed).error is ErrorCode.INVALID_REQUEST
    assert bench.machine.idle


def test_who_cannot_be_a_member(bench):
    assert bench.hear("", JOINS).error is ErrorCode.INVALID_REQUEST
    assert bench.hear("a", JOINS, assignor="best").error is ErrorCode.UNSUPPORTED_ASSIGNOR
    for number in range(SETTINGS.members_max):
        bench.join(f"m{number}")
    assert bench.hear("a", JOINS).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_choose_how_is_assigned(bench):
    bench.join("a", assignor="range")
    bench.join("b", assignor="range")
    bench.join("c", assignor="uniform")
    assert bench.machine.describe()[:2] == ("consumer", "range")


def test_a_static_member_comes_back_to_what_it_had(bench):
    bench.join("a", "one")
    bench.join("b", "two")
    bench.hear("a", 1, parts(0, 1), "one")
    assert bench.hear("b", 2, instance="two").assignment == parts(2, 3)
    assert bench.hear("c", JOINS, instance="two").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert bench.hear("b", PAUSES, instance="two").epoch == PAUSES
    assert bench.hear("b", 2, instance="two").error is ErrorCode.FENCED_MEMBER_EPOCH
    back = bench.join("c", "two")
    assert (back.epoch, back.assignment) == (2, parts(2, 3))
    assert bench.hear("a", 2, instance="one").assignment is None, "nobody else has noticed"
    assert bench.hear("b", 2, instance="two").error is ErrorCode.FENCED_INSTANCE_ID
    bench.hear("c", PAUSES, instance="two")
    bench.wait(SESSION_MS - 1)
    bench.hear("a", 2, instance="one")
    bench.wait(1)
    assert bench.hear("a", 2, instance="one").assignment == parts(0, 1, 2, 3)


def test_a_member_that_takes_another_name_gives_up_what_it_had(bench):
    bench.join("a", "one")
    bench.join("b", "two")
    bench.hear("a", 1, parts(0, 1), "one")
    bench.hear("b", 2, instance="two")
    bench.hear("b", PAUSES, instance="two")
    back = bench.join("a", "two")
    assert back.assignment == parts(0, 1, 2, 3), "nobody else is there"
    assert bench.hear("a", back.epoch, instance="one").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_of_the_classic_protocol_is_refused(bench):
    bench.join("a")
    join = JoinGroup(
        token=1,
        who=GroupIdentity(""),
        new_id="m",
        asked_twice=False,
        client=("", ""),
        session_ms=10_000,
        rebalance_ms=10_000,
        kind="consumer",
        protocols={"range": b""},
    )
    (answer,) = bench.machine.handle(join, 0)
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (answer,) = bench.machine.handle(LeaveGroup(1, [GroupIdentity("a")]), 0)
    assert answer.errors == [ErrorCode.UNKNOWN_MEMBER_ID]


class RandomConsumer:
    """Follows the protocol; answers get lost, it dies and sleeps, and leaves."""

    def __init__(self, bench, chance, name, instance):
        self.bench, self.chance, self.instance = bench, chance, instance
        self.lives, self.name = 0, name
        self.begin()

    def begin(self):
        self.lives += 1
        self.who = f"{self.name}-{self.lives}"
        self.epoch, self.owned, self.full = JOINS, frozenset(), True
        self.heard_ms = self.bench.now_ms

    @property
    def has(self):
        """What it works on: it stops when it was not answered for a session."""
        alive = self.bench.now_ms < self.heard_ms + SESSION_MS
        return self.owned if alive else frozenset()

    def step(self, faults):
        if not self.has and self.owned:
            self.begin()
        if faults and self.chance.random() < 0.02:
            goodbye = PAUSES if self.instance and self.chance.random() < 0.7 else LEAVES
            if self.epoch != JOINS:
                self.bench.hear(self.who, goodbye, instance=self.instance)
                self.begin()
            return
        sent_ms = self.bench.now_ms
        said = self.owned if self.full else None
        answer = self.bench.hear(self.who, self.epoch, said, self.instance)
        if faults and self.chance.random() < 0.1:
            self.full = True  # the answer was lost
            return
        if answer.error is ErrorCode.NONE:
            self.heard_ms, self.epoch = sent_ms, answer.epoch
            changed = answer.assignment is not None and answer.assignment != self.owned
            if changed:
                self.owned = answer.assignment
            self.full = changed
        elif answer.error is not ErrorCode.UNRELEASED_INSTANCE_ID:
            self.begin()


def run_consumers(seed):
    """Let some join, commit, sleep and die, and judge that nobody has what another has."""
    chance = random.Random(seed)
    bench = Bench(CoordinatorSettings(members_max=100))
    names = (("a", None), ("b", None), ("c", "static"), ("d", "static"))
    consumers = [RandomConsumer(bench, chance, *one) for one in names]
    under_way = []
    stable = 0
    for _ in range(2_000):
        if chance.random() < 0.01:
            bench.counts["orders"] = max(bench.counts["orders"], chance.randrange(8))
        one = chance.choice(consumers)
        under_way.append((one.who, one.epoch, one.has, one.instance))
        one.step(faults=True)
        bench.wait(chance.choice((0, 100, 3_000)))
        held = [partition for one in consumers for partition in one.has]
        assert len(held) == len(set(held)), "a partition has two members"
        chance.shuffle(under_way)  # they come late, more than once, or never
        del under_way[20:]
        who, epoch, committed, instance = under_way[-1]
        if committed and bench.commits(who, epoch, instance) is ErrorCode.NONE:
            others = [partition for one in consumers if one.who != who for partition in one.has]
            assert not committed.intersection(others), "a commit of who has it no more"
        stable += bench.machine.state == STABLE
    assert stable > 100
    for _ in range(60):  # long enough for all sessions to end
        for one in consumers:
            one.step(faults=False)
        bench.wait(2_000)
    held = sorted(partition for one in consumers for partition in one.has)
    assert held == sorted(parts(*range(bench.counts["orders"])))
    assert bench.machine.state == STABLE


@pytest.mark.parametrize("seed", range(40))
def test_no_partition_has_two_members_whatever_is_lost_and_whoever_dies(seed):
    run_consumers(seed)


def before_it_is_given_up(patch):
    regroup = ConsumerGroupMachine._regroup

    def regrouped(self):
        regroup(self)
        for member in self.members.values():
            for partition in member.has - member.target:
                self._release(member, partition)

    patch.setattr(ConsumerGroupMachine, "_regroup", regrouped)


def commits_of_any_epoch(patch):
    patch.setattr(ConsumerGroupMachine, "_commits", lambda self, event: self._stranger(event.who))


def two_under_one_name(patch):
    """Who starts again as a static member takes over from one that lives."""
    unfit = ConsumerGroupMachine._unfit

    def fit(self, event):
        error = unfit(self, event)
        return ErrorCode.NONE if error is ErrorCode.UNRELEASED_INSTANCE_ID else error

    patch.setattr(ConsumerGroupMachine, "_unfit", fit)


def what_is_given_up_stays(patch):
    """Who is to give something up is told that he has it."""
    answer = ConsumerGroupMachine._answer

    def told(self, member, event):
        return replace(answer(self, member, event), assignment=frozenset(member.has))

    patch.setattr(ConsumerGroupMachine, "_answer", told)


FAULTS = [
    before_it_is_given_up,
    commits_of_any_epoch,
    two_under_one_name,
    what_is_given_up_stays,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault, monkeypatch):
    fault(monkeypatch)
    assert broken_by(run_consumers, range(40))
