"""Asking every cluster of a topology what it holds, for its copy of a record, and about a group.

These are the facts behind `status`, `verify` and `offsets explain`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from dafka.cluster import Cluster
from dafka.errors import QueryError, RecordError
from dafka.model import ALL_SLOTS, Slots
from dafka.query.client import LOOK_TIMEOUT_MS, SIGN_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from dafka.transport.request import QueryClient
from distributor.offsets.explanation import GroupView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dafka.model import Partition, Record
    from dafka.query.client import StoreClient
    from dafka.transport.request import ConnectClient
    from topology.model import ClusterSpec, Topology

ASKED_AT_ONCE_MAX = 16
"""Threads: those that do not answer take two seconds each."""

T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Holding:
    """What one cluster's stores hold, as the best of them says.

    Attributes:
        cluster: Its name.
        store: Query port of the store that holds most; None if none answered.
        heads: Last sequence of every partition there.
        error: Why there is no answer.
        starts: Log start of every partition there: retention has taken what was before.
        slots: Of which it is: of one store among several those that it keeps.
    """

    cluster: str
    store: str | None
    heads: dict[Partition, int]
    error: str = ""
    starts: dict[Partition, int] = field(default_factory=dict)
    slots: Slots = ALL_SLOTS

    @property
    def records(self) -> int:
        """How many records that is."""
        return sum(head + 1 for head in self.heads.values())


def at_once(ask: Callable[[T], A], whom: Sequence[T]) -> list[A]:
    """Ask all at the same time; what they answer, in their order."""
    with ThreadPoolExecutor(max(1, min(ASKED_AT_ONCE_MAX, len(whom))), "dafka-ask") as pool:
        return list(pool.map(ask, whom))


def furthest(held: Iterable[Mapping[Partition, int]]) -> dict[Partition, int]:
    """Return the highest of several heads of each partition."""
    most: dict[Partition, int] = {}
    for heads in held:
        for partition, head in heads.items():
            most[partition] = max(head, most.get(partition, -1))
    return most


def lacking(due: Mapping[Partition, int], heads: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return how many records there are up to the heads due and not up to those there are."""
    return {
        partition: missing
        for partition, head in due.items()
        if (missing := head - heads.get(partition, -1)) > 0
    }


def survey(
    topology: Topology, timeout_ms: int = LOOK_TIMEOUT_MS, due: Iterable[Partition] = ()
) -> list[Holding]:
    """Ask every cluster at once; in the order of the file.

    Args:
        topology: Whose clusters.
        timeout_ms: For each question.
        due: Partitions that are asked for though none may list them any more: they have an end.

    Left out is what is not meant to be equal: internal and excluded topics, topics where they are
    not placed, and what was published on a cluster that only receives.
    """
    holdings = at_once(lambda cluster: _ask(cluster, timeout_ms), topology.clusters)
    named = {partition for holding in holdings for partition in holding.heads}.union(due)
    holdings = at_once(
        lambda one: _named(topology.cluster(one.cluster), one, named, timeout_ms), holdings
    )
    for holding in holdings:
        for partition in [p for p in holding.heads if not topology.wants(p.topic, holding.cluster)]:
            del holding.heads[partition], holding.starts[partition]
    mute = {cluster.name for cluster in topology.clusters if cluster.receive_only}
    shared = {p for holding in holdings if holding.cluster not in mute for p in holding.heads}
    for holding in holdings:
        for partition in holding.heads.keys() - shared:
            del holding.heads[partition], holding.starts[partition]
    return holdings


def survey_stores(
    cluster: ClusterSpec, timeout_ms: int = LOOK_TIMEOUT_MS
) -> tuple[list[Holding], list[str]]:
    """Ask every store of one cluster; what each keeps, under its own name, and who did not say."""
    with ClusterClient(Cluster.declared(cluster), timeout_ms) as stores:
        answers = stores.all(lambda store: (store.own_ranges(), store.kept))
    held = [
        replace(_holding(cluster, store, ranges), slots=slots)
        for store, (ranges, slots) in answers.given.items()
    ]
    silent = [f"{cluster.name} {store}: {error}" for store, error in answers.failures.items()]
    named = {partition for holding in held for partition in holding.heads}
    held = at_once(lambda one: _named(cluster, one, named, timeout_ms), held)
    return [replace(one, cluster=f"{cluster.name} {one.store}") for one in held], silent


def gives_sign_of_life(cluster: ClusterSpec, connect: ConnectClient = QueryClient) -> bool:
    """Whether any of a cluster's stores answers."""
    try:
        with ClusterClient(Cluster.declared(cluster), SIGN_TIMEOUT_MS, connect) as stores:
            stores.first(lambda store: store.health())
    except QueryError:
        return False
    return True


def _ask(cluster: ClusterSpec, timeout_ms: int) -> Holding:
    try:
        with ClusterClient(Cluster.declared(cluster), timeout_ms) as stores:
            return stores.best(
                lambda store: _holding(cluster, store.endpoint, store.ranges()),
                lambda holding: holding.records,
            )
    except QueryError as failure:
        return Holding(cluster.name, None, {}, str(failure))


def _holding(cluster: ClusterSpec, store: str, ranges: dict[Partition, range]) -> Holding:
    return Holding(
        cluster.name,
        store,
        heads={partition: kept.stop - 1 for partition, kept in ranges.items()},
        starts={partition: kept.start for partition, kept in ranges.items()},
    )


def _named(
    cluster: ClusterSpec, holding: Holding, partitions: set[Partition], timeout_ms: int
) -> Holding:
    """The same with those of `partitions` that the store has forgotten: it still has an end."""
    unlisted = {one for one in partitions - holding.heads.keys() if holding.slots.keeps(*one)}
    if holding.store is None or not unlisted:
        return holding
    try:
        with ClusterClient(Cluster.declared(cluster), timeout_ms) as stores:
            ended = _holding(
                cluster, holding.store, stores.store(holding.store).ranges_of(unlisted)
            )
    except QueryError as failure:
        return Holding(cluster.name, None, {}, str(failure))
    return replace(holding, heads=holding.heads | ended.heads, starts=holding.starts | ended.starts)


@dataclass(frozen=True, slots=True)
class Copy:
    """One cluster's copy of a record.

    Attributes:
        cluster: Which.
        record: None if no store there has it.
        error: Why that is not known.
    """

    cluster: str
    record: Record | None
    error: str = ""


def look_up(topology: Topology, partition: Partition, sequence: int) -> list[Copy]:
    """Ask all clusters at once; in the order of the file."""
    return at_once(lambda cluster: _copy(cluster, partition, sequence), topology.clusters)


def _copy(cluster: ClusterSpec, partition: Partition, sequence: int) -> Copy:
    """The first store that has it speaks for the cluster; one that does not answer may have it."""
    try:
        with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
            return Copy(
                cluster.name,
                stores.first_with(lambda store: record_at(store, partition, sequence)),
            )
    except QueryError as failure:
        return Copy(cluster.name, None, str(failure))


def record_at(client: StoreClient, partition: Partition, sequence: int) -> Record | None:
    """Return a store's record of a sequence; None if it is not there.

    Raises:
        QueryError: The store does not answer, or the record is damaged.
    """
    try:
        for batch in client.scan(partition, sequence, sequence + 1):
            return next(records_of(batch, sequence), None)
    except RecordError as error:
        raise QueryError(f"store at {client.endpoint} has a damaged record: {error}") from error
    return None


def survey_group(topology: Topology, group: str) -> list[GroupView]:
    """Ask every cluster at once; in the order of the file."""
    return at_once(lambda cluster: _view(cluster, group), topology.clusters)


def _view(cluster: ClusterSpec, group: str) -> GroupView:
    """What the first store says that answers; whether members live, any of them."""
    with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
        rosters = stores.all(lambda store: store.members(group))
        live = any(pulse.alive for roster in rosters.given.values() for pulse in roster.pulses)
        try:
            commits, ends = stores.first(lambda store: (store.offsets(group), _ends(store)))
        except QueryError as failure:
            return GroupView(cluster.name, cluster.id, error=str(failure))
    return GroupView(cluster.name, cluster.id, commits, ends, live)


def _ends(store: StoreClient) -> dict[Partition, int]:
    return {partition: kept.stop for partition, kept in store.ranges().items()}
