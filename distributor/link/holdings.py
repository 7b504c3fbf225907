"""What both ends of a link say they hold, asked for again and again: only what has changed."""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.model import WHOLE
from dafka.process.clock import CLOCK
from dafka.query.client import SIGN_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.query.listing import Listing
from dafka.transport.request import QueryClient
from distributor.link.events import HeadsRead, HeadsUnread
from distributor.verify.divergence import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dafka.model import Partition, PartitionShare
    from dafka.query.client import StoreClient
    from dafka.transport.request import ConnectClient
    from topology.model import ClusterSpec

log = logging.getLogger(__name__)


class StoreView:
    """What one store has said it holds of what a link carries."""

    def __init__(self, wants: Callable[[str], bool], share: PartitionShare = WHOLE) -> None:
        self._wants, self._share = wants, share
        self._listing = Listing()
        self.heads: dict[Partition, int] = {}
        """The last sequence of each partition."""
        self.begins: dict[Partition, int] = {}
        """Log starts, where they are above 0."""
        self.empty: set[Partition] = set()
        """Partitions of which nothing is kept any more."""
        self.unlisted: dict[Partition, int | None] = {}
        """The last sequence of partitions that it does not list, by name; -1 where it never had
        any, None where it has forgotten one since and was not asked again."""

    def read(self, client: StoreClient) -> None:
        """Bring it up to date.

        Raises:
            QueryError: The store does not answer.
        """
        ranges, everything = self._listing.read(client)
        if everything:
            # Of what it had said before only the names are left.
            self.unlisted = dict.fromkeys([*self.unlisted, *self.heads])
            self.heads, self.begins, self.empty = {}, {}, set()
        self._take(ranges)

    def name(
        self,
        client: StoreClient,
        partitions: Collection[Partition] | None,
        found: Collection[Partition] = (),
    ) -> None:
        """Ask by name, and once, about those of these that it does not list; forget all others.

        What it has forgotten it still knows the end of, and need not be brought again. None are
        those that it was asked about before, and what it has forgotten since; beside both what was
        found.

        Raises:
            QueryError: The store does not answer.
        """
        wanted = [
            partition
            for partition in chain(
                self.unlisted if partitions is None else partitions, sorted(found)
            )
            if partition not in self.heads
        ]
        known = {partition: self.unlisted.get(partition) for partition in wanted}
        asked = [partition for partition, head in known.items() if head is None]
        ended = client.ranges_of(asked) if asked else {}
        nothing = range(0)
        self.unlisted = known | {one: ended.get(one, nothing).stop - 1 for one in asked}

    def end(self, partition: Partition) -> int:
        """The sequence after the last one it ever had, as far as it has said."""
        head = self.heads.get(partition, self.unlisted.get(partition))
        return 0 if head is None else head + 1

    @property
    def kept(self) -> dict[Partition, range]:
        """What it keeps of every partition that it lists; empty ranges are where it goes on."""
        return {one: range(self.begins.get(one, 0), head + 1) for one, head in self.heads.items()}

    def _take(self, ranges: Mapping[Partition, range | None]) -> None:
        for partition, kept in ranges.items():
            if not (self._wants(partition.topic) and self._share.has(partition.address)):
                continue
            if kept is None:
                self.heads.pop(partition, None)
                self.begins.pop(partition, None)
                self.empty.discard(partition)
                self.unlisted[partition] = None
                continue
            self.unlisted.pop(partition, None)
            self.heads[partition] = kept.stop - 1
            if kept.start:
                self.begins[partition] = kept.start
            if kept:
                self.empty.discard(partition)
            else:
                self.empty.add(partition)


class Holdings:
    """What one cluster holds of what a link carries. Used by one thread.

    Args:
        cluster: Whose stores to ask.
        wants: Whether the link carries a topic.
        connect: Makes the connections to the stores.
        timeout_ms: How long one of them may take; see `ClusterClient`.
        share: Which partitions of its topics.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        wants: Callable[[str], bool],
        connect: ConnectClient = QueryClient,
        timeout_ms: int | None = None,
        share: PartitionShare = WHOLE,
    ) -> None:
        self.cluster = cluster.name
        declared = Cluster.declared(cluster)
        self._stores = ClusterClient(declared, timeout_ms, connect)
        self._signs = ClusterClient(declared, SIGN_TIMEOUT_MS, connect)
        self._views = {store.query: StoreView(wants, share) for store in cluster.stores}
        self.store = cluster.stores[0].query
        """The query port of the store that last spoke for the cluster."""

    @property
    def said(self) -> StoreView:
        """What the store that last spoke for the cluster has said."""
        return self._views[self.store]

    def ask(self) -> bool:
        """Bring this up to date; False if no store answered.

        The stores are asked in turn, from the first on that gives a sign of life; the first that
        answers speaks for all. Another one may have more or less. Less is repeated and ignored,
        more is repaired among the stores.
        """
        try:
            if len(self._views) > 1:  # what it holds may take one long to say
                self._stores.prefer(self._signs.first(self._sign))
        except QueryError:
            pass  # they may be busy
        try:
            self.store = self._stores.first(self._ask)
        except QueryError:
            return False  # each has been told of
        return True

    def name(
        self, partitions: Collection[Partition] | None, found: Collection[Partition] = ()
    ) -> bool:
        """Ask the store that spoke last, see `StoreView.name`; False if it does not answer."""
        try:
            self.said.name(self.client(), partitions, found)
        except QueryError as error:
            self._unsaid(self.client(), error)
            return False
        return True

    def each(self) -> dict[str, StoreView]:
        """Ask every store; return what those hold that answer, by their query ports."""
        return {endpoint: self._views[endpoint] for endpoint in self._stores.all(self._ask).given}

    def least(self, partitions: Collection[Partition]) -> dict[Partition, int] | None:
        """Ask every store; return how far all that answer have these; None if none answers."""

        def ask(client: StoreClient) -> StoreView:
            view = self._views[self._ask(client)]
            view.name(client, partitions)
            return view

        views = self._stores.all(ask).given.values()
        if not views:
            return None
        return {partition: min(view.end(partition) for view in views) for partition in partitions}

    def client_of(self, endpoint: str) -> StoreClient:
        """One of the stores, by its query port."""
        return self._stores.store(endpoint)

    def begins(self) -> dict[Partition, int] | None:
        """Ask every store; return the least log starts, where above 0; None if one is silent.

        A store that has never had a partition says nothing of where it begins.
        """
        if self._stores.all(self._ask).failures:
            return None
        views = list(self._views.values())
        return {
            partition: min(
                view.begins.get(partition, 0) for view in views if partition in view.heads
            )
            for view in views
            for partition in view.begins
        }

    def kept(self, partitions: Collection[Partition]) -> Collection[Partition]:
        """Ask every store; return those of these of which one keeps something, or may."""
        if len(self._views) > 1 and self._stores.all(self._ask).failures:
            return partitions
        views = self._views.values()
        return {
            partition
            for partition in partitions
            if any(partition in view.heads and partition not in view.empty for view in views)
        }

    def client(self) -> StoreClient:
        """The store that last spoke for the cluster."""
        return self._stores.store(self.store)

    def close(self) -> None:
        """Release the connections."""
        self._stores.close()
        self._signs.close()

    def _ask(self, client: StoreClient) -> str:
        try:
            self._views[client.endpoint].read(client)
        except QueryError as error:
            self._unsaid(client, error)
            raise
        return client.endpoint

    def _sign(self, client: StoreClient) -> str:
        """Where one is that answers at all."""
        try:
            client.health()
        except QueryError as error:
            self._unsaid(client, error)
            raise
        return client.endpoint

    def _unsaid(self, client: StoreClient, error: QueryError) -> None:
        facts = {"cluster": self.cluster, "store": client.endpoint, "error": str(error)}
        log.warning("a store does not say what it holds", extra=facts)


class BothEnds:
    """What both ends hold, and whether they mean the same records. Used by one thread.

    Args:
        source: Where the link reads.
        target: Where it writes.
        wants: Whether it carries a topic.
        connect: Makes the connections to the stores.
        now_ms: The monotonic clock.
        share: Which partitions of its topics.
    """

    def __init__(
        self,
        source: ClusterSpec,
        target: ClusterSpec,
        wants: Callable[[str], bool],
        connect: ConnectClient = QueryClient,
        now_ms: Callable[[], int] = CLOCK.now_ms,
        share: PartitionShare = WHOLE,
    ) -> None:
        self.source, self.target = source.name, target.name
        self._source = Holdings(source, wants, connect, share=share)
        self._target = Holdings(target, wants, connect, share=share)
        self._witness = Witness()
        self._now_ms = now_ms
        self.told: dict[str, tuple[int, Mapping[Partition, int]]] = {}
        """When each cluster last said what it holds, and that; read by other threads."""

    def survey(self, found: Collection[Partition] = ()) -> HeadsRead | HeadsUnread:
        """Ask both ends' stores.

        Args:
            found: What was heard of, and may be listed by neither.
        """
        source, target = self._source, self._target
        # Copies of what changes with the next survey: they are read in another thread.
        theirs = self._heads_of(target)
        if theirs is None:
            return HeadsUnread()
        ours = self._heads_of(source)
        if not target.name(None if ours is None else ours, found):
            return HeadsUnread()
        ended = _ended(target)
        theirs |= ended
        if ours is not None:
            ours = ours | _ended(source) if source.name(found) else None
        hidden = False
        begins = {} if ours is None else dict(source.said.begins)
        certain = ours is not None
        if overtaken := _overtaken(begins, theirs):
            # What this store lacks, and the target, another one may have.
            by_all = source.begins()
            certain = by_all is not None
            if by_all is not None:
                begins, overtaken = by_all, _overtaken(by_all, theirs)
        # So may another one of the target: one that has a new disk does not make it empty.
        empty = {*target.said.empty, *ended}
        unlisted = (overtaken | self._witness.diverged.keys()) - theirs.keys()
        doubted = unlisted | (overtaken & empty)
        kept = frozenset(target.kept(doubted) if doubted else ())
        if ours is not None and (spans := self._witness.due(ours, theirs, kept)):
            hidden = not self._look(spans)
        # A source that does not answer has not lost anything: what was found out still holds.
        return HeadsRead(
            target=theirs,
            source=ours or {},
            diverged=dict(self._witness.diverged),
            waiting=self._witness.waiting(theirs),
            hidden=hidden,
            begins=begins,
            certain=certain,
            empty=frozenset(empty - kept),
            kept=kept.difference(theirs),
        )

    def close(self) -> None:
        """Release the connections."""
        self._source.close()
        self._target.close()

    def _look(self, spans: Mapping[Partition, range]) -> bool:
        """Compare; whether the target shows what is asked for."""
        try:
            self._witness.look(self._source.client(), self._target.client(), spans)
        except QueryError as error:
            log.warning("cannot compare records", extra={"error": str(error)})
            return self._shows(spans)
        return True

    def _shows(self, spans: Mapping[Partition, range]) -> bool:
        """Whether it was not the target that refused."""
        try:
            self._target.client().digests({one: span for one, span in spans.items() if span})
        except QueryError:
            return False
        return True

    def _heads_of(self, holdings: Holdings) -> dict[Partition, int] | None:
        if not holdings.ask():
            return None
        heads = dict(holdings.said.heads)
        self.told[holdings.cluster] = (self._now_ms(), heads)
        return heads


def _overtaken(begins: Mapping[Partition, int], target: Mapping[Partition, int]) -> set[Partition]:
    """What begins at the source only behind where the target ends."""
    return {one for one, start in begins.items() if start > target.get(one, -1) + 1}


def _ended(holdings: Holdings) -> dict[Partition, int]:
    """Where those ended that were asked about by name."""
    unlisted = holdings.said.unlisted.items()
    return {one: head for one, head in unlisted if head is not None and head >= 0}
