"""One store of a cluster that answers for all of it, also where stores share the slots.

Whoever asks stores asks one, several or all of them, and takes each for a copy of the cluster.
Where a store keeps some slots only, it refuses what is of others, and lists. Then what it does not
keep is asked of stores that do, and lists are put together of what each keeps: here, for all.

What a store keeps is remembered. Slots move (ADR 60), so where it turns out that nobody who is
known of keeps something, each is asked anew the next time.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dafka.errors import QueryError, RefusedError, ShareError
from dafka.limits import BATCH_RECORDS_MAX, READ_BYTES_MAX
from dafka.model import ALL_SLOTS, SYSTEM, Partition, Slots
from dafka.query.client import StoreClient
from dafka.query.slot_steps import slots_of_part
from dafka.transport.request import QueryClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dafka.model import Batch
    from dafka.query import messages
    from dafka.query.patience import Patience
    from dafka.storage.log import Mark
    from dafka.transport.keys import Credentials
    from dafka.transport.request import ConnectClient

T = TypeVar("T")


class Lists:
    """What stores have said to whoever asks all of them now, for each other's sake.

    Attributes:
        given: What they have listed of themselves: by their endpoints, what they keep, and the
            question.
        failures: Why those do not answer that do not, by their endpoints.
    """

    def __init__(self) -> None:
        self.given: dict[object, Any] = {}
        self.failures: dict[str, QueryError] = {}


class SlotKeeper(NamedTuple):
    """A store and what it keeps, or why it does not say so."""

    slots: Slots
    store: SharingStore
    failure: QueryError | None = None

    def keeps(self, partition: Partition) -> bool:
        """Whether a partition is among it."""
        return self.slots.keeps(*partition)


class SharingStore(StoreClient):
    """One store, and for what it does not keep those that do.

    What is asked of a store itself, such as its health, groups and holes, is asked of this one.

    Args:
        endpoint: See `StoreClient`.
        patience: How long it is waited for, and who else of its cluster answers.
        credentials: Whose to use.
        connect: Makes the connection.
        others: Yields the other stores of the cluster and what they keep.
        lists: What they have listed for whoever asks all of them now; None if nobody does. Without
            it each of N stores would have the lists of N asked for.
    """

    def __init__(
        self,
        endpoint: str,
        patience: Patience,
        credentials: Credentials | None = None,
        connect: ConnectClient = QueryClient,
        *,
        others: Callable[[], Iterable[SlotKeeper]] = tuple,
        lists: Callable[[], Lists | None] = lambda: None,
    ) -> None:
        super().__init__(endpoint, patience.timeout_ms(endpoint), credentials, connect)
        self._patience = patience
        self._others, self._lists = others, lists
        self._shares = False
        """Whether it has ever said that others keep something."""
        self._kept: Slots | None = None
        """What it keeps, once it was asked."""

    @property
    def kept(self) -> Slots:
        """What it keeps.

        Raises:
            QueryError: It does not answer.
        """
        if self._kept is None:
            self.part = self.health().slots
            self._kept = slots_of_part(self.part)
            self._shares = self._shares or bool(self.part)
        return self._kept

    def own_ranges(self, topic: str | None = None) -> dict[Partition, range]:
        """Return what `ranges` does, as far as this store keeps it."""
        keeper = SlotKeeper(self.kept, self)  # before: of slots that are known it tells
        told = super().ranges(topic)
        return {one: kept for one, kept in told.items() if keeper.keeps(one)}

    def own_ranges_of(self, partitions: Iterable[Partition]) -> dict[Partition, range]:
        """Return what `ranges_of` does, as far as this store keeps it."""
        keeper = SlotKeeper(self.kept, self)
        return super().ranges_of([one for one in partitions if keeper.keeps(one)])

    def topics(self) -> list[str]:
        """See `StoreClient`."""
        return sorted(
            {topic for _, found in self._parts(StoreClient.topics, "topics") for topic in found}
        )

    def partitions(self, topic: str | None = None) -> list[Partition]:
        """See `StoreClient`."""
        parts = self._parts(lambda store: StoreClient.partitions(store, topic), "partitions", topic)
        return sorted({one for keeper, found in parts for one in found if keeper.keeps(one)})

    def ranges(self, topic: str | None = None) -> dict[Partition, range]:
        """See `StoreClient`."""
        return self._merged(lambda store: StoreClient.ranges(store, topic), "ranges", topic)

    def sized_ranges(self, topic: str | None = None) -> dict[Partition, tuple[range, int | None]]:
        """See `StoreClient`."""
        return self._merged(lambda store: StoreClient.sized_ranges(store, topic), "sized", topic)

    def changes(
        self, since: Mark | None, topic: str | None = None
    ) -> tuple[dict[Partition, range | None], Mark] | None:
        """See `StoreClient`; of several stores together None: each counts what changes there."""
        try:
            return None if self._shares and not _is_system(topic) else super().changes(since, topic)
        except ShareError:
            return None

    def ranges_of(self, partitions: Iterable[Partition]) -> dict[Partition, range]:
        """See `StoreClient`."""
        return self._each(partitions, StoreClient.ranges_of)

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """See `StoreClient`."""
        return self._of(partition, lambda store: StoreClient.find(store, partition, timestamp_ms))

    def digest(
        self, partition: Partition, start: int, end: int, *, exact: bool
    ) -> messages.DigestResponse:
        """See `StoreClient`."""
        return self._of(
            partition, lambda store: StoreClient.digest(store, partition, start, end, exact=exact)
        )

    def digests(self, spans: Mapping[Partition, range]) -> dict[Partition, tuple[int, int, bytes]]:
        """See `StoreClient`."""
        return self._each(
            spans,
            lambda store, asked: StoreClient.digests(store, {one: spans[one] for one in asked}),
        )

    def read(
        self,
        partition: Partition,
        sequence: int,
        count_max: int = BATCH_RECORDS_MAX,
        bytes_max: int = READ_BYTES_MAX,
    ) -> list[Batch]:
        """See `StoreClient`."""
        return self._of(
            partition,
            lambda store: StoreClient.read(store, partition, sequence, count_max, bytes_max),
        )

    def read_each(
        self, spans: Mapping[Partition, range], bytes_max: int, all_bytes_max: float = inf
    ) -> dict[Partition, list[Batch]]:
        """See `StoreClient`."""
        left = all_bytes_max

        def ask(store: StoreClient, asked: list[Partition]) -> dict[Partition, list[Batch]]:
            nonlocal left
            wanted = {one: spans[one] for one in asked}
            found = StoreClient.read_each(store, wanted, bytes_max, left)
            left -= sum(len(batch.content) for batches in found.values() for batch in batches)
            return found

        return self._each(spans, ask)

    def _of(self, partition: Partition, ask: Callable[[StoreClient], T]) -> T:
        """What the first that keeps a partition answers of it."""
        (answer,) = self._each((partition,), lambda store, _: {partition: ask(store)}).values()
        return answer

    def _each(
        self,
        partitions: Iterable[Partition],
        ask: Callable[[StoreClient, list[Partition]], dict[Partition, T]],
    ) -> dict[Partition, T]:
        """Ask of each partition the first that keeps it and answers."""
        wanted = list(partitions)
        if not wanted:
            return {}
        if not self._shares:
            try:
                return ask(self, wanted)
            except ShareError:
                self._shares = True
        found: dict[Partition, T] = {}
        failures: dict[str, QueryError] = {}
        passed: list[SlotKeeper] = []
        for keeper in self._keepers():
            passed.append(keeper)
            if keeper.failure is not None:
                failures[keeper.store.endpoint] = keeper.failure
                continue
            kept = [partition for partition in wanted if keeper.keeps(partition)]
            if not kept:
                continue
            try:
                found |= ask(keeper.store, kept)
            except QueryError as error:
                failures[keeper.store.endpoint] = self._passed_over(keeper, error)
                continue
            wanted = [partition for partition in wanted if not keeper.keeps(partition)]
            if not wanted:
                self._patience.passed_over(failures)
                return found
        raise self._lacking(f"partition {wanted[0]}", passed, failures)

    def _merged(
        self, ask: Callable[[StoreClient], dict[Partition, T]], what: str, topic: str | None
    ) -> dict[Partition, T]:
        merged: dict[Partition, T] = {}
        for keeper, found in self._parts(ask, what, topic):
            for one, told in found.items():
                if keeper.keeps(one):
                    merged.setdefault(one, told)  # what all keep is as the first says
        return merged

    def _parts(
        self, ask: Callable[[StoreClient], T], what: str, topic: str | None = None
    ) -> list[tuple[SlotKeeper, T]]:
        """What stores answer that keep all slots together, each with those it answers for."""
        alone = SlotKeeper(ALL_SLOTS, self)
        if _is_system(topic):
            return [(alone, ask(self))]
        if not self._shares:
            try:
                return [(alone, ask(self))]
            except ShareError:
                self._shares = True
        found: list[tuple[SlotKeeper, T]] = []
        failures: dict[str, QueryError] = {}
        left = ALL_SLOTS
        passed: list[SlotKeeper] = []
        for keeper in self._keepers():
            passed.append(keeper)
            if keeper.failure is not None:
                failures[keeper.store.endpoint] = keeper.failure
            share = keeper.slots.shared(left)
            if not share:
                continue
            try:
                found.append(
                    (SlotKeeper(share, keeper.store), self._listed(keeper, ask, (what, topic)))
                )
            except QueryError as error:
                failures[keeper.store.endpoint] = self._passed_over(keeper, error)
                continue
            left = left.without(share)
            if not left:
                self._patience.passed_over(failures)
                return found
        raise self._lacking(f"slots {left}", passed, failures)

    def _listed(
        self, keeper: SlotKeeper, ask: Callable[[StoreClient], T], what: tuple[str, str | None]
    ) -> T:
        lists = self._lists()
        if lists is None:
            return ask(keeper.store)
        key = keeper.store.endpoint, keeper.slots, what
        if key not in lists.given:
            lists.given[key] = ask(keeper.store)
        listed: T = lists.given[key]
        return listed

    def _keepers(self) -> Iterator[SlotKeeper]:
        """This store, then the others."""
        yield SlotKeeper(self.kept, self)
        yield from self._others()

    def _passed_over(self, keeper: SlotKeeper, error: QueryError) -> QueryError:
        """Another one may have it; but not for this one, of which it is said whether it answers."""
        if keeper.store is self:
            raise error
        return error

    def _ask(self, question: messages.Question, expected: type[T]) -> T:
        self.timeout_ms = self._patience.timeout_ms(self.endpoint)
        try:
            answer = super()._ask(question, expected)
        except RefusedError as error:
            self._patience.answered(self.endpoint)
            if isinstance(error, ShareError):
                self.forget_kept()  # it is another than it was, if it was asked before
            raise
        except QueryError as error:
            if (lists := self._lists()) is not None:
                lists.failures[self.endpoint] = error
            raise
        self._patience.answered(self.endpoint)
        return answer

    def forget_kept(self) -> None:
        """Ask anew what it keeps."""
        self._kept, self.part = None, ()

    def _lacking(
        self, what: str, passed: Iterable[SlotKeeper], failures: dict[str, QueryError]
    ) -> QueryError:
        for keeper in passed:
            keeper.store.forget_kept()
        last = next(reversed(failures.values()), None)
        why = last or "name stores that keep all slots together"
        return QueryError(f"store at {self.endpoint} does not keep {what}, nor does another: {why}")


def _is_system(topic: str | None) -> bool:
    return topic is not None and topic.startswith(SYSTEM)
