"""What the flows of a replica do, as it tells at its metrics port.

Controllers know who may write; what a link does, and what it leaves out, knows only who runs it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dafka.wire.primitives import octets_of
from distributor.control.flow_thread import opened
from distributor.control.protocol import (
    OpenedFlowRow,
    OpenedPage,
    OpenedRow,
    RememberedPage,
    values_of,
)
from distributor.survey import furthest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributor.control.flow_thread import BeatsBeside, Work
    from distributor.control.messages import Flow
    from topology.model import Topology

PAGE = "/links"
"""Where it is told."""

REMEMBERED_PAGE = "/remembered"
"""Where it is told what a cluster, `?cluster=`, was last known to hold, `&from=` a number on."""

REMEMBERED_MAX = 5_000
"""Partitions of one such page: of the longest names half of what who asks reads."""


class OpenedLinks:
    """Opens flows, and remembers them for as long as they are open.

    Args:
        topology: Where their clusters are declared.
        beats: Which links have heartbeats beside them.
        remembered_max: Partitions of one page of what is remembered.
    """

    def __init__(
        self, topology: Topology, beats: BeatsBeside, remembered_max: int = REMEMBERED_MAX
    ) -> None:
        self._topology, self._beats = topology, beats
        self._remembered_max = remembered_max
        self._flows: list[tuple[Flow, Work]] = []
        self._lock = threading.Lock()

    def open(self, flow: Flow, *, permitted: bool) -> Work:
        """Return a flow at work: see `opened`.

        Raises:
            DafkaError, DistributorError: It cannot run here.
        """
        work = opened(self._topology, self._beats, flow, permitted=permitted)
        with self._lock:
            self._flows = [*self._still_open(), (flow, work)]
        return work

    def page(self, _asked: Mapping[str, str]) -> dict[str, object]:
        """What they do, for `decode_opened`: a page of a `Health`."""
        with self._lock:
            flows = self._flows = self._still_open()
        links: list[OpenedRow] = []
        others: list[OpenedFlowRow] = []
        for flow, work in flows:
            row, link = work.row(), flow.link
            if row is not None:
                links.append(OpenedRow(work.permitted, row, flow.share, flow.shares))
            else:
                place = (link.source, link.level, link.branch, link.topics)
                others.append(OpenedFlowRow(flow.kind.value, *place, work.permitted))
        return values_of(OpenedPage(tuple(links), tuple(others)))

    def remembered(self, asked: Mapping[str, str]) -> dict[str, object]:
        """What a cluster was last known to hold, for `decode_remembered`: a page of a `Health`."""
        with self._lock:
            works = [work for _, work in self._still_open()]
        cluster = asked.get("cluster", "")
        known = [one for work in works if (one := work.remembered(cluster)) is not None]
        ages = [age_ms for age_ms, _ in known]
        heads = furthest(heads for _, heads in known)
        first = int(start) if (start := asked.get("from", "")).isdecimal() else 0
        shown = sorted(heads)[first : first + self._remembered_max]
        chosen = [(octets_of(one.topic), octets_of(one.address), heads[one]) for one in shown]
        more = first + self._remembered_max < len(heads)
        return values_of(RememberedPage(min(ages, default=-1), (*chosen,), more))

    def _still_open(self) -> list[tuple[Flow, Work]]:
        return [(flow, work) for flow, work in self._flows if not work.closed]
