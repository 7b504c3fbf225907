from __future__ import annotations

import random

import pytest

from dafka.gateway.broker import ErrorCode
from dafka.gateway.coordinator import CoordinatorMachine, CoordinatorSettings, KafkaGroupState
from dafka.gateway.group_events import (
    NO_GENERATION,
    GroupAnswer,
    GroupIdentity,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    MemberHeard,
    SyncAnswer,
    SyncGroup,
)
from dafka.protocol.events import Woke
from tests.support.kafka_groups import subscription

SESSION_MS, REBALANCE_MS = 10_000, 60_000
SETTINGS = CoordinatorSettings(initial_delay_ms=500, members_max=4)
RANGE = {"range": b"orders"}


class Bench:
    """A coordinator, its clock, and what it has answered by token."""

    def __init__(self):
        self.machine = CoordinatorMachine(SETTINGS)
        self.now_ms = 0
        self.tokens = 0
        self.answers = {}

    def tell(self, make, *args, **kwargs):
        """Give it an event; returns the token."""
        self.tokens += 1
        self._give(make(self.tokens, *args, **kwargs))
        return self.tokens

    def _give(self, event):
        for answer in self.machine.handle(event, self.now_ms):
            assert answer.token not in self.answers, "answered twice"
            self.answers[answer.token] = answer
        self.machine.check()

    def wait(self, ms):
        end_ms = self.now_ms + ms
        while (due_ms := self.machine.wakeup_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._give(Woke())
        self.now_ms = end_ms

    def join(self, who="", instance=None, protocols=RANGE, asked_twice=False, **changed):
        def make(token):
            settings = {
                "client": ("app", "127.0.0.1"),
                "session_ms": SESSION_MS,
                "rebalance_ms": REBALANCE_MS,
                "kind": "consumer",
            }
            return JoinGroup(
                token=token,
                who=GroupIdentity(who, instance),
                new_id=f"m{token}",
                asked_twice=asked_twice,
                protocols=protocols,
                **(settings | changed),
            )

        return self.tell(make)

    def sync(self, who, generation, assignments=None, **changed):
        kind, protocol = changed.get("kind", "consumer"), changed.get("protocol", "range")
        identity = GroupIdentity(who, changed.get("instance"))
        return self.tell(SyncGroup, identity, generation, kind, protocol, assignments or {})

    def hear(self, who, generation, *, commits=False, instance=None):
        token = self.tell(MemberHeard, GroupIdentity(who, instance), generation, commits)
        return self.answers[token].error

    def leave(self, *who):
        return self.answers[self.tell(LeaveGroup, [GroupIdentity(*one) for one in who])].errors

    def joined(self, token) -> JoinAnswer:
        answer = self.answers[token]
        assert answer.error is ErrorCode.NONE
        return answer

    def settled(self, members, **joins):
        """A stable group of so many; returns their ids, the leader's first."""
        tokens = [self.join(**joins) for _ in range(members)]
        self.wait(SETTINGS.initial_delay_ms)
        answers = [self.joined(token) for token in tokens]
        ids = [answer.member for answer in answers]
        generation = answers[0].generation
        waits = [self.sync(name, generation) for name in ids[1:]]
        parts = {name: name.encode() for name in ids}
        waits.append(self.sync(ids[0], generation, parts))
        for token in waits:
            assert self.answers[token].assignment
        assert self.machine.state is KafkaGroupState.STABLE
        return ids


@pytest.fixture
def bench():
    return Bench()


def test_those_who_come_together_are_one_generation_with_one_leader(bench):
    tokens = [bench.join(), bench.join()]
    assert not bench.answers, "an empty group waits for more"
    bench.wait(SETTINGS.initial_delay_ms)
    first, second = map(bench.joined, tokens)
    assert first.generation == second.generation == 1
    assert first.leader == second.leader == first.member
    assert [who.member for who, _ in first.members] == [first.member, second.member]
    assert not second.members
    waiting = bench.sync(second.member, 1)
    assert waiting not in bench.answers
    leading = bench.sync(first.member, 1, {second.member: b"all"})
    assert bench.answers[waiting].assignment == b"all"
    assert bench.answers[leading].assignment == b""
    assert bench.machine.state is KafkaGroupState.STABLE


def test_a_new_member_asks_twice_and_is_waited_for_until_its_session_is_over(bench):
    refused = bench.answers[bench.join(asked_twice=True)]
    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
    assert not bench.machine.idle
    token = bench.join(refused.member, asked_twice=True)
    bench.wait(SETTINGS.initial_delay_ms)
    assert bench.joined(token).member == refused.member
    late = bench.answers[bench.join(asked_twice=True)].member
    bench.wait(SESSION_MS)
    for name in (late, "nobody"):
        unknown = bench.answers[bench.join(name, asked_twice=True)]
        assert unknown.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_was_invited_and_does_not_come_holds_up_nobody_for_ever(bench):
    (only,) = bench.settled(1)
    bench.join(asked_twice=True)
    again = bench.join(only, protocols={"range": b"more"})
    assert again not in bench.answers
    bench.wait(SESSION_MS)
    assert bench.joined(again).generation == 2


def test_a_rebalance_waits_for_all_and_then_goes_on_without_who_does_not_come(bench):
    first, second = bench.settled(2)
    third = bench.join()
    assert bench.hear(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(first)
    assert third not in bench.answers
    for _ in range(REBALANCE_MS // 5_000 + 1):
        bench.hear(second, 1)  # it lives, and does not join
        bench.wait(5_000)
    assert bench.joined(third).generation == bench.joined(again).generation == 2
    assert bench.hear(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(bench.joined(again).members) == 2


def test_a_member_that_is_silent_is_replaced(bench):
    first, second = bench.settled(2)
    bench.wait(SESSION_MS - 1)
    assert bench.hear(first, 1) is ErrorCode.NONE
    bench.wait(1)
    assert bench.hear(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.joined(bench.join(first)).generation == 2
    assert bench.hear(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_assign_is_replaced_though_it_lives(bench):
    tokens = [bench.join(), bench.join()]
    bench.wait(SETTINGS.initial_delay_ms)
    leader, other = (bench.joined(token).member for token in tokens)
    waiting = bench.sync(other, 1)
    for _ in range(REBALANCE_MS // 5_000 + 1):
        bench.hear(leader, 1)
        bench.wait(5_000)
    assert bench.answers[waiting].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.hear(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.joined(bench.join(other)).leader == other


def test_who_leaves_is_not_waited_for(bench):
    first, second = bench.settled(2)
    assert bench.leave((second,), ("nobody",)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.joined(bench.join(first)).generation == 2
    assert bench.leave((first,)) == [ErrorCode.NONE]
    assert bench.machine.state is KafkaGroupState.EMPTY
    assert bench.machine.idle


def test_leaving_while_waiting_answers_what_is_waited_for(bench):
    first, second = bench.settled(2)
    waiting = bench.join(first, protocols={"range": b"more"})
    bench.leave((first,))
    assert bench.answers[waiting].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.hear(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_lost_answer_is_given_again_without_a_rebalance(bench):
    first, second = bench.settled(2)
    again = bench.joined(bench.join(second))
    assert (again.generation, again.leader) == (1, first)
    assert bench.answers[bench.sync(second, 1)].assignment == second.encode()
    assert bench.machine.state is KafkaGroupState.STABLE


def test_a_leader_that_joins_again_assigns_anew(bench):
    first, second = bench.settled(2)
    leading = bench.join(first)
    assert bench.machine.state is KafkaGroupState.PREPARING
    bench.join(second)
    assert bench.joined(leading).generation == 2
    assert bench.joined(leading).members


def test_asking_again_on_another_connection_ends_the_wait_on_the_first(bench):
    first, second = bench.settled(2)
    lost = bench.join(second, protocols={"range": b"more"})
    found = bench.join(second, protocols={"range": b"more"})
    assert bench.answers[lost].error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(first)
    assert bench.joined(found).generation == 2
    lost = bench.sync(second, 2)
    bench.sync(second, 2)
    assert bench.answers[lost].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_protocol_is_one_that_all_have_and_most_prefer(bench):
    both = {"sticky": b"1", "range": b"2"}
    tokens = [bench.join(protocols={"range": b"0"}), bench.join(protocols=both)]
    bench.wait(SETTINGS.initial_delay_ms)
    leader = bench.joined(tokens[0])
    assert leader.protocol == "range"
    assert [metadata for _, metadata in leader.members] == [b"0", b"2"]
    refused = bench.answers[bench.join(protocols={"roundrobin": b""})]
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"instance": ""}, ErrorCode.INVALID_REQUEST),
        ({"session_ms": 999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"kind": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"kind": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_who_cannot_be_a_member(bench, changed, error):
    bench.settled(1)
    assert bench.answers[bench.join(**changed)].error is error
    assert bench.machine.state is KafkaGroupState.STABLE


def test_a_group_has_room_for_so_many(bench):
    names = bench.settled(SETTINGS.members_max)
    assert bench.answers[bench.join()].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.hear(names[0], 1) is ErrorCode.NONE


def test_of_another_generation_nothing_is_taken(bench):
    (name,) = bench.settled(1)
    assert bench.hear(name, 2) is ErrorCode.ILLEGAL_GENERATION
    assert bench.hear(name, 0, commits=True) is ErrorCode.ILLEGAL_GENERATION
    assert bench.answers[bench.sync(name, 0)].error is ErrorCode.ILLEGAL_GENERATION
    wrong = bench.answers[bench.sync(name, 1, protocol="sticky")]
    assert wrong.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_commits_while_others_prepare_and_none_before_there_are_assignments(bench):
    first, _ = bench.settled(2)
    third = bench.join()
    assert bench.hear(first, 1, commits=True) is ErrorCode.NONE
    again = bench.join(first)
    bench.wait(SESSION_MS)  # the other one is silent
    assert bench.joined(again).generation == 2
    assert bench.hear(first, 2, commits=True) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.hear(first, 2) is ErrorCode.NONE
    assert bench.joined(third).generation == 2


def test_who_is_no_member_commits_to_an_empty_group_only(bench):
    assert bench.hear("", NO_GENERATION, commits=True) is ErrorCode.NONE
    assert bench.hear("", NO_GENERATION) is ErrorCode.UNKNOWN_MEMBER_ID
    bench.settled(1)
    assert bench.hear("", NO_GENERATION, commits=True) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_starts_again_without_a_rebalance(bench):
    tokens = [bench.join(instance="a"), bench.join(instance="b")]
    bench.wait(SETTINGS.initial_delay_ms)
    first, second = (bench.joined(token).member for token in tokens)
    bench.sync(first, 1, {first: b"1", second: b"2"}, instance="a")
    for name, old in (("b", second), ("a", first)):
        again = bench.joined(bench.join(instance=name))
        assert again.generation == 1
        assert again.member != old
        assert not again.members, "who led does not assign again"
        synced = bench.answers[bench.sync(again.member, 1, instance=name)]
        assert synced.assignment == {"a": b"1", "b": b"2"}[name]
        assert bench.hear(old, 1, instance=name) is ErrorCode.FENCED_INSTANCE_ID
    assert bench.answers[bench.join(old, instance="a")].error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.machine.state is KafkaGroupState.STABLE
    assert bench.leave(("", "a"), ("", "c")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize(
    ("kind", "told", "moves"),
    [
        ("consumer", subscription("orders") + b"nothing yet", False),
        ("consumer", subscription("orders", "more"), True),
        ("connect", subscription("orders") + b"nothing yet", True),
    ],
)
def test_a_static_member_rebalances_where_it_wants_other_topics(bench, kind, told, moves):
    had = subscription("orders") + b"what it had"
    token = bench.join(instance="a", kind=kind, protocols={"sticky": had})
    bench.wait(SETTINGS.initial_delay_ms)
    member = bench.joined(token).member
    bench.sync(member, 1, {member: b"1"}, instance="a", kind=kind, protocol="sticky")
    again = bench.join(instance="a", kind=kind, protocols={"sticky": told})
    assert bench.joined(again).generation == (2 if moves else 1)


def test_a_static_member_that_is_away_keeps_its_part_until_its_session_is_over(bench):
    (first,) = bench.settled(1, instance="a")
    second = bench.join(instance="b", rebalance_ms=SESSION_MS)
    again = bench.join(first, instance="a")
    assert bench.joined(again).generation == bench.joined(second).generation == 2
    bench.sync(first, 2, {first: b"1"}, instance="a")
    third = bench.join(session_ms=1_000, rebalance_ms=1_000)
    bench.wait(SESSION_MS - 1)
    assert third not in bench.answers
    bench.wait(1)
    assert bench.joined(third).generation == 3


def test_who_was_invited_cannot_take_the_name_of_a_static_member(bench):
    bench.settled(1, instance="a")
    invited = bench.answers[bench.join(asked_twice=True)].member
    refused = bench.answers[bench.join(invited, instance="a")]
    assert refused.error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_fences_what_its_other_self_waits_for(bench):
    bench.settled(1)
    old = bench.join(instance="a")
    new = bench.join(instance="a")
    assert bench.answers[old].error is ErrorCode.FENCED_INSTANCE_ID
    assert new not in bench.answers


def test_tools_are_shown_members_with_what_they_told_and_got(bench):
    (name,) = bench.settled(1, instance="a")
    kind, protocol, (member,) = bench.machine.describe()
    assert (kind, protocol) == ("consumer", "range")
    assert member.who == GroupIdentity(name, "a")
    assert (member.metadata, member.assignment) == (b"orders", name.encode())
    bench.join(name, instance="a")
    bench.join()
    assert bench.machine.describe()[1] == ""


class RandomClient:
    """Follows the protocol, with answers that are lost and lives that end."""

    def __init__(self, bench, chance):
        self.bench, self.chance = bench, chance
        self.instance = f"i{id(self)}" if chance.random() < 0.3 else None
        self.name, self.generation, self.token = "", NO_GENERATION, None
        self.assignment = None
        self.dead = False

    def step(self):
        if self.chance.random() < 0.01:
            self.dead = not self.dead
            if not self.dead:
                self.name, self.token, self.assignment = "", None, None
        if self.dead:
            return
        if self.token is None:
            self._ask()
        elif (answer := self.bench.answers.get(self.token)) is not None:
            self.token = None
            if self.chance.random() < 0.9:
                self._hear(answer)

    def _ask(self):
        if self.assignment is not None and self.chance.random() < 0.9:
            self.token = self.bench.tell(
                MemberHeard, GroupIdentity(self.name, self.instance), self.generation, False
            )
        elif self.assignment is not None and self.chance.random() < 0.1:
            self.bench.leave((self.name, self.instance))
            self.name, self.assignment = "", None
        else:
            asked_twice = self.chance.random() < 0.5
            self.token = self.bench.join(self.name, self.instance, asked_twice=asked_twice)

    def _hear(self, answer):
        match answer:
            case JoinAnswer(error=ErrorCode.NONE):
                self.name, self.generation = answer.member, answer.generation
                who = GroupIdentity(self.name, self.instance)
                parts = {one.member: one.member.encode() for one, _ in answer.members}
                self.token = self.bench.tell(
                    SyncGroup, who, self.generation, answer.kind, answer.protocol, parts
                )
            case SyncAnswer(error=ErrorCode.NONE):
                self.assignment = self.generation, answer.assignment
            case JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED):
                self.name = answer.member
            case GroupAnswer(error=ErrorCode.NONE) | LeaveAnswer():
                pass
            case _:
                self.assignment = None
                if answer.error is not ErrorCode.REBALANCE_IN_PROGRESS:
                    self.name = ""


@pytest.mark.parametrize("seed", range(40))
def test_members_agree_whatever_is_lost_and_whoever_dies(seed):
    chance = random.Random(seed)
    bench = Bench()
    clients = [RandomClient(bench, chance) for _ in range(3)]
    stable = 0
    for _ in range(2_000):
        chance.choice(clients).step()
        bench.wait(chance.choice((0, 0, 10, 300)))
        parts = [one.assignment for one in clients if one.assignment is not None]
        held = [part for part in parts if part[1]]
        assert len(set(held)) == len(held), "a part has two owners in one generation"
        stable += bench.machine.state is KafkaGroupState.STABLE
    assert stable > 100
    bench.wait(REBALANCE_MS + SESSION_MS)
    waiting = {one.token for one in clients} - {None}
    assert waiting <= bench.answers.keys(), "nobody waits for ever"
    assert bench.machine.state is KafkaGroupState.EMPTY
