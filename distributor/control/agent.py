"""A link with a choice of targets, and the control socket by which it is told to take another.

It serves one target and watches all. The link itself keeps nothing, so a change is its end and a
new beginning towards another target. One thread takes the commands for all links of a process.
"""

from __future__ import annotations

import logging
import threading
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from dafka.errors import MisuseError, WireError
from dafka.model import WHOLE
from dafka.process import metrics
from dafka.process.clock import now_ms, wall_ms
from dafka.process.files import private_directory
from dafka.process.threads import wait_for_end
from dafka.query.paging import page
from dafka.transport.request import QueryServer
from dafka.wire.primitives import octets_of, text
from distributor.control import protocol
from distributor.control.messages import Flow, FlowKind
from distributor.control.protocol import (
    STOPPED_MAX,
    SUPERSEDED_STATE,
    VERSION,
    LinkRow,
    StoppedRow,
    decode_command,
    encode,
)
from distributor.control.steering import PROBE_INTERVAL_MS
from distributor.control.steering_thread import SteeringThread
from distributor.link.events import StopReason
from distributor.link.node import LinkNode
from distributor.link.target import ClusterLost, Pause, Retarget
from distributor.offsets.node import OffsetsNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.model import Partition, PartitionShare
    from distributor.control.writer_watch import WatchedWriter, WriterWatch
    from distributor.link.events import Hole, Stop
    from distributor.link.progress import LinkProgress
    from distributor.link.target import TargetEvent
    from topology.model import Topology
    from topology.plan import Link


log = logging.getLogger(__name__)


_OTHERS_END = "the end of another process that was started later and writes the same"

REOPEN_MS_MAX = 10_000
"""So long a link may take to begin anew before it is taken to stand still: on a busy machine it is
some seconds, in which no loop of it turns."""


class SteeredLink:
    """One link of the plan, running, with all its targets.

    Args:
        topology: Where the clusters are declared.
        link: Which arrow of the plan.
        probe_interval_ms: How often to look at the targets.
        permitted: Whether it may write; if not, it is ready to, until `permit`.
        is_flow: Whether it is one of a replica: of records alone, and its progress is asked for.
        share: Which partitions it carries. Positions of groups the first share brings.
        passes: Holes that it passes over.
    """

    def __init__(
        self,
        topology: Topology,
        link: Link,
        probe_interval_ms: int = PROBE_INTERVAL_MS,
        *,
        permitted: bool = True,
        is_flow: bool = False,
        share: PartitionShare = WHOLE,
        passes: Sequence[Hole] = (),
    ) -> None:
        self._topology = topology
        self._link = link
        self._permitted = permitted
        self._is_flow = is_flow
        self._share, self._passes = share, passes
        self._standing: WatchedWriter | None = None
        """What is said of it at its targets; of a flow its thread says it."""
        self.targets: tuple[str, ...] = link.targets
        self._lock = threading.Lock()
        """Held while one node ends and the next begins."""
        self._reopening_ms: int | None = None
        """Since when that is so, if it is."""
        self._node = self._opened(link.target)
        self._offsets = self._offsets_towards(link.target)
        self._thread = SteeringThread(topology, link, self, probe_interval_ms)

    def tell(self, event: TargetEvent) -> None:
        """Pass a command on; it is obeyed a moment later."""
        self._thread.tell(event)

    def stand(self, watch: WriterWatch) -> None:
        """Say at the targets that it writes; from now on it makes way for who began later.

        Two may write the same without harm (ADR 43), but one of them does it in vain.
        """
        flow = Flow(self._link, FlowKind.RECORDS, self._share.number, self._share.of)
        self._standing = watch.begin(flow, wall_ms(), lambda: self._thread.call(self._make_way))
        self._thread.call(self._make_way)  # it may have been told before it was known

    def _make_way(self) -> None:
        """Write no more while another process does that began later; else write again."""
        assert self._standing is not None
        later = self._standing.later
        if self._permitted is not bool(later):
            return
        facts = {"source": self._link.source, "level": self._link.level, "share": self._share}
        if not later:
            log.info("link writes again: the other process does no more", extra=facts)
            self.permit()
            return
        log.warning("link writes no more: another process that began later does", extra=facts)
        aim = self._thread.steering.aim
        with self._lock:
            self._permitted = False
        if not aim.holding:  # what is on hold writes nothing, and what comes behind may not
            self.reopen(aim.current)

    def row(self) -> LinkRow:
        """What the link does."""
        steering = self._thread.steering
        superseded = self._standing is not None and not self._permitted
        stops = self._node.stops
        reasons = [stop.reason for stop in stops.values()]
        left, starved, left_ms = steering.left or ("", "", 0)
        return LinkRow(
            source=self._link.source,
            level=self._link.level,
            branch=self._link.branch,
            target=steering.aim.current,
            state=SUPERSEDED_STATE if superseded else steering.state,
            next=steering.aim.next or "",
            waits_for=_OTHERS_END if superseded else steering.waits_for,
            switches=steering.switches,
            stall_ms=steering.stall_ms,
            diverged=reasons.count(StopReason.DIVERGED),
            overtaken=reasons.count(StopReason.OVERTAKEN),
            refused=reasons.count(StopReason.REFUSED),
            shortened=self._node.shortened,
            stopped=tuple(_stopped_row(*one) for one in islice(stops.items(), STOPPED_MAX)),
            topics=self._link.topics,
            left=left,
            starved=starved,
            left_ms=left_ms,
        )

    def remembered(self, cluster: str) -> tuple[int, Mapping[Partition, int]] | None:
        """What a cluster was last known to hold, and how many milliseconds ago."""
        with self._lock:
            found = self._node.remembered(cluster)
        return None if found is None else (now_ms() - found[0], found[1])

    @property
    def holding(self) -> bool:
        """Whether it copies nothing, as it is paused or changes its target."""
        return self._thread.steering.aim.holding

    def pass_over(self, topic: str) -> Mapping[Partition, Stop]:
        """Go on with a topic behind what the source keeps no more; returns what stands still."""
        with self._lock:
            return self._node.pass_over(topic)

    def permit(self) -> None:
        """Write from now on."""
        with self._lock:
            self._permitted = True
            self._node.permit()
            if self._offsets is None:
                self._offsets = self._offsets_towards(self._thread.steering.aim.current)

    @property
    def permitted(self) -> bool:
        """Whether it may write."""
        return self._permitted

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._thread.closed

    @property
    def progress(self) -> LinkProgress:
        """How far it is, if it is a flow."""
        return self._node.progress

    @property
    def turned_ms(self) -> int:
        """When the link's loop has turned last, on the monotonic clock; now as it begins anew."""
        began_ms, at_ms = self._reopening_ms, now_ms()
        if began_ms is not None and at_ms < began_ms + REOPEN_MS_MAX:
            return at_ms
        return self._node.turned_ms

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        if self._thread.failure is not None:
            raise self._thread.failure
        with self._lock:
            if self._offsets is not None:
                self._offsets.check()
            return self._node.join(timeout)

    def unwell(self) -> str:
        """See `LongRunning`."""
        with self._lock:
            positions = "" if self._offsets is None else self._offsets.unwell()
            return str(self._thread.failure or self._node.unwell() or positions)

    def unready(self) -> str:
        """Which of its clusters it has not found, for people; empty if both are there."""
        with self._lock:
            return self._node.unready()

    def close(self) -> None:
        """End."""
        if self._standing is not None:
            self._standing.end()
        self._thread.close()
        with self._lock:
            if self._offsets is not None:
                self._offsets.close()
            self._node.close()

    @property
    def sent(self) -> Mapping[Partition, int] | None:
        """Once it is on hold: everything it sent, the end of each partition."""
        return self._node.sent

    @property
    def stuck_ms(self) -> int:
        """For how long the target has taken none of what waits for it; 0 if it takes."""
        return self._node.stuck_ms

    @property
    def late_ms(self) -> int:
        """How late the target stores what it is sent; 0 if nothing waits for it."""
        return self._node.late_ms

    def hold(self) -> None:
        """Copy nothing more, and say what was sent."""
        self._node.hold()

    def reopen(self, target: str) -> None:
        """End, and begin anew towards a target."""
        self._reopening_ms = now_ms()
        with self._lock:
            self._node.close()
            self._node = self._opened(target)
            self._reopening_ms = None
            if self._offsets is not None:
                # Records first: it may just be asking stores that do not answer.
                self._offsets.close()
            self._offsets = self._offsets_towards(target)

    def _offsets_towards(self, target: str) -> OffsetsNode | None:
        if self._is_flow or self._share.number or not self._permitted:
            return None
        return OffsetsNode(self._topology, self._link, target)

    def _opened(self, target: str) -> LinkNode:
        return LinkNode(
            self._topology,
            self._link,
            target,
            permitted=self._permitted,
            watched=self._is_flow,
            share=self._share,
            passes=self._passes,
        )


def _stopped_row(partition: Partition, stop: Stop) -> StoppedRow:
    topic, address = map(octets_of, partition)
    return StoppedRow(topic, address, stop.reason.value, stop.first, stop.end)


_LOOK_MS = 200
"""How often to see whether to end."""


class Steered(Protocol):
    """What the port needs of a link."""

    targets: tuple[str, ...]

    def tell(self, event: TargetEvent) -> None:
        """Pass a command on; it is obeyed a moment later."""

    def row(self) -> protocol.LinkRow:
        """What the link does."""

    def remembered(self, cluster: str) -> tuple[int, Mapping[Partition, int]] | None:
        """What a cluster was last known to hold, and how many milliseconds ago."""

    @property
    def holding(self) -> bool:
        """Whether it copies nothing, as it is paused or changes its target."""

    def pass_over(self, topic: str) -> Mapping[Partition, Stop]:
        """Go on with a topic behind what the source keeps no more; returns what stands still."""


class ControlServer:
    """The control socket of one process.

    Args:
        endpoint: `ipc:///path`. Whoever reaches it is obeyed, so its directory is made, or must
            be, its owner's only.
        links: Whom the commands are for.

    Raises:
        MisuseError: The endpoint cannot be bound, or other users could reach it.
    """

    def __init__(self, endpoint: str, links: Sequence[Steered]) -> None:
        if not endpoint.startswith("ipc:///"):
            raise MisuseError(f"cannot open control socket at {endpoint!r}: expected ipc:///PATH")
        private_directory(Path(endpoint.removeprefix("ipc://")).parent)
        self._server = QueryServer(endpoint, name="control socket")
        self.endpoint = self._server.endpoint
        self._links = links
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="dafka-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more commands."""
        self._stopping.set()
        wait_for_end(self._thread, "a command to a link")

    def _serve(self) -> None:
        try:
            while not self._stopping.is_set():
                if not self._server.socket.poll(_LOOK_MS):
                    continue
                self._serve_one()
        finally:
            self._server.close()

    def _serve_one(self) -> None:
        try:
            request = self._server.receive()
        except WireError as error:
            metrics.count_dropped("control", error.reason)
            return
        if request is not None:
            client, command = request
            self._server.reply(client, answer(command, self._links))


def answer(command: bytes, links: Sequence[Steered]) -> bytes:
    """Obey `command` and answer it, whatever it is: a peer cannot make this raise."""
    try:
        return encode(_obey(decode_command(command), links))
    except WireError as error:
        metrics.count_dropped("control", error.reason)
        return encode(protocol.CommandRefused(f"{error.reason}: this one speaks version {VERSION}"))


def _obey(command: protocol.Command, links: Sequence[Steered]) -> protocol.Answer:
    match command:
        case protocol.LinksCommand():
            return _rows(links)
        case protocol.RetargetCommand():
            return _retarget(command.target, links)
        case protocol.PauseCommand():
            for link in links:
                link.tell(Pause())
            return _rows(links)
        case protocol.LostCommand():
            known = _remembered(command.cluster, None, links)
            for link in links:
                link.tell(ClusterLost(command.cluster))
            return known
        case protocol.RecallCommand():
            return _remembered(command.cluster, command.after, links)
        case protocol.ResumeCommand():
            return _pass_over(text(command.topic), links)
        case _:
            assert_never(command)


def _rows(links: Sequence[Steered]) -> protocol.LinkRows:
    return protocol.LinkRows(tuple(link.row() for link in links))


def _retarget(target: str, links: Sequence[Steered]) -> protocol.Answer:
    able = [link for link in links if target in link.targets]
    for link in able:
        link.tell(Retarget(target))
    if able:
        return _rows(links)
    known = ", ".join(name for link in links for name in link.targets)
    return protocol.CommandRefused(f"{target!r} is no target here: there are {known}")


def _pass_over(topic: str, links: Sequence[Steered]) -> protocol.Answer:
    if held := [link.row().target for link in links if link.holding]:
        return protocol.CommandRefused(
            f"nothing goes on, as a link is on hold towards {', '.join(held)}: "
            "wait until it copies, or retarget it if it is paused, and resume again"
        )
    passed = [stop for link in links for stop in link.pass_over(topic).values()]
    return protocol.PassedOver(len(passed), sum(stop.end - stop.first for stop in passed))


def _remembered(
    cluster: str, after: tuple[bytes, bytes] | None, links: Sequence[Steered]
) -> protocol.Remembered:
    latest: tuple[int, Mapping[Partition, int]] | None = None
    for link in links:
        found = link.remembered(cluster)
        if found is not None and (latest is None or found[0] < latest[0]):
            latest = found
    if latest is None:
        return protocol.Remembered(-1, ())
    age_ms, heads = latest
    rows = [
        (octets_of(topic), octets_of(address), head) for (topic, address), head in heads.items()
    ]
    following = sorted(row for row in rows if after is None or row[:2] > after)
    told, more = page(following, lambda row: len(row[0]) + len(row[1]))
    return protocol.Remembered(age_ms, tuple(told), more)
