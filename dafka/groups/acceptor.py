"""A store's part in agreeing on the members of groups: one register a group, and who is heard.

Each store is an acceptor of Paxos (Lamport, "Paxos Made Simple"), one instance a group whose value
may change, as in CASPaxos (Rystsov, 2018): `Prepare` promises, `Accept` takes. What is promised and
taken is on disk before it is answered.

| table | key | value |
|---|---|---|
| `registers` | group | JSON: promised and accepted ballot, the membership's bytes as text |

One rule is ours: a store refuses a membership that lacks a member it hears. A member may do its
work as long as so many stores have heard it lately that every majority has one of them, so nobody
can be declared dead who may still work. Who is heard is in memory only, so a store hears members of
the membership it has and no others: one that has just started takes all of them for heard.

One that has no membership is *blank*: it may have lost one with its disk, and with it whom it has
heard and what it has promised. It takes none before a session is over, and then only one whose
ballot it has promised since: what that is made from is no older than its disk (ADR 30).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.errors import WireError
from dafka.groups.commit_table import epoch_of
from dafka.groups.membership import (
    NO_BALLOT,
    NOBODY,
    Accepted,
    Ballot,
    Member,
    Membership,
    Promise,
    Pulse,
    Roster,
    decode,
    encode,
)
from dafka.limits import GROUP_NUMBERS_AHEAD_MAX, GROUPS_MAX
from dafka.storage.log import TableEntry
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from dafka.groups.membership import Accept, Beat, Prepare
    from dafka.storage.log import RecordLog

TABLE = "registers"


@dataclass(slots=True)
class _Heard:
    """The last that was heard of a member."""

    at_ms: int
    about: Member
    released: int = 0
    left: bool = False


@dataclass(slots=True)
class _Register:
    """One group."""

    promised: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    membership: Membership = NOBODY
    heard: dict[str, _Heard] = field(default_factory=dict)


class Registers:
    """The registers of one store.

    Args:
        log: Where they are kept.
        opened_ms: When the store was started: it has heard nobody since.
        groups_max: How many are listened for.
    """

    def __init__(self, log: RecordLog, opened_ms: int, groups_max: int = GROUPS_MAX) -> None:
        self._log = log
        self._opened_ms = opened_ms
        self._groups_max = groups_max
        self._registers: dict[str, _Register] = {}

    def prepare(self, request: Prepare, now_ms: int) -> Promise:
        """Promise to take nothing of a lower ballot.

        Raises:
            StorageError: The disk refused.
            WireError: The ballot is too far ahead, or there are too many groups.
        """
        register = self._register(request.group, now_ms)
        _check_ahead(request.ballot, register)
        # Phase 1: what is said of a lower ballot shows its proposer which one to go above. The
        # promise is on disk first: a store that forgot it could help a lower ballot to a quorum.
        if request.ballot > register.promised:
            self._write(request.group, register, request.ballot, None)
        alive = tuple(
            (name, heard.about)
            for name, heard in sorted(register.heard.items())
            if _alive(heard, now_ms)
        )
        epoch = epoch_of(self._log, request.group)
        membership = encode(register.membership)
        return Promise(register.promised, register.accepted, membership, epoch, alive)

    def accept(self, request: Accept, now_ms: int) -> Accepted:
        """Take a membership.

        Raises:
            StorageError: The disk refused.
            WireError: It is none, the ballot is too far ahead, or there are too many groups.
        """
        register = self._register(request.group, now_ms)
        _check_ahead(request.ballot, register)
        offered = decode(request.membership)
        missed = any(
            name not in offered.members and _alive(heard, now_ms)
            for name, heard in register.heard.items()
        )
        missed = missed or self._may_miss(register, request.ballot, offered, now_ms)
        # Phase 2. Only a higher promise stands in the way: unless it is blank, this store need not
        # be one of those that have promised this ballot.
        if missed or request.ballot < register.promised:
            return Accepted(False, register.promised)
        self._write(request.group, register, request.ballot, offered)
        # Who is new counts as heard from now: it could not beat before it was a member.
        known = register.heard
        register.heard = {
            name: known.get(name, _Heard(now_ms, about)) for name, about in offered.members.items()
        }
        if request.ballot.proposer in register.heard:
            register.heard[request.ballot.proposer].at_ms = now_ms
        return Accepted(True, register.promised)

    def beat(self, request: Beat, now_ms: int) -> Roster:
        """Hear a member.

        Raises:
            StorageError: The disk refused.
        """
        register = self._register(request.group, now_ms)
        renewed = self._hear(register, request, now_ms)
        return self._roster(request.group, register, now_ms, renewed=renewed)

    def roster(self, group: str, now_ms: int) -> Roster:
        """Say what is known of a group.

        Raises:
            StorageError: The disk refused.
        """
        return self._roster(group, self._register(group, now_ms), now_ms, renewed=False)

    def generation(self, group: str, now_ms: int) -> int:
        """The last generation of a group that was taken here; 0 if none was.

        Raises:
            StorageError: The disk refused.
        """
        register = self._registers.get(group) or self._read(group, now_ms)
        return register.membership.generation

    def _may_miss(
        self, register: _Register, ballot: Ballot, offered: Membership, now_ms: int
    ) -> bool:
        """Whether a disk that was here before may know better.

        It may have heard a member whose session still runs, or taken part in a round that does, or
        know of a later membership than who offers one that was agreed on long ago.
        """
        if register.accepted > NO_BALLOT:
            return False
        longest_ms = max((one.session_ms for one in offered.members.values()), default=0)
        return ballot != register.promised or now_ms - self._opened_ms <= longest_ms

    def _hear(self, register: _Register, beat: Beat, now_ms: int) -> bool:
        heard = register.heard.get(beat.member)
        if heard is None or heard.left:
            return False
        heard.at_ms = now_ms
        heard.released = max(heard.released, beat.released)
        heard.left = beat.leaving
        return not beat.leaving

    def _roster(self, group: str, register: _Register, now_ms: int, *, renewed: bool) -> Roster:
        pulses = tuple(
            Pulse(name, now_ms - heard.at_ms, _alive(heard, now_ms), heard.released)
            for name, heard in sorted(register.heard.items())
        )
        epoch = epoch_of(self._log, group)
        return Roster(register.accepted, encode(register.membership), epoch, renewed, pulses)

    def _register(self, group: str, now_ms: int) -> _Register:
        register = self._registers.get(group)
        if register is None:
            # One that is read again takes all its members for heard, which only delays.
            if len(self._registers) >= self._groups_max:
                self._forget_one(now_ms)
            register = self._registers[group] = self._read(group, now_ms)
        return register

    def _forget_one(self, now_ms: int) -> None:
        """Make room by a group that nobody is a member of."""
        for group, register in self._registers.items():
            if not any(_alive(heard, now_ms) for heard in register.heard.values()):
                del self._registers[group]
                return
        raise WireError("membership")

    def _read(self, group: str, now_ms: int) -> _Register:
        stored = self._log.get(TABLE, octets_of(group))
        if stored is None:
            return _Register()
        promised, accepted, membership = json.loads(stored)
        register = _Register(Ballot(*promised), Ballot(*accepted), decode(membership.encode()))
        for name, about in register.membership.members.items():
            register.heard[name] = _Heard(now_ms, about)
        return register

    def _write(
        self, group: str, register: _Register, promised: Ballot, taken: Membership | None
    ) -> None:
        """Keep a promise, and a membership with it; in memory only once it is on disk."""
        accepted = register.accepted if taken is None else promised
        membership = register.membership if taken is None else taken
        value = json.dumps([promised, accepted, encode(membership).decode()]).encode()
        self._log.append((), entries=[TableEntry(TABLE, octets_of(group), value)])
        register.promised, register.accepted, register.membership = promised, accepted, membership


def taken(log: RecordLog, prefix: str, after: bytes, count_max: int) -> list[tuple[str, Ballot]]:
    """Return groups whose names begin so, with the ballot of what their registers have.

    Args:
        log: Where they are kept.
        prefix: Of the names.
        after: The name behind which to begin; empty for the first.
        count_max: How many.

    Raises:
        StorageError: The disk refused.
    """
    rows = log.scan(TABLE, octets_of(prefix), count_max, after or None)
    return [(text(group), Ballot(*json.loads(row)[1])) for group, row in rows]


def _check_ahead(ballot: Ballot, register: _Register) -> None:
    """Refuse a ballot that nobody could go above: numbers end, and one peer could use them up."""
    if ballot.number > register.promised.number + GROUP_NUMBERS_AHEAD_MAX:
        raise WireError("membership")


def _alive(heard: _Heard, now_ms: int) -> bool:
    return not heard.left and now_ms - heard.at_ms <= heard.about.session_ms
