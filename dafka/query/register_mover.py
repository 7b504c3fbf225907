"""Hands over to stores what Spark's sinks have agreed on, where a cluster gets others (ADR 60).

Members of a group bring it with them: what they agree on again is what they have. A run has nobody
who would (`dafka.groups.runs`), so where a cluster's stores become others none of a majority might
know it, and a run that is repeated would be agreed on anew, and published twice.

It is a round of Paxos like any other (`dafka.groups.acceptor`), with two differences. All stores
promise, those that are about to end as well, and not only more than half: so nothing that was
chosen by stores as they were is missed, and those that end take nothing more of what was offered
before. And all that stay have to take it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.groups.membership import NO_BALLOT, Accept, Ballot, Prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.query.client import StoreClient

TRIES_MAX = 3
"""Ballots in a row; then whoever else changes the register goes first."""


class RegisterMover:
    """Brings stores to have the same registers of runs.

    Args:
        stores: Those that are to have them.
        leaving: Stores that are about to end.
        name: In its ballots; nobody else has ever had it.
    """

    def __init__(
        self, stores: Sequence[StoreClient], leaving: Sequence[StoreClient], name: str
    ) -> None:
        self._stores, self._leaving, self._name = stores, leaving, name

    def look(self) -> str:
        """Hand over what is to be; return what is waited for, empty if all is done.

        Raises:
            QueryError: A store does not answer, or this key may not.
        """
        accepted = [store.registers() for store in (*self._stores, *self._leaving)]
        for group in sorted({group for each in accepted for group in each}):
            ballots = [each.get(group, NO_BALLOT) for each in accepted]
            # Those that end are asked in any case: something may be on its way to them.
            if not self._leaving and len(set(ballots)) == 1:
                continue
            if waits_for := self._agree(group, max(ballots).number + 1):
                return waits_for
        return ""

    def _agree(self, group: str, number: int) -> str:
        for _ in range(TRIES_MAX):
            ballot = Ballot(number, self._name)
            prepare = Prepare(group, ballot)
            promises = [store.prepare(prepare) for store in (*self._stores, *self._leaving)]
            highest = max(one.promised for one in promises)
            if highest == ballot:
                break
            number = highest.number + 1
        else:
            return f"others to end what they agree on in {group}"
        found = max(promises, key=lambda promise: promise.accepted)
        if found.accepted == NO_BALLOT:
            return ""
        for store in self._stores:
            if not store.accept(Accept(group, ballot, found.membership)).granted:
                return f"{store.endpoint} to take what others have agreed on in {group}"
        return ""
