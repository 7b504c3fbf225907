"""What flows do beside copying records, and what goes on beside those.

None of it has anything open that it needs to be warm: to open it takes some milliseconds, so it is
begun once it may write. Each asks stores within time-outs; that one waits for them does not mean
that the process stands still.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from dafka.process.clock import now_ms
from distributor.control.steering import PROBE_INTERVAL_MS
from distributor.control.steering_thread import SteeringThread
from distributor.link.progress import LinkProgress
from distributor.offsets.node import OffsetsNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition
    from distributor.control.agent import SteeredLink
    from distributor.control.protocol import LinkRow
    from topology.model import Topology
    from topology.plan import Link

NOTHING = LinkProgress({}, {}, {})
"""How far a flow is that copies no records."""


class Running(Protocol):
    """What is begun: `SchemaNode`, `Heartbeat`."""

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""

    def unwell(self) -> str:
        """See `LongRunning`."""

    def unready(self) -> str:
        """See `LongRunning`."""

    def close(self) -> None:
        """End."""


class WhileAllowed:
    """Something that runs as long as it may write.

    Args:
        begin: Begins it.
        permitted: Whether it may at once.
    """

    progress = NOTHING

    def __init__(self, begin: Callable[[], Running], *, permitted: bool) -> None:
        self._begin = begin
        self._running = begin() if permitted else None
        self.closed = False
        """Whether it has ended, or is about to."""

    @property
    def permitted(self) -> bool:
        """Whether it may write."""
        return self._running is not None

    def row(self) -> None:
        """Nothing: it copies no records."""

    def remembered(self, _cluster: str) -> None:
        """Nothing: it asks nobody what there is of them."""

    @property
    def turned_ms(self) -> int:
        """Now: it has no loop of which that would say something."""
        return now_ms()

    def permit(self) -> None:
        """Begin."""
        if self._running is None:
            self._running = self._begin()

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        return self._running is not None and self._running.join(timeout)

    def unwell(self) -> str:
        """See `LongRunning`."""
        return "" if self._running is None else self._running.unwell()

    def unready(self) -> str:
        """See `LongRunning`."""
        return "" if self._running is None else self._running.unready()

    def close(self) -> None:
        """End it, if it was begun."""
        self.closed = True
        if self._running is not None:
            self._running.close()


class LinkAndBeats:
    """A link, and the heartbeats of its source while it may write.

    Args:
        link: The link.
        beats: See there.
    """

    def __init__(self, link: SteeredLink, beats: WhileAllowed) -> None:
        self._link, self._beats = link, beats

    @property
    def permitted(self) -> bool:
        """Whether it may write."""
        return self._link.permitted

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._link.closed

    def row(self) -> LinkRow:
        """What the link does."""
        return self._link.row()

    def remembered(self, cluster: str) -> tuple[int, Mapping[Partition, int]] | None:
        """What a cluster was last known to hold, and how many milliseconds ago."""
        return self._link.remembered(cluster)

    @property
    def progress(self) -> LinkProgress:
        """How far the link is."""
        return self._link.progress

    @property
    def turned_ms(self) -> int:
        """When the link's loop has turned last, on the monotonic clock."""
        return self._link.turned_ms

    def permit(self) -> None:
        """Write from now on."""
        self._link.permit()
        self._beats.permit()

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        return self._beats.join(0) or self._link.join(timeout)

    def unwell(self) -> str:
        """See `LongRunning`."""
        return self._link.unwell() or self._beats.unwell()

    def unready(self) -> str:
        """See `LongRunning`."""
        return self._link.unready()

    def close(self) -> None:
        """End both."""
        self._beats.close()
        self._link.close()


class OffsetsFlow:
    """The positions of groups, brought to one of a link's targets while it may write.

    It leaves a target that is silent as the flows of records do, on its own: a position means the
    same at each of them.

    Args:
        topology: Where the clusters are declared.
        link: Which arrow of the plan.
        permitted: Whether it may write; if not, it only looks at the targets.
        probe_interval_ms: How often.
    """

    progress = NOTHING
    sent: Mapping[Partition, int] = {}
    """Each round is over before the next: nothing is under way when the target is changed."""
    stuck_ms = late_ms = 0

    def __init__(
        self,
        topology: Topology,
        link: Link,
        *,
        permitted: bool,
        probe_interval_ms: int = PROBE_INTERVAL_MS,
    ) -> None:
        self._topology, self._link = topology, link
        self._target: str = link.target
        self._lock = threading.Lock()
        """Held while one node ends and the next begins."""
        self._node: OffsetsNode | None = None
        if permitted:
            self.permit()
        self._thread = SteeringThread(topology, link, self, probe_interval_ms)

    @property
    def target(self) -> str:
        """Where it brings them."""
        return self._target

    @property
    def permitted(self) -> bool:
        """Whether it may write."""
        return self._node is not None

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._thread.closed

    def row(self) -> None:
        """Nothing: it copies no records."""

    def remembered(self, _cluster: str) -> None:
        """Nothing: it asks nobody what there is of them."""

    @property
    def turned_ms(self) -> int:
        """Now: it has no loop of which that would say something."""
        return now_ms()

    def permit(self) -> None:
        """Write from now on."""
        with self._lock:
            if self._node is None:
                self._node = OffsetsNode(self._topology, self._link, self._target)

    def hold(self) -> None:
        """See `sent`."""

    def reopen(self, target: str) -> None:
        """End, and begin anew towards a target."""
        with self._lock:
            self._target = target
            if self._node is not None:
                self._node.close()
                self._node = OffsetsNode(self._topology, self._link, target)

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        if self._thread.failure is not None:
            raise self._thread.failure
        node = self._node
        return node is not None and node.join(timeout)

    def unwell(self) -> str:
        """See `LongRunning`."""
        node = self._node
        return str(self._thread.failure or ("" if node is None else node.unwell()))

    def unready(self) -> str:
        """Never: it goes on when stores answer."""
        return ""

    def close(self) -> None:
        """End."""
        self._thread.close()
        with self._lock:
            if self._node is not None:
                self._node.close()
