"""What a controller answers operators: from what it knows, and from the stores of its cluster.

To be used in the controller's loop; stores are asked in threads, in which nothing else waits.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.records.envelope import unpack
from distributor.control.questions import (
    Asked,
    KnownFlows,
    Waited,
    aimed_rows,
    due_of,
    left_rows,
    matching,
    route_rows,
)
from distributor.control.resuming import KeptRanges, hole_pass
from distributor.errors import CommandError
from distributor.survey import furthest
from topology.copyflags import in_epoch

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.model import Partition
    from dafka.query.client import StoreClient
    from distributor.control.aims import LinkTurn
    from distributor.control.demands import Demand, LevelPause
    from distributor.control.operator_wire import RouteQuestion
    from distributor.control.protocol import PassedOver
    from distributor.control.questions import AimedLinkRow, RouteRow
    from distributor.control.resuming import ResumeOrder
    from distributor.control.wait_desk import WaitDesk
    from topology.model import ClusterSpec, Topology

TIMEOUT_MS_MAX = 86_400_000
"""Nobody waits for longer."""

T = TypeVar("T")

LOOKS_AT_ONCE = 4
"""Threads in which stores are asked for operators."""


class NotInChargeError(CommandError):
    """Another controller is in charge, or none.

    Attributes:
        place: Where the one is that is, `HOST:PORT`; empty if that is not known.
    """

    def __init__(self, place: str) -> None:
        known = f": ask the one at {place}" if place else ""
        super().__init__(f"this controller is not in charge{known}")
        self.place = place


class AskedController(Protocol):
    """A controller, as far as operators ask it."""

    waits: WaitDesk

    def known(self) -> KnownFlows | None:
        """What it knows; None while it is not in charge."""

    async def demand(self, demand: Demand) -> None:
        """Have something wanted of links, and wait until that is kept.

        Raises:
            RefusedCommandError: They cannot.
            DemandLostError: Whether it is kept is not known.
        """

    async def who(self) -> str:
        """Where the controller is that is in charge, as the stores say; empty if they do not."""


class OperatorDesk:
    """Answers operators.

    Args:
        topology: What the file says.
        cluster: Whose controller it is.
        controller: See there.
    """

    def __init__(
        self, topology: Topology, cluster: ClusterSpec, controller: AskedController
    ) -> None:
        self._topology, self._cluster, self._controller = topology, cluster, controller
        self._asking = ThreadPoolExecutor(LOOKS_AT_ONCE, "dafka-look")

    async def waited(self, asker: str, timeout_ms: int) -> Waited:
        """Wait until what is published so far is at the targets, or time is up.

        Args:
            asker: Who wants to know.
            timeout_ms: How long.

        Raises:
            NotInChargeError, WaitFailedError: There is no answer.
            QueryError: No store of the cluster answers.
        """
        await self._known()
        ends = await self._looked(partial(_ends, self._cluster))
        asked = await self._known()
        due = due_of(self._topology, asked, ends)
        left = await self._controller.waits.wait(asker, due, min(timeout_ms, TIMEOUT_MS_MAX))
        partitions = len({one for frontier in due.values() for one in frontier})
        rows = left_rows(asked.now(await self._known()), due, left) if left else []
        return Waited((*rows,), len(due), partitions)

    async def routes(self, question: RouteQuestion) -> list[RouteRow]:
        """What flows do with a topic or a partition.

        Raises:
            NotInChargeError: There is no answer.
            QueryError: No store of the cluster answers.
        """
        await self._known()
        ends = await self._looked(partial(_ends, self._cluster))
        topics = matching(question.what, ends)
        flags = None
        partitions = [one for found in topics.values() for one in found.items()]
        if len(partitions) == 1:
            ((partition, end),) = partitions
            sequence = end - 1 if question.sequence is None else question.sequence
            if 0 <= sequence < end:
                epoch = self._topology.levels.epoch
                flags = await self._looked(
                    partial(_flags, self._cluster, partition, sequence, epoch)
                )
        return route_rows(self._topology, await self._known(), Asked(topics, flags))

    async def demanded(self, demand: LinkTurn | LevelPause) -> list[AimedLinkRow]:
        """Have links aim elsewhere, pause or go on; once that is kept, where they aim.

        Raises:
            NotInChargeError, RefusedCommandError, DemandLostError: It is not done.
        """
        await self._known()
        await self._controller.demand(demand)
        return aimed_rows(await self._known(), demand.level)

    async def resumed(self, asked: ResumeOrder) -> PassedOver:
        """Have links go on behind what the cluster keeps no more; once kept, how much it is.

        Raises:
            NotInChargeError, RefusedCommandError, DemandLostError: It is not done.
            QueryError: No store of the cluster answers.
        """
        await self._known()
        kept = await self._looked(partial(_kept, self._cluster, asked.topic))
        demand, passed = hole_pass(self._topology, await self._known(), asked, kept)
        await self._controller.demand(demand)
        return passed

    def close(self) -> None:
        """Ask no store any more."""
        self._asking.shutdown(wait=False, cancel_futures=True)

    async def _known(self) -> KnownFlows:
        known = self._controller.known()
        if known is None:
            raise NotInChargeError(await self._controller.who())
        return known

    async def _looked(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._asking, ask)


def _ends(cluster: ClusterSpec) -> dict[Partition, int]:
    """Where each partition ends, as the furthest of the stores says that answer."""
    with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
        answers = stores.all(lambda store: store.ranges())
    if not answers.given:
        raise QueryError(f"no store of {cluster.name} answers: {answers.failure}")
    given = answers.given.values()
    return furthest({one: kept.stop for one, kept in ranges.items()} for ranges in given)


def _kept(cluster: ClusterSpec, topic: str) -> KeptRanges:
    """What the stores keep of a topic, as far as they answer."""
    with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
        answers = stores.all(lambda store: store.ranges(topic))
    if not answers.given:
        raise QueryError(f"no store of {cluster.name} answers: {answers.failure}")
    return KeptRanges((*answers.given.values(),), whole=not answers.failures)


def _flags(cluster: ClusterSpec, partition: Partition, sequence: int, epoch: int) -> int | None:
    """The copy flags of a record, as they count in an epoch; None if it is not there."""

    def read(store: StoreClient) -> int | None:
        for batch in store.scan(partition, sequence, sequence + 1):
            if (envelope := unpack(batch.content)) is not None:
                return in_epoch(envelope.copy_flags, envelope.epoch, epoch)
        return None

    with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
        return stores.first_with(read)
