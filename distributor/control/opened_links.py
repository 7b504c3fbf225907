"""What the links of a replica do, as it tells at its metrics port.

Controllers know who may write; what a link does, and what it leaves out, knows only who runs it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from distributor.control.agent import SteeredLink
from distributor.control.flow_thread import opened
from distributor.control.flow_work import LinkAndBeats
from distributor.control.protocol import OpenedRow, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributor.control.flow_thread import BeatsBeside, Work
    from distributor.control.messages import Flow
    from topology.model import Topology

PAGE = "/links"
"""Where it is told."""


class OpenedLinks:
    """Opens flows, and remembers the links among them for as long as they are open.

    Args:
        topology: Where their clusters are declared.
        beats: Which links have heartbeats beside them.
    """

    def __init__(self, topology: Topology, beats: BeatsBeside) -> None:
        self._topology, self._beats = topology, beats
        self._links: list[SteeredLink] = []
        self._lock = threading.Lock()

    def open(self, flow: Flow, *, permitted: bool) -> Work:
        """Return a flow at work: see `opened`.

        Raises:
            DafkaError, DistributorError: It cannot run here.
        """
        work = opened(self._topology, self._beats, flow, permitted=permitted)
        link = work.link if isinstance(work, LinkAndBeats) else work
        if isinstance(link, SteeredLink):
            with self._lock:
                self._links = [*self._still_open(), link]
        return work

    def page(self, _asked: Mapping[str, str]) -> dict[str, object]:
        """What they do, for `decode_opened`: a page of a `Health`."""
        with self._lock:
            links = self._links = self._still_open()
        return {"links": values_of([OpenedRow(link.permitted, link.row()) for link in links])}

    def _still_open(self) -> list[SteeredLink]:
        return [link for link in self._links if not link.closed]
