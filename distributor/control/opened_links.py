"""What the flows of a replica do, as it tells at its metrics port.

Controllers know who may write; what a link does, and what it leaves out, knows only who runs it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from distributor.control.flow_thread import opened
from distributor.control.protocol import OpenedFlowRow, OpenedPage, OpenedRow, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributor.control.flow_thread import BeatsBeside, Work
    from distributor.control.messages import Flow
    from topology.model import Topology

PAGE = "/links"
"""Where it is told."""


class OpenedLinks:
    """Opens flows, and remembers them for as long as they are open.

    Args:
        topology: Where their clusters are declared.
        beats: Which links have heartbeats beside them.
    """

    def __init__(self, topology: Topology, beats: BeatsBeside) -> None:
        self._topology, self._beats = topology, beats
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

    def _still_open(self) -> list[tuple[Flow, Work]]:
        return [(flow, work) for flow, work in self._flows if not work.closed]
