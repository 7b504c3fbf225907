"""Who belongs to a group, and what members and stores say to each other about it.

The members of a group, under a number, are a *generation*. The stores that a group is given keep
the last one in a register, which members change by agreement of more than half of the stores: see
`dafka.groups.acceptor` and `dafka.groups.member`.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from dafka.errors import WireError
from dafka.limits import (
    GROUP_MEMBERS_MAX,
    GROUP_MOVED_MAX,
    GROUP_NUMBER_MAX,
    GROUP_TOPICS_MAX,
    MEMBERSHIP_BYTES_MAX,
)
from dafka.model import Value
from dafka.wire.primitives import text

_MARK = re.compile("[0-9a-f]{16}")

SESSION_MS_MIN = 100
SESSION_MS_MAX = 3_600_000


def majority_of(stores: int) -> int:
    """How many of so many stores agree; any two majorities have one in common."""
    return stores // 2 + 1


def blocking_of(stores: int) -> int:
    """How many of so many stores it takes that every majority has one of them."""
    return stores - majority_of(stores) + 1


class Ballot(NamedTuple):
    """Names one attempt to change a register; of two the higher goes ahead."""

    number: int
    proposer: str


NO_BALLOT = Ballot(0, "")


class Member(NamedTuple):
    """One member.

    Attributes:
        topics: It takes partitions of these.
        session_ms: It is taken for dead after so much silence.
    """

    topics: tuple[bytes, ...]
    session_ms: int


class Membership(Value, frozen=True):
    """A generation.

    Attributes:
        generation: Its number; another one if anything else changes.
        stores: How many stores agree on the members.
        members: By their ids.
        moved: Who takes partitions, by their marks, that hashing gives to others; see
            `dafka.groups.assignment`.
    """

    generation: int
    stores: int
    members: dict[str, Member]
    moved: dict[str, str] = {}


NOBODY = Membership(0, 0, {})
"""Before the first generation."""


def encode(membership: Membership) -> bytes:
    """Return the bytes of a membership; `NOBODY` has none."""
    if membership == NOBODY:
        return b""
    members = {
        name: [[text(topic) for topic in member.topics], member.session_ms]
        for name, member in sorted(membership.members.items())
    }
    moved: dict[str, list[str]] = {}
    for mark, name in sorted(membership.moved.items()):
        moved.setdefault(name, []).append(mark)
    parts = [membership.generation, membership.stores, members, *([moved] if moved else [])]
    return json.dumps(parts).encode()


def fits(membership: Membership) -> bool:
    """Whether stores would take it."""
    if len(membership.members) > GROUP_MEMBERS_MAX:
        return False
    return len(encode(membership)) <= MEMBERSHIP_BYTES_MAX


def decode(octets: bytes) -> Membership:
    """Read a membership.

    Raises:
        WireError: It is none.
    """
    if not octets:
        return NOBODY
    if len(octets) > MEMBERSHIP_BYTES_MAX:
        raise WireError("membership")
    try:
        generation, stores, members, *rest = json.loads(octets)
        if len(members) > GROUP_MEMBERS_MAX:
            raise WireError("membership")
        found = {_name(name): _member(*fields) for name, fields in members.items()}
        return Membership(_number(generation), _number(stores), found, _moved(*rest))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise WireError("membership") from error


def _name(name: str) -> str:
    name.encode()  # JSON has escapes for halves of characters, which no answer could carry
    return name


def _member(topics: list[str], session_ms: int) -> Member:
    names = tuple(topic.encode("utf-8", "surrogateescape") for topic in topics)
    if len(names) > GROUP_TOPICS_MAX:
        raise ValueError("too many topics")
    if not SESSION_MS_MIN <= _number(session_ms) <= SESSION_MS_MAX:
        raise ValueError("session")
    return Member(names, session_ms)


def _moved(moved: dict[str, list[str]] | None = None) -> dict[str, str]:
    found = {mark: name for name, marks in (moved or {}).items() for mark in marks}
    if len(found) > GROUP_MOVED_MAX or not all(_MARK.fullmatch(mark) for mark in found):
        raise ValueError("not partitions that are moved")
    return found


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= GROUP_NUMBER_MAX:
        raise ValueError("not a number")
    return value


class Prepare(NamedTuple):
    """Promise to take nothing of a lower ballot, and say what you have."""

    group: str
    ballot: Ballot


class Accept(NamedTuple):
    """Take this membership, if you have promised nothing higher and miss nobody you hear."""

    group: str
    ballot: Ballot
    membership: bytes


class Beat(NamedTuple):
    """I am alive.

    Attributes:
        group: Whose member it is.
        member: Its id.
        released: The last generation for which it has given back what it does not own in it.
        leaving: It has given back everything, and is not to be waited for.
    """

    group: str
    member: str
    released: int
    leaving: bool = False


Request = Prepare | Accept | Beat


class Promise(NamedTuple):
    """Answers `Prepare`.

    Attributes:
        promised: The ballot asked for, or the higher one that stands in its way.
        accepted: Of the membership that it has.
        membership: That.
        epoch: The highest of the group's commits.
        alive: The members it hears.
    """

    promised: Ballot
    accepted: Ballot
    membership: bytes
    epoch: int
    alive: tuple[tuple[str, Member], ...]


class Accepted(NamedTuple):
    """Answers `Accept`: whether it has, and the highest ballot it has promised."""

    granted: bool
    promised: Ballot


class Pulse(NamedTuple):
    """What a store hears of a member.

    Attributes:
        member: Its id.
        silent_ms: For how long nothing.
        alive: Whether that is within its session, and it has not said goodbye.
        released: As it has said; see `Beat`.
    """

    member: str
    silent_ms: int
    alive: bool
    released: int


class Roster(NamedTuple):
    """What a store knows of a group; answers `Beat` too.

    Attributes:
        accepted: Ballot of the membership that it has.
        membership: That; not necessarily agreed on.
        epoch: The highest of the group's commits.
        renewed: Whether the member that asked was heard, as one of this membership: then nobody
            takes it for dead here until its session is over.
        pulses: Of every member.
    """

    accepted: Ballot
    membership: bytes
    epoch: int
    renewed: bool
    pulses: tuple[Pulse, ...]


Reply = Promise | Accepted | Roster
