"""Slots that move between the stores of a cluster: who is to keep them, and how far that is."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.model import ALL_SLOTS, Slots
from dafka.query.client import LOOK_TIMEOUT_MS, StoreClient
from dafka.query.cluster_client import Answers, ClusterClient
from dafka.query.slot_mover import SlotMover
from dafka.query.slot_steps import slots_in, slots_of_part
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.lmdb_log import LmdbLog
from distributor.survey import at_once
from topology.slots import kept_too_seldom
from topology.store_rules import disk_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from dafka.query.messages import HealthResponse
    from dafka.query.slot_mover import Had
    from dafka.query.slot_steps import SlotsResponse
    from topology.model import ClusterName, ClusterSpec, StoreSpec, Topology


def moving_slots(cluster: ClusterSpec) -> list[str]:
    """Ask the stores of a cluster; a sentence for each that does not keep what the file gives it.

    Also where the file lets all keep all: they may not do so yet.
    """
    return _moving(cluster, _healths(cluster))


def _healths(cluster: ClusterSpec) -> Answers[HealthResponse]:
    with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
        return stores.all(lambda store: store.health())


def _moving(cluster: ClusterSpec, answers: Answers[HealthResponse]) -> list[str]:
    given = answers.given
    told = [(one, unsettled(one, given[one.query])) for one in cluster.stores if one.query in given]
    return [f"{store.query} {said}" for store, said in told if said]


def unsettled(store: StoreSpec, health: HealthResponse) -> str:
    """How a store does not keep what the file gives it; empty if it does."""
    slots, kept = Slots.of(store.slots), slots_of_part(health.slots)
    if kept == slots or str(health.moving):
        return str(health.moving)
    return f"keeps slots {kept or 'none'}, and the file gives it slots {slots}"


def still_moving(running: Topology) -> frozenset[ClusterName]:
    """The clusters in which slots move, of a change that was not brought to its end.

    Where stores share slots out, one that does not answer may be about to.
    """
    answers = at_once(_healths, running.clusters)
    return frozenset(
        cluster.name
        for cluster, told in zip(running.clusters, answers, strict=True)
        if _moving(cluster, told) or (cluster.shared_out and told.failures)
    )


def beyond(cluster: ClusterSpec, other: ClusterSpec) -> list[StoreSpec]:
    """Return the stores of a cluster that it does not have in another file."""
    there = {disk_of(store) for store in other.stores}
    return [store for store in cluster.stores if disk_of(store) not in there]


def let_join(stores: Iterable[StoreSpec], directory: Path) -> None:
    """See that stores that come to a cluster which runs keep nothing before they have it.

    What a disk says that is there already it goes on saying.

    Args:
        stores: They.
        directory: Where their processes run.

    Raises:
        StorageError: A directory cannot be used, or a store uses it.
    """
    for store in stores:
        with closing(LmdbLog(directory / store.data)) as log:
            KeptSlots(log, Slots.of(store.slots), joins=True)


def said_of_slots(cluster: ClusterSpec, stores: Iterable[StoreSpec]) -> list[SlotsResponse | str]:
    """What stores of a cluster say of their slots; of one that does not answer why."""
    credentials = Cluster.declared(cluster).credentials
    found: list[SlotsResponse | str] = []
    for store in stores:
        with StoreClient(store.query, LOOK_TIMEOUT_MS, credentials) as client:
            try:
                found.append(client.slots())
            except QueryError as error:
                found.append(str(error))
    return found


def still_needed(cluster: ClusterSpec, store: StoreSpec, said: SlotsResponse, had: Had) -> str:
    """What a store that is to end has, and too few of those that stay; empty if nothing.

    Args:
        cluster: As it is to be, without that store.
        store: It.
        said: What it says that it keeps.
        had: See `SlotMover`.
    """
    relied_on: list[Slots] = []
    for one, other in zip(cluster.stores, said_of_slots(cluster, cluster.stores), strict=True):
        if isinstance(other, str):
            return f"{one.query} to answer: {other}"
        relied_on.append(slots_in(other.kept).without(slots_in(other.stopped)))
    few = kept_too_seldom([one.ranges() for one in relied_on], cluster.copies)
    alone = Slots.of(missing for missing, _ in few).shared(slots_in(said.kept))
    if not alone:
        with _mover(cluster, [store], had) as mover:
            return mover.owed()
    return f"{cluster.copies} others to keep slots {alone}, which {store.query} keeps"


def unstarted(cluster: ClusterSpec) -> dict[StoreSpec, str]:
    """The stores that do not run with what the file gives them, and what is waited for at each.

    One of before, which is about to be started anew, would seem to have moved all that it is to.
    """
    found: dict[StoreSpec, str] = {}
    for store, said in zip(cluster.stores, said_of_slots(cluster, cluster.stores), strict=True):
        slots = Slots.of(store.slots)
        if isinstance(said, str):
            found[store] = said
        elif slots_in(said.wanted) != slots:
            found[store] = f"{store.query} to be started with slots {slots}"
    return found


def move_slots(
    cluster: ClusterSpec, leaving: Sequence[StoreSpec] = (), had: Had | None = None
) -> str:
    """Take the steps that can be taken; what is waited for, empty if all keep what they are to.

    Args:
        cluster: As it is to be.
        leaving: Stores that it is to have no more, which may not have ended: of a change that was
            not brought to its end one of them may alone keep what others have not joined yet.
        had: See `SlotMover`.
    """
    if waits_for := unstarted(cluster):
        return "; ".join(waits_for.values())
    told = dict(zip(leaving, said_of_slots(cluster, leaving), strict=True))
    running = [store for store, said in told.items() if not isinstance(said, str)]
    ended = [store for store in leaving if store not in running]
    alone = _kept_by_none(cluster, running) if ended else None
    if alone:
        return f"{ended[0].query} to answer: none that does keeps slots {alone}"
    with _mover(cluster, running, had) as mover:
        return mover.look()


@contextmanager
def _mover(
    cluster: ClusterSpec, leaving: Sequence[StoreSpec], had: Had | None
) -> Iterator[SlotMover]:
    credentials = Cluster.declared(cluster).credentials
    with ExitStack() as opened:
        stores, others = (
            [
                opened.enter_context(StoreClient(store.query, LOOK_TIMEOUT_MS, credentials))
                for store in several
            ]
            for several in (cluster.stores, leaving)
        )
        yield SlotMover(stores, cluster.copies, others, had)


def _kept_by_none(cluster: ClusterSpec, others: Sequence[StoreSpec]) -> Slots:
    """The slots that no store of a cluster says that it keeps, nor another of these."""
    left = ALL_SLOTS
    for said in said_of_slots(cluster, (*cluster.stores, *others)):
        if not isinstance(said, str):
            left = left.without(slots_in(said.kept))
    return left
