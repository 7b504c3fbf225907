"""Many members and stores together are in tests/dafka/testing/test_membership.py."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest

from dafka.groups.acceptor import Registers
from dafka.groups.assignment import owner
from dafka.groups.commit_table import GROUPS_TABLE, fold
from dafka.groups.events import (
    Answered,
    Ask,
    Assigned,
    Barred,
    Expelled,
    Leave,
    Left,
    Rebalanced,
    Released,
)
from dafka.groups.member import (
    MEMBER_STATES,
    SHARES_MS,
    UNSETTLED_BEAT_MS,
    MemberMachine,
    MemberState,
)
from dafka.groups.membership import Accept, Ballot, Beat, Member, Prepare, encode, fits
from dafka.limits import GROUP_MEMBERS_MAX, GROUP_NUMBER_MAX, MEMBERSHIP_BYTES_MAX
from dafka.model import Partition, replace
from dafka.protocol.events import Woke
from dafka.storage.log import TableEntry
from dafka.storage.memory import MemoryLog
from dafka.testing.membership import reply
from tests.support.lifecycles import assert_follows

SESSION_MS = 1_000
BEAT_MS = SESSION_MS // 5
ABOUT = Member((b"orders",), SESSION_MS)


class Group:
    """Stores that answer at once, if they are there, and members that are told by hand."""

    def __init__(self, stores):
        self.logs = [MemoryLog(f"S{number}") for number in range(stores)]
        self.stores = [Registers(log, -2 * SESSION_MS) for log in self.logs]
        self.away = set()
        self.now_ms = 0

    def member(self, name):
        return SimpleNamespace(machine=MemberMachine("g", name, ABOUT, len(self.stores)), said=[])

    def do(self, member, effects):
        """Let the stores answer until nothing is asked any more."""
        while effects:
            asked = [one for one in effects if isinstance(one, Ask)]
            member.said += [one for one in effects if not isinstance(one, Ask)]
            effects = []
            for ask in asked:
                if ask.store not in self.away:
                    found = reply(self.stores[ask.store], ask.request, self.now_ms)
                    answered = Answered(ask.store, ask.token, found)
                    effects += member.machine.handle(answered, self.now_ms)
        member.machine.check()

    def wake(self, *members):
        for member in members:
            self.do(member, member.machine.handle(Woke(), self.now_ms))

    def release(self, *members):
        for member in members:
            generation = member.machine.generation
            self.do(member, member.machine.handle(Released(generation), self.now_ms))

    def run(self, *members, ms):
        """Let time pass, and everybody say at once that everything is given back."""
        end = self.now_ms + ms
        while self.now_ms < end:
            self.now_ms += 10
            self.wake(*members)
            self.release(*members)

    def join(self, *names):
        members = [self.member(name) for name in names]
        self.run(*members, ms=300)
        assert all(member.machine.settled for member in members)
        return members


@pytest.fixture(params=[1, 2, 3])
def group(request):
    return Group(request.param)


def test_the_first_member(group):
    member = group.member("A")
    group.wake(member)
    assert member.said == [Assigned("A.1", 1, {"A.1": ABOUT})]
    assert not member.machine.settled
    group.release(member)
    assert member.said[1:] == [Rebalanced(1)]
    assert member.machine.generation == 1


def test_a_second_member_waits_for_what_the_first_gives_back(group):
    (first,) = group.join("A")
    second = group.member("B")
    group.wake(second)
    group.release(second)
    assert isinstance(second.said[-1], Assigned)
    group.now_ms += 200
    group.wake(first, second)
    assert first.said[-1] == Assigned("A.1", 2, {"A.1": ABOUT, "B.1": ABOUT})
    assert not second.machine.settled
    group.release(first)
    group.now_ms += 200
    group.wake(second)
    assert second.said[-1] == Rebalanced(2)


def of_hash(name, among, count):
    """Partitions that hashing gives to one of these members."""
    there = dict.fromkeys(among, ABOUT)
    numbered = (Partition("orders", f"P{number}") for number in itertools.count())
    return list(itertools.islice((one for one in numbered if owner(one, there) == name), count))


@pytest.mark.parametrize("stores", [2, 3])
def test_who_gives_back_for_a_later_generation_may_keep_what_an_earlier_one_took_from_it(stores):
    group = Group(stores)
    (first,) = group.join("A")
    second, third = group.member("B"), group.member("C")
    group.wake(second)
    group.release(second)
    between = second.said[-1]
    # Nothing but what hashing gives to the second, so that the third moves some to the first.
    third.machine.partitions = of_hash("B.1", ["A.1", "B.1", "C.1"], 6)
    group.wake(third)
    latest = third.said[-1]
    group.now_ms += BEAT_MS
    group.wake(first)
    assert first.said[-1] == replace(latest, member="A.1"), "it was never in the one between"
    group.release(first)
    kept = [
        one
        for one in third.machine.partitions
        if owner(one, between.members, between.moved) == "B.1"
        and owner(one, latest.members, latest.moved) == "A.1"
    ]
    assert kept
    group.away = {*range(1, stores)}
    group.now_ms += BEAT_MS
    group.wake(second)
    assert second.machine.generation == between.generation
    assert not second.machine.settled
    group.away = set()
    group.run(first, second, third, ms=500)
    assert [one.machine.generation for one in (first, second, third)] == [latest.generation] * 3
    assert all(one.machine.settled for one in (first, second, third))


def test_shares_that_are_uneven_are_evened_once_and_by_agreement(group):
    members = group.join("A", "B", "C")
    there = dict(members[0].machine._membership.members)
    chance, found = random.Random(1), []
    while len(found) < 9:  # all of them whose hash says A
        partition = Partition("orders", f"{chance.getrandbits(64):016X}")
        if owner(partition, there) == "A.1":
            found.append(partition)
    for member in members:
        member.machine.partitions = found
    before = members[0].machine.generation
    group.run(*members, ms=SHARES_MS // 2)
    assert members[0].machine.generation == before, "what comes together is waited for"
    group.run(*members, ms=2 * SHARES_MS)
    assert {member.machine.generation for member in members} == {before + 1}
    assert all(member.machine.settled for member in members)
    moved = members[0].machine._membership.moved
    shares = Counter(owner(partition, there, moved) for partition in found)
    assert sorted(shares.values()) == [3, 3, 3]
    group.run(*members, ms=3 * SHARES_MS)
    assert {member.machine.generation for member in members} == {before + 1}


def test_who_does_not_know_all_topics_does_not_judge_shares(group):
    # One that knows some partitions only would move back what another has moved, for ever.
    abouts = {"A": (b"a",), "B": (b"a", b"b"), "C": (b"b",)}
    members = []
    for name, topics in abouts.items():
        about = Member(topics, SESSION_MS)
        machine = MemberMachine("g", name, about, len(group.stores))
        machine.partitions = [
            Partition(topic.decode(), f"{number:X}")
            for topic in topics
            for number in range(12 if topic == b"a" else 30)
        ]
        members.append(SimpleNamespace(machine=machine, said=[]))
    group.run(*members, ms=3 * SHARES_MS)
    settled = members[0].machine.generation
    group.run(*members, ms=6 * SHARES_MS)
    assert members[0].machine.generation == settled
    assert all(member.machine.settled for member in members)


def test_a_member_that_falls_silent_is_dropped_after_its_session(group):
    first, second = group.join("A", "B")
    silent_ms = group.now_ms
    while len(first.machine._membership.members) > 1:
        group.run(first, ms=10)
        assert group.now_ms < silent_ms + 3 * SESSION_MS
    assert group.now_ms >= silent_ms + SESSION_MS
    group.wake(second)
    assert second.said[-2] == Expelled()
    assert second.machine.id == "B.2"


@pytest.mark.parametrize("silent", ["A", "B"])
@pytest.mark.parametrize("later_ms", range(0, 200, 30))
def test_who_falls_silent_is_dropped_as_soon_as_its_session_is_over(group, silent, later_ms):
    members = dict(zip("AB", group.join("A", "B"), strict=True))
    left = members.pop("B" if silent == "A" else "A")
    group.run(left, *members.values(), ms=later_ms)
    silent_ms = group.now_ms
    while len(left.machine._membership.members) > 1:
        group.run(left, ms=10)
    assert group.now_ms <= silent_ms + SESSION_MS + 2 * UNSETTLED_BEAT_MS


def test_whom_stores_miss_for_half_a_session_is_known_before_others_take_over(group):
    first, second = group.join("A", "B")
    assert first.machine.unheard() == frozenset()
    group.run(first, ms=SESSION_MS // 2 + BEAT_MS)
    assert first.machine.unheard() == {"B.1"}
    assert len(first.machine._membership.members) == 2
    group.wake(second)
    group.run(first, ms=BEAT_MS)
    assert first.machine.unheard() == frozenset()
    group.run(first, ms=2 * SESSION_MS)
    assert first.machine._membership.members.keys() == {"A.1"}
    assert first.machine.unheard() == frozenset()


@pytest.mark.parametrize(("missed_at", "unheard"), [({1}, set()), ({0, 1}, {"B.1"})])
def test_whom_most_stores_hear_is_heard(missed_at, unheard):
    group = Group(3)
    first, second = group.join("A", "B")
    for _ in range(SESSION_MS // BEAT_MS):
        group.now_ms += BEAT_MS
        group.away = missed_at
        group.wake(second)
        group.away = set()
        group.wake(first)
    assert first.machine.unheard() == unheard


def test_a_member_that_no_store_hears_stops_when_its_session_is_over(group):
    (member,) = group.join("A")
    group.away = {0, 1, 2}
    group.run(member, ms=SESSION_MS - 250)
    assert Expelled() not in member.said
    group.run(member, ms=300)
    assert Expelled() in member.said
    assert member.machine.generation == 0
    group.away = set()
    group.run(member, ms=3_000)
    assert member.machine.settled
    assert member.machine.id == "A.2"


def test_of_three_stores_one_may_be_away():
    group = Group(3)
    group.away = {1}
    first, second = group.join("A", "B")
    group.run(first, second, ms=5 * SESSION_MS)
    assert Expelled() not in first.said + second.said


def test_with_one_of_two_stores_members_go_on_and_nobody_joins_or_is_dropped():
    group = Group(2)
    first, second = group.join("A", "B")
    group.away = {1}
    third = group.member("C")
    group.run(first, third, ms=5 * SESSION_MS)
    assert first.machine.settled
    assert Expelled() not in first.said
    assert first.machine._membership.members.keys() == {"A.1", "B.1"}
    assert third.said == []
    group.away = set()
    group.run(first, third, ms=5 * SESSION_MS)
    assert third.machine.settled
    assert first.machine._membership.members.keys() == {"A.1", "C.1"}
    group.wake(second)
    assert Expelled() in second.said


def test_a_store_that_was_away_learns_what_it_has_missed():
    group = Group(3)
    group.away = {2}
    (member,) = group.join("A")
    assert group.stores[2].roster("g", 0).membership == b""
    group.away = set()
    generation = member.machine.generation
    group.run(member, ms=2 * SESSION_MS)
    assert group.stores[2].roster("g", group.now_ms).membership != b""
    assert member.machine.generation == generation, "nobody pauses for it"


def test_a_store_that_never_takes_anything_is_proposed_to_once_a_session():
    group = Group(3)
    (member,) = group.join("A")
    group.stores[2] = Registers(MemoryLog("EF" * 16), 1 << 40)
    before = group.stores[0].roster("g", group.now_ms).accepted.number
    group.run(member, ms=10 * SESSION_MS)
    rounds = group.stores[0].roster("g", group.now_ms).accepted.number - before
    assert 5 <= rounds <= 10
    assert member.machine.settled


def test_leaving_is_quick_and_the_others_take_over_at_once(group):
    first, second = group.join("A", "B")
    group.do(first, first.machine.handle(Leave(), group.now_ms))
    assert first.said[-1] == Left()
    assert first.machine.wakeup_ms() is None
    assert first.machine.handle(Woke(), group.now_ms) == []
    group.run(second, ms=500)
    assert second.machine.settled
    assert second.machine._membership.members.keys() == {"B.1"}


def test_leaving_before_it_has_joined():
    member = Group(1).member("A")
    assert member.machine.handle(Leave(), 0) == [Left()]


def test_leaving_ends_with_the_lease_if_no_store_hears_it(group):
    (member,) = group.join("A")
    group.away = {0, 1, 2}
    group.do(member, member.machine.handle(Leave(), group.now_ms))
    group.run(member, ms=SESSION_MS + 100)
    assert member.said[-2:] == [Expelled(), Left()]


def test_the_next_generation_is_above_every_commit(group, committed):
    batch = committed(0, ("g", Partition("orders", "A1"), 3, 41, 1))
    for log in group.logs:
        log.append([batch], entries=fold(log, [batch]).entries)
    (member,) = group.join("A")
    assert member.machine.generation == 42


def test_a_commit_of_somebody_outside_makes_a_new_generation(group, committed):
    (member,) = group.join("A")
    batch = committed(0, ("g", Partition("orders", "A1"), 3, 41, 1))
    for log in group.logs:
        log.append([batch], entries=fold(log, [batch]).entries)
    group.run(member, ms=500)
    assert member.machine.generation == 42
    assert member.machine.settled


def test_it_knows_which_stores_are_silent(group):
    (member,) = group.join("A")
    assert member.machine.silent_since(group.now_ms) == frozenset()
    group.away = {0}
    began_ms = group.now_ms
    group.run(member, ms=SESSION_MS // 2)
    assert member.machine.silent_since(began_ms + 1) == {0}
    group.away = set()
    group.run(member, ms=SESSION_MS // 2)
    assert member.machine.silent_since(began_ms + 1) == frozenset()


def test_a_member_with_other_stores_is_told(group):
    group.join("A")
    stranger = SimpleNamespace(machine=MemberMachine("g", "B", ABOUT, 4), said=[])
    group.stores += [
        Registers(MemoryLog(f"X{number}"), -2 * SESSION_MS)
        for number in range(4 - len(group.stores))
    ]
    group.wake(stranger)
    theirs = len(group.logs)
    if theirs == 1:
        return  # one of four is no majority: it may be missed, and is what the guard cannot do
    (barred,) = stranger.said
    assert f"kept by {theirs} stores, this consumer was given 4" in barred.complaint


def as_many_as_may_be(membership):
    others = {f"X{number}": ABOUT for number in range(GROUP_MEMBERS_MAX - len(membership.members))}
    return replace(membership, members=membership.members | others)


def as_long_as_may_be(membership):
    other = Member((b"",), SESSION_MS)
    found = replace(membership, members=membership.members | {"X": other})
    room = MEMBERSHIP_BYTES_MAX - len(encode(found))
    long = other._replace(topics=(b"x" * room,))
    return replace(found, members=found.members | {"X": long})


@pytest.mark.parametrize("filled", [as_many_as_may_be, as_long_as_may_be])
def test_who_does_not_fit_in_is_told_and_those_within_go_on(group, filled):
    (first,) = group.join("A")
    full = filled(first.machine._membership)
    assert fits(full)
    accept = Accept("g", Ballot(1 << 20, "A.1"), encode(full))
    assert all(store.accept(accept, group.now_ms).granted for store in group.stores)
    second = group.member("B")
    group.run(first, second, ms=500)
    assert "has no room for this consumer" in second.said[-1].complaint
    assert not [one for one in first.said if isinstance(one, Barred)]
    assert first.machine.settled
    assert first.machine._membership.members == full.members


def test_who_finds_no_generation_left_is_told(group):
    # As a version that did not bound them has left it; and as many as there are have been used.
    used_up = TableEntry(GROUPS_TABLE, b"g", GROUP_NUMBER_MAX.to_bytes(8, "big"))
    for log in group.logs:
        log.append([], entries=[used_up])
    member = group.member("A")
    group.run(member, ms=100)
    assert f"with epoch {GROUP_NUMBER_MAX}" in member.said[-1].complaint
    assert member.machine.generation == 0


def test_answers_to_nothing_change_nothing(group):
    member = group.member("A")
    effects = member.machine.handle(Woke(), 0)
    promise = group.stores[0].prepare(effects[0].request, 0)
    roster = group.stores[0].roster("g", 0)
    assert isinstance(effects[0].request, Prepare)
    assert member.machine.handle(Answered(0, 99, promise), 0) == []
    assert member.machine.handle(Answered(0, effects[0].token, roster), 0) == []


def test_a_store_that_sends_nonsense_is_as_one_that_does_not_answer(group):
    (member,) = group.join("A")
    group.now_ms += 300
    beats = member.machine.handle(Woke(), group.now_ms)
    assert isinstance(beats[0].request, Beat)
    roster = group.stores[0].roster("g", group.now_ms)
    nonsense = roster._replace(accepted=roster.accepted._replace(number=99), membership=b"[]")
    member.machine.handle(Answered(0, beats[0].token, nonsense), group.now_ms)
    member.machine.check()


def arrives(group, member):
    group.wake(member)


def releases(group, member):
    group.release(member)


def says_goodbye(group, member):
    group.do(member, member.machine.handle(Leave(), group.now_ms))


def says_goodbye_unheard(group, member):
    group.away = {0}
    says_goodbye(group, member)


def is_not_heard(group, member):
    group.away = {0}
    group.now_ms += SESSION_MS
    group.wake(member)


def gets_company(group, member):
    group.wake(group.member("B"))
    group.now_ms += 300
    group.wake(member)


INTO = {
    MemberState.JOINING: [],
    MemberState.RECONCILING: [arrives],
    MemberState.STABLE: [arrives, releases],
    MemberState.LEAVING: [arrives, releases, says_goodbye_unheard],
    MemberState.LEFT: [says_goodbye],
}
CHANGES = {
    (MemberState.JOINING, MemberState.RECONCILING): arrives,
    (MemberState.JOINING, MemberState.LEFT): says_goodbye,
    (MemberState.RECONCILING, MemberState.STABLE): releases,
    (MemberState.RECONCILING, MemberState.LEAVING): says_goodbye_unheard,
    (MemberState.RECONCILING, MemberState.JOINING): is_not_heard,
    (MemberState.STABLE, MemberState.RECONCILING): gets_company,
    (MemberState.STABLE, MemberState.LEAVING): says_goodbye_unheard,
    (MemberState.STABLE, MemberState.JOINING): is_not_heard,
    (MemberState.LEAVING, MemberState.LEFT): is_not_heard,
}


@pytest.mark.parametrize("state", MemberState)
@pytest.mark.parametrize("following", MemberState)
def test_its_states_follow_each_other_as_the_table_says(state, following):
    group = Group(1)
    member = group.member("A")
    for happens in INTO[state]:
        happens(group, member)
    assert member.machine.state is state
    change = CHANGES.get((state, following))
    given = change and partial(change, group, member)
    assert_follows(member.machine._lifecycle, MEMBER_STATES, following, given)


def test_who_has_left_does_nothing_more(group):
    (member,) = group.join("A")
    says_goodbye(group, member)
    for event in (Woke(), Released(1), Leave(), Answered(0, 1, group.stores[0].roster("g", 0))):
        assert member.machine.handle(event, group.now_ms) == []
    assert member.machine.generation == 0
