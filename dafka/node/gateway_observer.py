"""Looks once a second at how a gateway is: for metrics, and for who asks whether it is well."""

from __future__ import annotations

import asyncio
from collections import Counter
from operator import is_
from typing import TYPE_CHECKING

from dafka.gateway.broker import KafkaPartition
from dafka.gateway.catalog import ORDERED
from dafka.gateway.effects import LagsMeasured, MeasureLags
from dafka.gateway.owned_partitions import OwnedPartitions
from dafka.gateway.sharing import gateway_of, share_of
from dafka.groups.lag import GROUPS_METERED_MAX
from dafka.node.loop import STUCK_MS
from dafka.process import metrics
from dafka.process.clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.gateway.broker import Gateway, Topic
    from dafka.gateway.coordinators import Coordinators
    from dafka.gateway.effects import Shared
    from dafka.node.gateway import GatewayNode

LOOK_S = 1.0


class GatewayObserver:
    """One gateway's. Used in the front's loop, but for what it says.

    Args:
        node: The gateway's node.
        groups: What it coordinates.
        clock_ms: Monotonic.
    """

    def __init__(
        self, node: GatewayNode, groups: Coordinators, clock_ms: Callable[[], int] = now_ms
    ) -> None:
        self._node, self._groups, self._now_ms = node, groups, clock_ms
        self.partitions = OwnedPartitions()
        self.lags: Mapping[str, int] = {}
        """Records that groups have not processed of what is served here."""
        self._division: tuple[Shared, Mapping[str, Topic]] | None = None
        self._owned: frozenset[KafkaPartition] = frozenset()
        self._all = 0
        self._states: set[str] = set()
        self._metered: set[str] = set()
        """Groups whose lag is told."""
        self._looked_ms = self._now_ms()

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """See how things are, and tell."""
        self._divide()
        shown = self._node.shown
        self.partitions.look(self._owned, shown.keys(), self._now_ms())
        self._node.meter.look(shown)
        self._tell()
        measured = await self._node.ask(MeasureLags)
        assert isinstance(measured, LagsMeasured)
        self.lags = measured.lags
        self._tell_lags()
        self._looked_ms = self._now_ms()

    def unwell(self) -> str:
        """Why the front does not work, for people; empty if it does."""
        silent_ms = self._now_ms() - self._looked_ms
        if silent_ms > STUCK_MS:
            return f"gateway's front has not turned for {silent_ms // 1_000} s"
        return ""

    def _divide(self) -> None:
        """Work out what is this gateway's, if that may have changed."""
        division = self._node.division
        before = self._division
        if before is not None and all(map(is_, division, before)):
            return
        self._division = shared, topics = division
        mine = {one for one in shared.members if self._is_mine(gateway_of(one))}
        partitions = [*ORDERED]
        for topic in topics.values():
            partitions += (KafkaPartition(topic.name, one) for one in range(topic.partitions))
        self._all = len(partitions)
        self._owned = frozenset(one for one in partitions if shared.owner(share_of(one)) in mine)

    def _is_mine(self, gateway: Gateway | None) -> bool:
        return gateway is not None and gateway.node == self._node.node

    def _tell(self) -> None:
        cluster, beginning = self._node.cluster_id, len(self.partitions.beginning)
        serving = len(self._owned) - beginning
        metrics.KAFKA_PARTITIONS.labels(cluster, "serving").set(serving)
        metrics.KAFKA_PARTITIONS.labels(cluster, "beginning").set(beginning)
        metrics.KAFKA_CLUSTER_PARTITIONS.labels(cluster).set(self._all)
        longest_s = self.partitions.longest_ms(self._now_ms()) / 1_000
        metrics.KAFKA_BEGINNING_SECONDS.labels(cluster).set(longest_s)
        metrics.KAFKA_STORES_AWAY.labels(cluster).set(self._node.stores_away)
        metrics.KAFKA_STORES_NEW.labels(cluster).set(self._node.stores_new)
        groups = self._groups.peopled().values()
        states = Counter(group.state for group in groups)
        self._states.update(states)
        for state in self._states:
            metrics.KAFKA_GROUPS.labels(cluster, state).set(states[state])
        metrics.KAFKA_MEMBERS.labels(cluster).set(sum(len(group.members) for group in groups))

    def _tell_lags(self) -> None:
        cluster = self._node.cluster_id
        for group in self._metered - self.lags.keys():
            metrics.KAFKA_GROUP_LAG.remove(cluster, group)
            self._metered.remove(group)
        for group, records in self.lags.items():
            if group in self._metered or len(self._metered) < GROUPS_METERED_MAX:
                self._metered.add(group)
                metrics.KAFKA_GROUP_LAG.labels(cluster, group).set(records)
