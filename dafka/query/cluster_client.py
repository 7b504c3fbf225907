"""The stores of one cluster, asked together: which of them speaks for it, a policy says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from dafka.errors import MisuseError, QueryError
from dafka.model import Slots
from dafka.process.clock import CLOCK
from dafka.query.client import ANSWER_TIMEOUT_MS
from dafka.query.patience import Patience
from dafka.query.sharing_store import Lists, SharingStore, SlotKeeper
from dafka.transport.request import QueryClient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Self

    from dafka.cluster import Cluster
    from dafka.process.clock import Clock
    from dafka.transport.request import ConnectClient

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What the stores of a cluster have answered.

    Attributes:
        given: By the store's query port.
        failures: Why there is none, of the others.
    """

    given: Mapping[str, T]
    failures: Mapping[str, QueryError]

    @property
    def failure(self) -> QueryError | None:
        """The last of the failures, if there are any."""
        return next(reversed(list(self.failures.values())), None)


class ClusterClient:
    """Asks the stores of one cluster. Used by one thread at a time.

    Policies: `first` takes the first that answers, `first_with` the first that has it, `best` the
    greatest answer of all, `majority` those of more than half, `all` whatever is answered. Stores
    are connected to when they are first asked, in the order of the cluster's; who does not answer
    is the last to be asked from then on, and is not waited for long while others do.

    Args:
        cluster: Which.
        timeout_ms: How long one store may take for an answer; `ANSWER_TIMEOUT_MS` if not given.
        connect: Makes the connections.
        clock: What time it is.
        connect_timeout: For how many seconds a store is waited for that has never answered.

    Raises:
        MisuseError: The cluster names no store, or one by what is no endpoint; or a time is none.
    """

    def __init__(
        self,
        cluster: Cluster,
        timeout_ms: int | None = None,
        connect: ConnectClient = QueryClient,
        clock: Clock = CLOCK,
        connect_timeout: float | None = None,
    ) -> None:
        if connect_timeout is not None and not connect_timeout > 0:
            raise MisuseError(f"connect_timeout must be more than 0 seconds: {connect_timeout}")
        if not cluster.stores:
            raise MisuseError(f"at least one store of cluster {cluster.name!r} is needed")
        self._cluster = cluster
        timeout_ms = ANSWER_TIMEOUT_MS if timeout_ms is None else timeout_ms
        connect_ms = timeout_ms
        if connect_timeout is not None:
            connect_ms = min(timeout_ms, int(connect_timeout * 1_000))
        self._patience = Patience(timeout_ms, connect_ms, clock)
        self._connect = connect
        self._clients: dict[str, SharingStore] = {}
        self._lists: Lists | None = None
        self._order = cluster.stores

    @property
    def silent(self) -> tuple[str, ...]:
        """The query ports of those that have not answered lately, though others have."""
        return self._patience.silent

    def store(self, endpoint: str = "") -> SharingStore:
        """Return one of the stores, by its query port; the cluster's first without it."""
        endpoint = endpoint or self._cluster.stores[0]
        client = self._clients.get(endpoint)
        if client is None:
            client = SharingStore(
                endpoint,
                self._patience,
                self._cluster.credentials,
                self._connect,
                others=partial(self._others, endpoint),
                lists=lambda: self._lists,
            )
            self._clients[endpoint] = client
        return client

    def _others(self, endpoint: str) -> Iterator[SlotKeeper]:
        """The stores behind one in the ring of all; who was silent is the last of them."""
        place = self._cluster.stores.index(endpoint)
        others = self._cluster.stores[place + 1 :] + self._cluster.stores[:place]
        for other in sorted(others, key=self._patience.is_last):
            store = self.store(other)
            failure = None if self._lists is None else self._lists.failures.get(other)
            try:
                kept = Slots(0) if failure else store.kept
            except QueryError as error:
                kept, failure = Slots(0), error
            # What one keeps that does not answer others may keep as well; if not, that is said.
            yield SlotKeeper(kept, store, failure)

    def prefer(self, endpoint: str, silent: Collection[str] = ()) -> None:
        """Ask this one of the stores first, and those last that did not answer somebody else."""
        self._patience.note(silent)
        self._order = tuple(sorted(self._order, key=lambda one: (one in silent, one != endpoint)))

    def all(self, ask: Callable[[SharingStore], T]) -> Answers[T]:
        """Ask every store; return what is answered, and why the rest is not."""
        return self._answers(ask, len(self._cluster.stores))

    def first(self, ask: Callable[[SharingStore], T]) -> T:
        """Return the answer of the first store that gives one.

        Raises:
            QueryError: None does; what the last one said.
        """
        answers = self._answers(ask, 1)
        for answer in answers.given.values():
            return answer
        raise _no_store(answers)

    def first_with(self, ask: Callable[[SharingStore], T | None]) -> T | None:
        """Return the first answer that is not None; None if every store answers that.

        Raises:
            QueryError: One does not answer, which may be the one that has it.
        """
        failures: dict[str, QueryError] = {}
        found: T | None = None
        for endpoint in self._order:
            try:
                found = ask(self.store(endpoint))
            except QueryError as error:
                failures[endpoint] = error
                continue
            if found is not None:
                break
        self._put_last(failures, others_answer=len(failures) < len(self._order))
        if found is None and failures:
            raise _no_store(Answers({}, failures))
        return found

    def best(self, ask: Callable[[SharingStore], T], rank: Callable[[T], object]) -> T:
        """Ask every store; return the answer of the highest rank, the first of equals.

        Raises:
            QueryError: None answers; what the last one said.
        """
        answers = self.all(ask)
        if not answers.given:
            raise _no_store(answers)
        return max(answers.given.values(), key=rank)  # type: ignore[arg-type]  # ranks compare

    def majority(self, ask: Callable[[SharingStore], T]) -> list[T]:
        """Return the answers of more than half of the stores.

        Raises:
            QueryError: Fewer answer.
        """
        return self.some(ask, len(self._cluster.stores) // 2 + 1)

    def some(self, ask: Callable[[SharingStore], T], stores_min: int) -> list[T]:
        """Return the answers of so many stores; of no more than it takes.

        Raises:
            QueryError: Fewer answer.
        """
        answers = self._answers(ask, stores_min)
        if len(answers.given) < stores_min:
            there = len(self._cluster.stores)
            raise QueryError(
                f"{len(answers.given)} of {there} stores can be read: {answers.failure}"
            )
        return list(answers.given.values())

    def _answers(self, ask: Callable[[SharingStore], T], stores_max: int) -> Answers[T]:
        self._lists = Lists() if stores_max > 1 else None
        try:
            return self._asked(ask, stores_max)
        finally:
            self._lists = None

    def _asked(self, ask: Callable[[SharingStore], T], stores_max: int) -> Answers[T]:
        given: dict[str, T] = {}
        failures: dict[str, QueryError] = {}
        for endpoint in self._order:
            if len(given) == stores_max:
                break
            try:
                given[endpoint] = ask(self.store(endpoint))
            except QueryError as error:
                failures[endpoint] = error
        self._put_last(failures, others_answer=bool(given))
        return Answers(given, failures)

    def _put_last(self, failures: Mapping[str, QueryError], *, others_answer: bool) -> None:
        self._order = tuple(sorted(self._order, key=failures.__contains__))
        if others_answer:
            self._patience.passed_over(failures)
        else:
            self._patience.renew()

    def close(self) -> None:
        """Release the connections."""
        for client in self._clients.values():
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _no_store(answers: Answers[T]) -> QueryError:
    assert answers.failure is not None, "every store has answered or failed"
    return answers.failure
