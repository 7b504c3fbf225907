"""Proposing a membership to the stores: the proposer of Paxos, one round at a time.

Phase 1: it asks all stores to promise a ballot (`Prepare`). A quorum of promises says two things:
no lower ballot can be chosen any more without this one knowing, and what may have been chosen
already is among what they have accepted. Phase 2: it offers a membership that is made from that
(`Accept`), and once a quorum has accepted, it is chosen. The quorum of both is more than half of
the stores, so any two have a store in common.

A store that has taken no membership may have lost its disk, and with it what it has taken and
promised: it is *blank*. Its promise says nothing of what was chosen (ADR 30). A round ends when a
session is over, so that a store that comes back blank and takes nothing for so long meets none in
which it has promised something before.

Source: Lamport, "Paxos Made Simple", section 2.2.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from dafka.groups.membership import (
    NO_BALLOT,
    Accept,
    Ballot,
    Prepare,
    blocking_of,
    encode,
    majority_of,
)
from dafka.limits import GROUP_NUMBER_MAX
from dafka.protocol.machine import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dafka.groups.membership import Accepted, Membership, Promise

_BACK_OFF_MS = 40
"""First bound on the wait after a round that came to nothing; doubles."""

_PATIENCE_MS = 200
"""First bound on a round; doubles, for the way to the stores may take longer."""

_DOUBLINGS_MAX = 5


class ProposerState(Enum):
    """How far a proposer's round has come."""

    IDLE = "idle"
    PREPARING = "preparing"
    """Phase 1."""
    ACCEPTING = "accepting"
    """Phase 2."""


PROPOSER_STATES = {
    ProposerState.IDLE: {ProposerState.PREPARING},
    # A quorum has promised; the round is given up.
    ProposerState.PREPARING: {ProposerState.ACCEPTING, ProposerState.IDLE},
    # A quorum has accepted; the round is given up.
    ProposerState.ACCEPTING: {ProposerState.IDLE},
}


@dataclass(slots=True)
class _Round:
    """One attempt."""

    ballot: Ballot
    due_ms: int
    promises: dict[int, Promise] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    offered: Membership | None = None
    granted: dict[int, int] = field(default_factory=dict)
    """When each store was asked that has accepted."""


class Proposer:
    """Makes one proposal after the other.

    Args:
        group: Whose membership it is about.
        stores: How many stores there are.
        session_ms: How long a round may take at most.
    """

    def __init__(self, group: str, stores: int, session_ms: int) -> None:
        self._group = group
        self._stores = stores
        self._session_ms = session_ms
        self.majority = majority_of(stores)
        """The quorum of both phases."""
        self.blocking = blocking_of(stores)
        """One of so many stores is in every quorum: without them a round comes to nothing."""
        self._lifecycle = Lifecycle(PROPOSER_STATES)
        self._number = 0
        """The highest number of a ballot that was met."""
        self._failures = 0
        self._round: _Round | None = None
        self._rested_ms = 0

    def check(self) -> None:
        """Assert that its round is as far as its state says."""
        state = self._lifecycle.state
        assert (self._round is None) == (state is ProposerState.IDLE)
        offered = self._round is not None and self._round.offered is not None
        assert offered == (state is ProposerState.ACCEPTING)

    @property
    def ballot(self) -> Ballot | None:
        """Of the round under way."""
        return None if self._round is None else self._round.ballot

    @property
    def due_ms(self) -> int:
        """When the round under way is given up, or else the next may begin."""
        return self._rested_ms if self._round is None else self._round.due_ms

    def met(self, ballot: Ballot) -> None:
        """Somebody uses this ballot: the next one must be higher."""
        if ballot.number <= GROUP_NUMBER_MAX:  # what no store lets anybody reach is not believed
            self._number = max(self._number, ballot.number)

    def begin(self, proposer: str, now_ms: int) -> Prepare:
        """Begin a round with phase 1; its request is for all stores."""
        self._lifecycle.become(ProposerState.PREPARING)
        # Above all that it knows of, or it is refused; of two with one number the name decides.
        self._number += 1
        patience_ms = min(_PATIENCE_MS << min(self._failures, _DOUBLINGS_MAX), self._session_ms)
        self._round = _Round(Ballot(self._number, proposer), now_ms + patience_ms)
        return Prepare(self._group, self._round.ballot)

    def promised(
        self, store: int, ballot: Ballot, promise: Promise, now_ms: int
    ) -> Collection[Promise]:
        """Take the answer to `Prepare` in; returns the promises once they are enough."""
        self.met(promise.promised)
        current = self._round
        if current is None or ballot != current.ballot or current.offered is not None:
            return ()  # it answers a round that is over, or a phase
        if now_ms >= current.due_ms:
            return ()  # so is this one, though nothing has come of it yet
        if promise.promised != ballot:
            self._refused(current, store, now_ms)
            return ()
        current.promises[store] = promise
        return current.promises.values() if self._is_quorum(current.promises) else ()

    def _is_quorum(self, promises: Mapping[int, Promise]) -> bool:
        """Whether one of these stores knows whatever may have been chosen.

        Of more than half that are not blank one does; so does one of all. Where nobody knows of
        any membership, there is none yet.
        """
        known = sum(promise.accepted > NO_BALLOT for promise in promises.values())
        if len(promises) == self._stores:
            return True
        return known >= self.majority or (not known and len(promises) >= self.majority)

    def offer(self, membership: Membership) -> Accept:
        """Go on to phase 2 with a membership made from what a quorum has accepted.

        The request is for all stores: those that have not promised may accept all the same.
        """
        assert self._round is not None
        self._lifecycle.become(ProposerState.ACCEPTING)
        self._round.offered = membership
        return Accept(self._group, self._round.ballot, encode(membership))

    def accepted(
        self, store: int, ballot: Ballot, accepted: Accepted, sent_ms: int, now_ms: int
    ) -> tuple[Membership, dict[int, int]] | None:
        """Take the answer to `Accept` in.

        Returns:
            Once it is chosen, the membership, and when each store that has it was asked.
        """
        self.met(accepted.promised)
        current = self._round
        if current is None or ballot != current.ballot or current.offered is None:
            return None
        if not accepted.granted:
            self._refused(current, store, now_ms)
            return None
        current.granted[store] = sent_ms
        if len(current.granted) < self.majority:
            return None
        self.stop()
        self._failures = 0
        self._rested_ms = now_ms
        return current.offered, current.granted

    def fail(self, now_ms: int) -> None:
        """Give the round up, and rest for a while that is another one for everybody.

        Two proposers that always come between each other's phases would go on for ever.
        """
        assert self._round is not None
        bound_ms = _BACK_OFF_MS << min(self._failures, _DOUBLINGS_MAX)
        octets = repr(self._round.ballot).encode()
        chance = int.from_bytes(hashlib.blake2b(octets, digest_size=4).digest(), "big")
        self._rested_ms = now_ms + 1 + chance % bound_ms
        self._failures += 1
        self.stop()

    def stop(self) -> None:
        """End the round under way, if there is one; what it has brought about may still hold."""
        self._lifecycle.become(ProposerState.IDLE)
        self._round = None

    def _refused(self, current: _Round, store: int, now_ms: int) -> None:
        current.refused.add(store)
        if len(current.refused) >= self.blocking:
            self.fail(now_ms)
