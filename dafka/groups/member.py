"""A member's part in agreeing on the members of its group.

There is no coordinator that could die. Every member proposes to the stores to mend what it finds
wrong: that it is missing, or that another has fallen silent. What more than half of the stores have
taken holds, and is a new generation.

A member beats to all stores. Of N stores more than half, W, agree on members, so N - W + 1 of them
hear whoever may not be dropped: a member that was heard by so many within its session holds a
*lease*. Without one it has to stop at once, for it may have been replaced; it comes back as
somebody else.

In a new generation everybody first gives back what is no longer its own, and says so (`released`).
When all have, the generation is *settled*: what it gives to a member nobody else has any more. So
no partition has two owners, in no generation and at no time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dafka.errors import WireError
from dafka.groups.assignment import evened
from dafka.groups.events import (
    Answered,
    Ask,
    Assigned,
    Barred,
    Expelled,
    Leave,
    Left,
    MemberEffect,
    MemberEvent,
    Rebalanced,
    Released,
)
from dafka.groups.membership import (
    NO_BALLOT,
    NOBODY,
    Accept,
    Accepted,
    Ballot,
    Beat,
    Member,
    Membership,
    Prepare,
    Promise,
    Roster,
    decode,
    encode,
    fits,
)
from dafka.groups.proposer import Proposer
from dafka.limits import GROUP_MEMBERS_MAX, GROUP_NUMBER_MAX, MEMBERSHIP_BYTES_MAX
from dafka.model import replace
from dafka.protocol.events import Woke
from dafka.protocol.machine import Lifecycle, earliest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dafka.groups.membership import Pulse, Request
    from dafka.model import Partition

BEAT_MS_MAX = 1_000
"""Longest time between two beats; a fifth of the session if that is shorter."""

SHARES_MS = 10_000
"""How often it is looked whether shares are even: new partitions come together, and each time that
some are moved all members pause."""

UNSETTLED_BEAT_MS = 50
"""While a generation is not settled, somebody waits for every answer."""


class MemberState(Enum):
    """Where a member stands with its group; the words are those of Kafka's members (KIP-848)."""

    JOINING = "joining"
    """In no generation: proposes one that it is in."""
    RECONCILING = "reconciling"
    """In one in which somebody has still to give back what is another's."""
    STABLE = "stable"
    """In one that is settled."""
    LEAVING = "leaving"
    """Has given everything back, and is still waited for."""
    LEFT = "left"


MEMBER_STATES = {
    # It is in the generation that was agreed on; nobody has heard of it.
    MemberState.JOINING: {MemberState.RECONCILING, MemberState.LEFT},
    # Everybody has given back; it says goodbye; it has no lease any more, or was dropped.
    MemberState.RECONCILING: {MemberState.STABLE, MemberState.LEAVING, MemberState.JOINING},
    # There is a new generation; it says goodbye; it has no lease any more, or was dropped.
    MemberState.STABLE: {MemberState.RECONCILING, MemberState.LEAVING, MemberState.JOINING},
    # Enough stores know, or its lease is over.
    MemberState.LEAVING: {MemberState.LEFT},
    MemberState.LEFT: frozenset[MemberState](),
}

_IN_GENERATION = MemberState.RECONCILING, MemberState.STABLE, MemberState.LEAVING


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request under way."""

    store: int
    sent_ms: int
    request: Request


class MemberMachine:
    """One member.

    Args:
        group: Whose.
        address: What its ids begin with; nobody else's do.
        about: Its topics and session.
        stores: How many stores there are: `Ask` numbers them from 0.
    """

    def __init__(self, group: str, address: str, about: Member, stores: int) -> None:
        self._group = group
        self._address = address
        self._about = about
        self._stores = stores
        self._proposer = Proposer(group, stores, about.session_ms)
        self._beat_ms = min(BEAT_MS_MAX, about.session_ms // 5)
        self._life = 1
        self._asked: dict[int, _Asked] = {}
        self._token = 0
        self._heard_ms: dict[int, int] = {}
        """When each store answered last, or was first asked."""
        self._rosters: dict[int, Roster] = {}
        self._ballot = NO_BALLOT
        self._membership = NOBODY
        """The last that is known to be agreed on."""
        self._lifecycle = Lifecycle(MEMBER_STATES)
        self._renewed: dict[int, int] = {}
        """When the beats were sent by which the stores heard this member last."""
        self._lease_ms: int | None = None
        self._released = 0
        """The last generation in which it has given back what is not its own."""
        self._settled = 0
        """The last one in which everybody has."""
        self._blank_ms: dict[int, int] = {}
        """Stores without a membership, and since when that is known, or was proposed against."""
        self._wrong_since_ms: int | None = None
        self._next_beat_ms = 0
        self._farewells: set[int] = set()
        """Stores that know that it leaves."""
        self.partitions: Collection[Partition] = ()
        """What there is to share, as far as its consumer knows, which sets this."""
        self._uneven = False
        """Whether that is not shared well, when it was last looked at."""
        self._shares_due_ms = 0

    @property
    def id(self) -> str:
        """Its present id."""
        return f"{self._address}.{self._life}"

    @property
    def generation(self) -> int:
        """The last one it has taken notice of; 0 while it is no member."""
        return self._membership.generation if self._joined else 0

    @property
    def settled(self) -> bool:
        """Whether everybody has given back what is not theirs in this generation."""
        return 0 < self._settled == self._membership.generation

    @property
    def state(self) -> MemberState:
        """Where it stands."""
        return self._lifecycle.state

    @property
    def _joined(self) -> bool:
        return self.state in _IN_GENERATION

    def handle(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Take one event in; see `Machine`."""
        if self.state is MemberState.LEFT:
            return []
        match event:
            case Woke():
                return self._wake(now_ms)
            case Answered():
                return self._answered(event, now_ms)
            case Released():
                if event.generation != self.generation:
                    return []
                self._released = event.generation
                return self._beat(now_ms)
            case Leave():
                return self._leave(now_ms)

    def wakeup_ms(self) -> int | None:
        """When a beat or a proposal is due, or the lease is over; None once it has left."""
        if self.state is MemberState.LEFT:
            return None
        proposes = not self._joined or self._proposer.ballot is not None
        return earliest(
            self._next_beat_ms if self._joined else None,
            self._lease_ms,
            self._proposer.due_ms if proposes else None,
        )

    def silent_since(self, then_ms: int) -> frozenset[int]:
        """The stores that are asked all the time and have answered nothing since then."""
        return frozenset(store for store, at_ms in self._heard_ms.items() if at_ms < then_ms)

    def unheard(self) -> frozenset[str]:
        """The others that most stores have missed for half a session: they may well be dead.

        Nobody takes their place before the session is over; but who sends others to them had
        better wait.
        """

        def misses(pulse: Pulse, about: Member) -> bool:
            return not pulse.alive or 2 * pulse.silent_ms > about.session_ms

        return frozenset(self._missed(misses))

    @property
    def lease_ms(self) -> int | None:
        """Until when it may do its work, unless it hears from the stores; None: not at all."""
        return self._lease_ms

    def check(self) -> None:
        """Assert that what it has and has said fits its state."""
        generation = self._membership.generation
        assert self._released <= generation
        assert self._settled <= generation
        self._proposer.check()
        if self._joined:
            assert self.id in self._membership.members
        match self.state:
            case MemberState.JOINING:
                assert self._released == self._settled == 0
            case MemberState.RECONCILING:
                assert self._settled < generation
            case MemberState.STABLE:
                assert self._settled == generation
                assert self._lease_ms is not None
            case _:
                assert self._proposer.ballot is None

    def _wake(self, now_ms: int) -> list[MemberEffect]:
        effects = self._expire(now_ms)
        if self._joined and now_ms >= self._next_beat_ms:
            effects += self._beat(now_ms)
        if now_ms >= self._proposer.due_ms:
            if self._proposer.ballot is not None:
                self._proposer.fail(now_ms)
            elif self._wrong(now_ms):
                effects += self._ask_all(self._proposer.begin(self.id, now_ms), now_ms)
        return effects

    def _answered(self, event: Answered, now_ms: int) -> list[MemberEffect]:
        asked = self._asked.pop(event.token, None)
        if asked is None or asked.store != event.store:
            return []
        self._heard_ms[event.store] = now_ms
        effects = self._expire(now_ms)
        if self.state is MemberState.LEFT:
            return effects
        try:
            match event.reply, asked.request:
                case Roster() as roster, Beat() as beat:
                    effects += self._hear(asked, beat, roster, now_ms)
                case Promise() as promise, Prepare() as prepare:
                    effects += self._promised(asked, prepare, promise, now_ms)
                case Accepted() as accepted, Accept() as accept:
                    effects += self._accepted(asked, accept, accepted, now_ms)
                case _:
                    pass  # not an answer to that: as if there were none
        except WireError:
            pass  # likewise
        return effects

    def _leave(self, now_ms: int) -> list[MemberEffect]:
        self._proposer.stop()
        if not self._joined:
            self._lifecycle.become(MemberState.LEFT)
            return [Left()]
        self._lifecycle.become(MemberState.LEAVING)
        return self._beat(now_ms)

    def _expire(self, now_ms: int) -> list[MemberEffect]:
        if not self._joined or self._lease_ms is None or now_ms < self._lease_ms:
            return []
        return self._expel()

    def _expel(self) -> list[MemberEffect]:
        """Be somebody else from now on: under this id nobody expects anything any more."""
        self._life += 1
        self._renewed.clear()
        self._lease_ms = None
        self._released = self._settled = 0
        self._proposer.stop()
        if self.state is MemberState.LEAVING:
            self._lifecycle.become(MemberState.LEFT)
            return [Expelled(), Left()]
        self._lifecycle.become(MemberState.JOINING)
        return [Expelled()]

    def _ask(self, store: int, request: Request, now_ms: int) -> Ask:
        self._token += 1
        self._heard_ms.setdefault(store, now_ms)
        self._asked[self._token] = _Asked(store, now_ms, request)
        return Ask(store, self._token, request)

    def _ask_all(self, request: Request, now_ms: int) -> list[MemberEffect]:
        old_ms = now_ms - self._about.session_ms
        for token in [token for token, asked in self._asked.items() if asked.sent_ms < old_ms]:
            del self._asked[token]
        return [self._ask(store, request, now_ms) for store in range(self._stores)]

    def _beat(self, now_ms: int) -> list[MemberEffect]:
        interval_ms = self._beat_ms if self.settled else min(UNSETTLED_BEAT_MS, self._beat_ms)
        self._next_beat_ms = now_ms + interval_ms
        leaving = self.state is MemberState.LEAVING
        beat = Beat(self._group, self.id, self._released, leaving)
        return self._ask_all(beat, now_ms)

    def _hear(self, asked: _Asked, beat: Beat, roster: Roster, now_ms: int) -> list[MemberEffect]:
        before = self._rosters.get(asked.store)
        if before is not None and NO_BALLOT < roster.accepted < before.accepted:
            return []
        self._rosters[asked.store] = roster
        self._blank_since(asked.store, roster, now_ms)
        self._proposer.met(roster.accepted)
        if self.state is MemberState.LEAVING:
            return self._goodbye(asked) if beat.leaving else []
        if roster.renewed and beat.member == self.id:
            self._renew(asked.store, asked.sent_ms)
        self._beat_when_silent(roster, now_ms)
        agreeing = [one for one in self._rosters.values() if one.accepted == roster.accepted]
        effects: list[MemberEffect] = []
        if len(agreeing) >= self._proposer.majority:
            effects += self._learn(roster.accepted, decode(roster.membership))
        elif self._ballot > roster.accepted:
            # It was away when this was agreed on.
            request = Accept(self._group, self._ballot, encode(self._membership))
            effects.append(self._ask(asked.store, request, now_ms))
        return effects + self._settle()

    def _beat_when_silent(self, roster: Roster, now_ms: int) -> None:
        """Ask again as soon as the session of another is over, not a beat later."""
        for pulse in roster.pulses:
            about = self._membership.members.get(pulse.member)
            if about is not None and pulse.alive and pulse.member != self.id:
                rest_ms = max(about.session_ms - pulse.silent_ms + 1, UNSETTLED_BEAT_MS)
                self._next_beat_ms = min(self._next_beat_ms, now_ms + rest_ms)

    def _blank_since(self, store: int, roster: Roster, now_ms: int) -> None:
        if roster.accepted == NO_BALLOT:
            self._blank_ms.setdefault(store, now_ms)
        else:
            self._blank_ms.pop(store, None)

    def _goodbye(self, asked: _Asked) -> list[MemberEffect]:
        self._farewells.add(asked.store)
        if len(self._farewells) < self._proposer.majority:
            return []
        self._lifecycle.become(MemberState.LEFT)
        return [Left()]

    def _renew(self, store: int, sent_ms: int) -> None:
        self._renewed[store] = max(sent_ms, self._renewed.get(store, sent_ms))
        latest = sorted(self._renewed.values(), reverse=True)
        if len(latest) >= self._proposer.blocking:
            self._lease_ms = latest[self._proposer.blocking - 1] + self._about.session_ms

    def _learn(self, ballot: Ballot, membership: Membership) -> list[MemberEffect]:
        """This was agreed on."""
        if ballot <= self._ballot:
            return []
        before, self._ballot, self._membership = self._membership, ballot, membership
        if self.id not in membership.members:
            return self._expel() if self._joined else []
        if self._joined and membership.generation == before.generation:
            return []
        self._lifecycle.become(MemberState.RECONCILING)
        self._next_beat_ms = 0
        self._uneven, self._shares_due_ms = False, 0
        members, moved = dict(membership.members), dict(membership.moved)
        return [Assigned(self.id, membership.generation, members, moved)]

    def _settle(self) -> list[MemberEffect]:
        """Begin with what is its own, once nobody else may have any of that."""
        reconciling = self.state is MemberState.RECONCILING
        if not reconciling or self._lease_ms is None or not self._all_released():
            return []
        self._settled = self._membership.generation
        self._lifecycle.become(MemberState.STABLE)
        return [Rebalanced(self._settled)]

    def _all_released(self) -> bool:
        """Whether everybody has said so of this very generation.

        Who has said so of a later one only may never have been in this one: what that has moved
        back to him he has kept. The later one is learnt of soon.
        """
        generation = self._membership.generation
        done = {
            pulse.member
            for roster in self._rosters.values()
            for pulse in roster.pulses
            if pulse.released == generation
        }
        others = self._membership.members.keys() - {self.id}
        return self._released == generation and done >= others

    def _wrong(self, now_ms: int) -> bool:
        """Whether the membership needs a change, and it is this member's turn to propose it."""
        if self.state in (MemberState.LEAVING, MemberState.LEFT):
            return False
        if self.state is MemberState.JOINING:
            return True
        if not self._faulty(now_ms) and not self._shares_badly(now_ms):
            self._wrong_since_ms = None
            return False
        if self._wrong_since_ms is None:
            self._wrong_since_ms = now_ms
        # Everybody sees it at about the same time: one after the other.
        turn = sorted(self._membership.members.keys() - self._silent()).index(self.id)
        return now_ms >= self._wrong_since_ms + turn * self._beat_ms // 2

    def _shares_badly(self, now_ms: int) -> bool:
        """Whether some have much more to do than others; seldom looked at, and what comes waits."""
        if self.state is not MemberState.STABLE:
            return False
        if now_ms >= self._shares_due_ms:
            self._shares_due_ms = now_ms + SHARES_MS
            moved = self._membership.moved
            self._uneven = self._evened(self._membership.members, moved) != moved
        return self._uneven

    def _evened(self, members: dict[str, Member], moved: dict[str, str]) -> dict[str, str]:
        """What is moved among these members from now on; as it was, if this one cannot judge.

        Who does not subscribe to all topics of the group does not see what others have to do, and
        would move back what one that does has moved.
        """
        wanted = {topic for member in members.values() for topic in member.topics}
        return evened(self.partitions if wanted <= {*self._about.topics} else (), members, moved)

    def _faulty(self, now_ms: int) -> bool:
        current = self._current()
        if len(current) < self._proposer.majority:
            return False
        return (
            bool(self._silent())
            # A store that has lost its disk takes only what is proposed anew, after a session.
            or any(now_ms - at_ms > self._about.session_ms for at_ms in self._blank_ms.values())
            # Somebody died before all had taken what it proposed.
            or any(one.accepted > self._ballot for one in current)
            # Somebody outside has committed, and what members commit would lose against that.
            or max(one.epoch for one in current) > self._membership.generation
        )

    def _promised(
        self, asked: _Asked, request: Prepare, promise: Promise, now_ms: int
    ) -> list[MemberEffect]:
        promises = self._proposer.promised(asked.store, request.ballot, promise, now_ms)
        if not promises:
            return []
        base = decode(max(promises, key=lambda one: one.accepted).membership)
        alive = {name: about for one in promises for name, about in one.alive}
        if base.stores != self._stores and alive.keys() - {self.id}:
            return self._bar(
                f"is kept by {base.stores} stores, this consumer was given {self._stores}: give "
                "all members the same",
                now_ms,
            )
        membership = self._next(base, alive, max(one.epoch for one in promises))
        if membership.generation > GROUP_NUMBER_MAX:
            return self._bar(
                f"has no generation left: somebody has committed with epoch {GROUP_NUMBER_MAX}, "
                "the last there is; use another group",
                now_ms,
            )
        if self.id not in base.members and not fits(membership):
            return self._bar(
                f"has no room for this consumer: it takes {GROUP_MEMBERS_MAX} members whose topics "
                f"have {MEMBERSHIP_BYTES_MAX:,} bytes in all; give it fewer topics or shorter "
                "names, or use another group",
                now_ms,
            )
        return self._ask_all(self._proposer.offer(membership), now_ms)

    def _bar(self, complaint: str, now_ms: int) -> list[MemberEffect]:
        self._proposer.fail(now_ms)
        return [Barred(complaint)]

    def _next(self, base: Membership, alive: dict[str, Member], epoch: int) -> Membership:
        """Everybody who is heard, and this member."""
        members = alive | {self.id: self._about}
        moved = self._evened(members, base.moved)
        if not fits(replace(base, members=members, moved=moved)):
            moved = {}
        if (members, moved) == (base.members, base.moved) and epoch <= base.generation:
            return base
        return Membership(max(base.generation, epoch) + 1, self._stores, members, moved)

    def _accepted(
        self, asked: _Asked, request: Accept, accepted: Accepted, now_ms: int
    ) -> list[MemberEffect]:
        sent_ms = asked.sent_ms
        agreed = self._proposer.accepted(asked.store, request.ballot, accepted, sent_ms, now_ms)
        if agreed is None:
            return []
        membership, granted = agreed
        self._wrong_since_ms, self._uneven = None, False
        self._blank_ms = dict.fromkeys(self._blank_ms, now_ms)
        effects = self._learn(request.ballot, membership)
        for store, asked_ms in granted.items():
            self._renew(store, asked_ms)
        return effects

    def _current(self) -> list[Roster]:
        """What stores have said that know of the generation there is."""
        return [one for one in self._rosters.values() if one.accepted >= self._ballot]

    def _silent(self) -> set[str]:
        """The others that are not heard any more by so many stores that they can be replaced."""
        return self._missed(lambda pulse, _: not pulse.alive)

    def _missed(self, misses: Callable[[Pulse, Member], bool]) -> set[str]:
        """The others of whom so many stores say so that they can agree on it."""
        others = {**self._membership.members}
        others.pop(self.id, None)
        counts = Counter(
            pulse.member
            for roster in self._current()
            for pulse in roster.pulses
            if pulse.member in others and misses(pulse, others[pulse.member])
        )
        return {name for name, count in counts.items() if count >= self._proposer.majority}
