"""What a group's machines are told, and what they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dafka.groups.membership import Member, Reply, Request


@dataclass(frozen=True, slots=True)
class Ask:
    """Put a request to a store; its answer, if one comes, is `Answered` with the same token."""

    store: int
    token: int
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """A store's answer to `Ask`."""

    store: int
    token: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Assigned:
    """A new generation: give back what is not this member's in it, then say so."""

    member: str
    generation: int
    members: dict[str, Member]


@dataclass(frozen=True, slots=True)
class Settled:
    """Everybody has given back what is not theirs: begin with what is this member's."""

    generation: int


@dataclass(frozen=True, slots=True)
class Expelled:
    """The lease is over: stop everything at once, it may be others' by now."""


@dataclass(frozen=True, slots=True)
class Left:
    """Nobody waits for this member any more."""


@dataclass(frozen=True, slots=True)
class Mismatched:
    """The group's living members have another number of stores than this one was given."""

    theirs: int
    ours: int


MemberEffect = Ask | Assigned | Settled | Expelled | Left | Mismatched
