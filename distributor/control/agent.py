"""A link with a choice of targets: serves one, watches all, changes when it must or is told to.

The link itself keeps nothing, so a change is its end and a new beginning towards another target.

The distributor's side of the control port: one thread that takes commands for its links.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import Empty, Queue
from typing import TYPE_CHECKING, Protocol, assert_never

from dafka.cluster import Cluster
from dafka.errors import DafkaError, QueryError, WireError
from dafka.plural import counted
from dafka.process import metrics
from dafka.process.clock import now_ms
from dafka.protocol.events import Woke
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.query.paging import page
from dafka.transport.curve import checked_binding
from dafka.transport.request import QueryServer
from dafka.wire.primitives import octets_of
from distributor.control import protocol
from distributor.control.protocol import (
    STOPPED_MAX,
    VERSION,
    LinkRow,
    StoppedRow,
    decode_command,
    encode,
)
from distributor.link.events import StopReason
from distributor.link.node import LinkNode
from distributor.link.target import (
    ClusterLost,
    Drain,
    Drained,
    Pause,
    Probed,
    Retarget,
    Switch,
    TargetMachine,
    TargetSettings,
    TargetState,
)
from distributor.offsets.node import OffsetsNode
from distributor.survey import gives_sign_of_life

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.model import Partition
    from distributor.link.events import Stop
    from distributor.link.target import TargetEffect, TargetEvent
    from topology.model import ClusterSpec, Topology
    from topology.plan import Link


log = logging.getLogger(__name__)

PROBE_INTERVAL_MS = 1_000
"""How often the targets are asked for a sign of life."""

COMMANDS_MAX = 64
"""Commands that wait to be obeyed; more are refused by being lost, and can be given again."""


class SteeredLink:
    """One link of the plan, running, with all its targets.

    Args:
        topology: Where the clusters are declared.
        link: Which arrow of the plan.
    """

    def __init__(self, topology: Topology, link: Link) -> None:
        self._topology = topology
        self._link = link
        self.targets: tuple[str, ...] = link.targets
        self._aim = TargetMachine(
            link.targets,
            TargetSettings(
                failover_after_ms=topology.links.failover_after_ms,
                failback=topology.links.failback,
            ),
            now_ms(),
        )
        self._lock = threading.Lock()
        """Held while one node ends and the next begins."""
        self._commands: Queue[TargetEvent] = Queue(COMMANDS_MAX)
        self._waits_for = ""
        self._stood_ms: int | None = None
        """Since when nothing is copied because the target is being changed."""
        self._stall_ms = 0
        self._switches = 0
        self._failure: DafkaError | None = None
        self._node = LinkNode(topology, link)
        self._offsets = OffsetsNode(topology, link)
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="dafka-probe")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._steer, name="dafka-steering", daemon=True)
        self._thread.start()

    def tell(self, event: TargetEvent) -> None:
        """Pass a command on; it is obeyed a moment later."""
        if not self._commands.full():
            self._commands.put_nowait(event)

    def row(self) -> LinkRow:
        """What the link does."""
        aim = self._aim
        silent = aim.silent and len(self.targets) > 1 and not aim.paused
        stops = self._node.stops
        reasons = [stop.reason for stop in stops.values()]
        return LinkRow(
            source=self._link.source,
            level=self._link.level,
            branch=self._link.branch,
            target=aim.current,
            state="silent" if silent else aim.state.value,
            next=aim.next or "",
            waits_for=self._waits_for,
            switches=self._switches,
            stall_ms=self._stall_ms if self._stood_ms is None else -1,
            diverged=reasons.count(StopReason.DIVERGED),
            overtaken=reasons.count(StopReason.OVERTAKEN),
            shortened=self._node.shortened,
            stopped=tuple(_stopped_row(*one) for one in islice(stops.items(), STOPPED_MAX)),
            topics=self._link.topics,
        )

    def remembered(self, cluster: str) -> tuple[int, Mapping[Partition, int]] | None:
        """What a cluster was last known to hold, and how many milliseconds ago."""
        with self._lock:
            found = self._node.remembered(cluster)
        return None if found is None else (now_ms() - found[0], found[1])

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        if self._failure is not None:
            raise self._failure
        with self._lock:
            self._offsets.check()
            return self._node.join(timeout)

    def unwell(self) -> str:
        """See `LongRunning`."""
        with self._lock:
            return str(self._failure or self._node.unwell() or self._offsets.unwell())

    def unready(self) -> str:
        """Which of its clusters it has not found, for people; empty if both are there."""
        with self._lock:
            return self._node.unready()

    def close(self) -> None:
        """End."""
        self._stopping.set()
        self._thread.join(LOOK_TIMEOUT_MS / 1_000)
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._offsets.close()
            self._node.close()

    def _steer(self) -> None:
        probe_due_ms = now_ms()
        while not self._stopping.is_set():
            try:
                wait_ms = max(0, min(200, probe_due_ms - now_ms()))
                self._handle(self._commands.get(timeout=wait_ms / 1_000))
            except Empty:
                pass
            if self._stopping.is_set():
                return
            self._notice_end_of_stall()
            due_ms = self._aim.wakeup_ms()
            if due_ms is not None and now_ms() >= due_ms:
                self._handle(Woke())
            if now_ms() >= probe_due_ms:
                probe_due_ms = now_ms() + PROBE_INTERVAL_MS
                self._probe()
            waits = self._aim.state in (TargetState.DRAINING, TargetState.PAUSED)
            if waits and self._drained():
                self._handle(Drained())

    def _handle(self, event: TargetEvent) -> None:
        for effect in self._aim.handle(event, now_ms()):
            self._perform(effect)

    def _perform(self, effect: TargetEffect) -> None:
        facts = {
            "source": self._link.source,
            "level": self._link.level,
            "target": self._aim.current,
        }
        match effect:
            case Drain():
                log.info("link drains", extra=facts)
                self._stood_ms = now_ms()
                self._node.hold()
            case Switch():
                log.warning("link aims elsewhere", extra={**facts, "planned": effect.planned})
                self._switches += 1
                self._reopen()
            case _:
                log.warning("link could not be drained", extra=facts)
                self._reopen()

    def _reopen(self) -> None:
        if self._stood_ms is None:
            self._stood_ms = now_ms()
        self._waits_for = ""
        with self._lock:
            self._offsets.close()
            self._node.close()
            try:
                self._node = LinkNode(self._topology, self._link, self._aim.current)
                self._offsets = OffsetsNode(self._topology, self._link, self._aim.current)
            except DafkaError as error:
                # The process ends with it and is started again.
                self._failure = error
                self._stopping.set()

    def _notice_end_of_stall(self) -> None:
        if self._stood_ms is not None and not self._aim.holding and not self._node.unready():
            self._stall_ms = now_ms() - self._stood_ms
            self._stood_ms = None
            log.info("link goes on", extra={"stall_ms": self._stall_ms})

    def _probe(self) -> None:
        if len(self.targets) < 2:
            return  # nothing depends on it
        for name, well in zip(
            self.targets, self._pool.map(self._is_well, self.targets), strict=True
        ):
            self._handle(Probed(name, well))

    def _is_well(self, name: str) -> bool:
        return gives_sign_of_life(self._topology.cluster(name))

    def _drained(self) -> bool:
        """Whether everything sent is on every cluster behind the target."""
        sent = self._node.sent
        if sent is None:
            return False
        for name in self._link.beyond:
            heads = _heads_of(self._topology.cluster(name))
            if heads is None:
                self._waits_for = f"{name} does not answer"
                return False
            lacking = sum(heads.get(partition, -1) + 1 < end for partition, end in sent.items())
            if lacking:
                self._waits_for = f"{name} lacks records of {counted(lacking, 'partition')}"
                return False
        return True


def _stopped_row(partition: Partition, stop: Stop) -> StoppedRow:
    topic, address = map(octets_of, partition)
    return StoppedRow(topic, address, stop.reason.value, stop.first, stop.end)


def _heads_of(cluster: ClusterSpec) -> dict[Partition, int] | None:
    try:
        with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
            return stores.first(lambda store: store.heads())
    except QueryError:
        return None


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


class ControlServer:
    """The control port of one process.

    Args:
        endpoint: `tcp://host:port`; the host must be this machine's loopback, as whoever reaches
            the port is obeyed.
        links: Whom the commands are for.

    Raises:
        MisuseError: The endpoint cannot be bound, or other machines could reach it.
    """

    def __init__(self, endpoint: str, links: Sequence[Steered]) -> None:
        host = endpoint.removeprefix("tcp://").rpartition(":")[0]
        checked_binding(host, None, insecure=False)
        self._server = QueryServer(endpoint, name="control port")
        self.endpoint = self._server.endpoint
        self._links = links
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="dafka-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more commands."""
        self._stopping.set()
        self._thread.join()

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
