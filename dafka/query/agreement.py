"""What is in the register of a group, and changing it, for whoever is no member.

Members change it from their own machines, beside everything else (`dafka.groups.member`); here
somebody asks the stores, and waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from dafka.errors import QueryError
from dafka.groups.membership import NO_BALLOT, NOBODY, Membership, decode
from dafka.groups.proposer import Proposer
from dafka.process.clock import CLOCK
from dafka.query.client import SIGN_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Self

    from dafka.cluster import Cluster
    from dafka.groups.membership import Accept, Accepted, Prepare, Promise, Roster
    from dafka.process.clock import Clock
    from dafka.query.client import StoreClient

PATIENCE_MS = 30_000
"""For so long rounds are repeated: others may be changing the register, stores may be starting."""


class Register:
    """One group's register. Used by one thread at a time.

    Args:
        cluster: All stores of which keep it.
        group: Whose.
        session_ms: The longest that a round may take; that of all its members.
        patience_ms: For how long rounds are repeated.
        stores: How they are asked, by somebody who closes it; its own if not given.
        clock: This machine's.
        name: Of who asks, unlike all others'; drawn if not given.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        session_ms: int,
        *,
        patience_ms: int = PATIENCE_MS,
        stores: ClusterClient | None = None,
        clock: Clock = CLOCK,
        name: str = "",
    ) -> None:
        self._servers = cluster.stores
        self._stores = stores or ClusterClient(cluster, SIGN_TIMEOUT_MS)
        self._is_ours = stores is None
        self._group = group
        self._proposer = Proposer(group, len(cluster.stores), session_ms)
        self._patience_ms = patience_ms
        self._clock = clock
        self._name = name or uuid4().hex

    def read(self) -> Membership:
        """Return what the stores have agreed on; `NOBODY` before the first time.

        Raises:
            QueryError: Not more than half of them answer.
        """

        def ask(store: StoreClient) -> Roster:
            return store.members(self._group)

        try:
            told: Collection[Roster] = self._stores.majority(ask)
        except QueryError:
            return self.change(lambda there: there)  # which waits for more to answer
        if all(roster.accepted == NO_BALLOT for roster in told):
            # Those that know of nothing may have new disks: the others are asked as well.
            told = self._stores.all(ask).given.values()
        found = {(roster.accepted, roster.membership) for roster in told}
        if len(found) == 1:
            ((_, membership),) = found
            return decode(membership)
        # Some have more than others: what is agreed on then is what a round makes of it.
        return self.change(lambda there: there)

    def change(self, offer: Callable[[Membership], Membership]) -> Membership:
        """Change it, and return what was agreed on.

        Args:
            offer: What to have of what was there; the same where nothing is to change. Asked again
                where somebody else came between.

        Raises:
            QueryError: Not enough stores answer.
        """
        until_ms = self._clock.now_ms() + self._patience_ms
        failure: QueryError | None = None
        while self._clock.now_ms() < until_ms:
            try:
                agreed = self._round(offer)
            except QueryError as error:
                agreed, failure = None, error
            if agreed is not None:
                return agreed
            now_ms = self._clock.now_ms()
            if self._proposer.ballot is not None:
                self._proposer.fail(now_ms)
            self._clock.sleep(max(0, self._proposer.due_ms - now_ms) / 1_000)
        raise QueryError(
            f"the stores have not agreed within {self._patience_ms / 1_000:g} s on what group "
            f"{self._group!r} has: {failure or 'others go on changing it, or they have just begun'}"
        ) from failure

    def close(self) -> None:
        """Release the connections that are its own."""
        if self._is_ours:
            self._stores.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _round(self, offer: Callable[[Membership], Membership]) -> Membership | None:
        proposer = self._proposer
        prepare = proposer.begin(self._name, self._clock.now_ms())
        due_ms = proposer.due_ms
        promises = self._promises(prepare)
        if not promises or proposer.ballot is None:
            return None  # or somebody came between while the last ones were asked
        found = max(promises, key=lambda promise: promise.accepted)
        offered = offer(decode(found.membership))
        if offered == NOBODY:
            proposer.stop()
            return NOBODY
        accept = proposer.offer(offered)

        def accepted(store: StoreClient) -> tuple[str, Accepted, int]:
            sent_ms = self._clock.now_ms()
            if sent_ms >= due_ms:
                raise QueryError(f"no time was left to ask the store at {store.endpoint}")
            return store.endpoint, store.accept(accept), sent_ms

        return self._agreed(accept, accepted)

    def _promises(self, prepare: Prepare) -> Collection[Promise]:
        """Enough of them, or none: those of more than half, where one of these has something.

        Where none has, all stores are asked: who has promised nothing takes nothing at first, and
        a store that never took anything counts for nothing when another one is away (ADR 30).
        """

        def ask(store: StoreClient) -> tuple[str, Promise]:
            return store.endpoint, store.prepare(prepare)

        enough = self._taken_in(prepare, self._stores.some(ask, self._proposer.majority))
        if self._proposer.ballot is None or any(one.accepted > NO_BALLOT for one in enough):
            return enough
        answers = self._stores.all(ask)
        enough = self._taken_in(prepare, answers.given.values())
        if not enough and answers.failure is not None:
            raise answers.failure
        return enough

    def _taken_in(
        self, prepare: Prepare, given: Iterable[tuple[str, Promise]]
    ) -> Collection[Promise]:
        enough: Collection[Promise] = ()
        for endpoint, promise in given:
            now_ms = self._clock.now_ms()
            number = self._number(endpoint)
            enough = self._proposer.promised(number, prepare.ballot, promise, now_ms) or enough
        return enough

    def _agreed(
        self,
        accept: Accept,
        ask: Callable[[StoreClient], tuple[str, Accepted, int]],
    ) -> Membership | None:
        """What is agreed on, once all stores that can be were asked: each of them shall have it."""
        answers = self._stores.all(ask)
        for endpoint, reply, sent_ms in answers.given.values():
            now_ms = self._clock.now_ms()
            agreed = self._proposer.accepted(
                self._number(endpoint), accept.ballot, reply, sent_ms, now_ms
            )
            if agreed is not None:
                return agreed[0]
        if answers.failure is not None:
            raise answers.failure
        return None

    def _number(self, endpoint: str) -> int:
        return self._servers.index(endpoint)
