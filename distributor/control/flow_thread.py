"""Flows of a replica at work: a thread each, which makes of a link what its terms say.

A flow that is not scheduled has nothing open. One that is, but may not write, has a link that is
ready to; to take a grant back is to end the link and to open one that is only ready. A flow that
cannot run is tried again, and keeps no other from running.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Protocol, assert_never

from dafka.errors import DafkaError
from dafka.model import PartitionShare
from dafka.node.loop import NodeFailedError
from dafka.process.clock import now_ms
from dafka.process.threads import wait_for_end
from distributor.control.agent import SteeredLink
from distributor.control.events import (
    Configure,
    FlowChanged,
    FlowMoved,
    FlowStopped,
    StartFlow,
    SteerFlow,
    StopFlow,
)
from distributor.control.flow_work import LinkAndBeats, OffsetsFlow, WhileAllowed
from distributor.control.messages import FlowKind, FlowStatus
from distributor.errors import DistributorError, PlanError
from distributor.link.progress import LinkProgress
from distributor.schemas.node import SchemaNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition
    from distributor.control.events import FlowEffect, FlowTerms, ReplicaEvent
    from distributor.control.flow_work import Running
    from distributor.control.messages import Flow
    from distributor.control.protocol import LinkRow
    from topology.model import Topology
    from topology.plan import Link

log = logging.getLogger(__name__)

REPORT_INTERVAL_MS = 500
"""How often it is told how far a flow is, unless `report_interval_ms` says something else."""

REPORT_INTERVALS_MS = 50, 60_000
"""The least and the most that this may be."""

RETRY_MS = 5_000
"""When a flow that cannot run is tried again."""


class Work(Protocol):
    """What a flow does: `SteeredLink`, `OffsetsFlow`, and others."""

    @property
    def permitted(self) -> bool:
        """Whether it may write."""

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is about to."""

    def row(self) -> LinkRow | None:
        """What it does, if it copies records."""

    def remembered(self, cluster: str) -> tuple[int, Mapping[Partition, int]] | None:
        """What a cluster was last known to hold, and how many milliseconds ago."""

    @property
    def progress(self) -> LinkProgress:
        """How far it is."""

    @property
    def turned_ms(self) -> int:
        """When its loop has turned last, on the monotonic clock."""

    def permit(self) -> None:
        """Write from now on."""

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""

    def unwell(self) -> str:
        """See `LongRunning`."""

    def unready(self) -> str:
        """See `LongRunning`."""

    def close(self) -> None:
        """End; nothing of it happens afterwards."""


class Opener(Protocol):
    """How a flow is opened: `opened` with a topology."""

    def __call__(self, flow: Flow, *, permitted: bool) -> Work:
        """Return it at work.

        Raises:
            DafkaError, DistributorError: It cannot run here.
        """


class BeatsBeside(Protocol):
    """Which link has heartbeats beside it; that of `distributor.operations`."""

    def __call__(self, topology: Topology, link: Link) -> Callable[[], Running] | None:
        """Return what begins those of a link's source, if they go on beside this one."""


def opened(topology: Topology, beats: BeatsBeside, flow: Flow, *, permitted: bool) -> Work:
    """Return a flow at work.

    Args:
        topology: Where its clusters are declared.
        beats: Which links have heartbeats beside them.
        flow: Which.
        permitted: Whether it may write.

    Raises:
        DafkaError, DistributorError: It cannot run here.
    """
    known = {cluster.name for cluster in topology.clusters}
    strange = {flow.link.source, *flow.link.targets, *flow.link.beyond} - known
    if strange:
        raise PlanError(f"this replica's topology has no cluster {min(strange)!r}")
    match flow.kind:
        case FlowKind.RECORDS:
            begin = None if flow.share else beats(topology, flow.link)
            return _records(topology, flow, begin, permitted=permitted)
        case FlowKind.OFFSETS:
            return OffsetsFlow(topology, flow.link, permitted=permitted)
        case FlowKind.SCHEMAS:
            schemas = partial(SchemaNode, topology, flow.link.source)
            return WhileAllowed(schemas, permitted=permitted)
        case _:
            assert_never(flow.kind)


def _records(
    topology: Topology, flow: Flow, begin: Callable[[], Running] | None, *, permitted: bool
) -> Work:
    share = PartitionShare(flow.share, flow.shares)
    link = SteeredLink(
        topology, flow.link, permitted=permitted, is_flow=True, share=share, passes=flow.passes
    )
    if begin is None:
        return link
    try:
        return LinkAndBeats(link, WhileAllowed(begin, permitted=permitted))
    except DafkaError:
        link.close()
        raise


class Standing(Protocol):
    """That a flow may write, as it is said at its targets: `WatchedWriter`."""

    @property
    def epoch(self) -> int:
        """Under which."""

    @property
    def later(self) -> int:
        """The later epoch under which somebody else writes; 0 if nobody does."""

    def end(self) -> None:
        """Say it no more."""


class Stand(Protocol):
    """How it is said: `WriterWatch.begin`."""

    def __call__(self, flow: Flow, epoch: int, changed: Callable[[], None]) -> Standing:
        """Say it from now on, and call when `later` is another.

        Raises:
            DafkaError: A target cannot be asked.
        """


class FlowThread:
    """One run of a flow.

    Args:
        effect: What it is, and under which terms it begins.
        opened: Opens it.
        tell: Told what happens; called in this flow's thread.
        interval_ms: How often to tell how far it is.
        retry_ms: When to try again what could not run.
        stand: Says at targets that it may write; None: nobody does.
    """

    def __init__(
        self,
        effect: StartFlow,
        opened: Opener,
        tell: Callable[[ReplicaEvent], None],
        interval_ms: int,
        retry_ms: int = RETRY_MS,
        stand: Stand | None = None,
    ) -> None:
        self._run, self._flow = effect.run, effect.flow
        self._stand = stand
        self._standing: Standing | None = None
        """What is said at the targets, while it may write and can."""
        self._open, self._tell = opened, tell
        self._retry_ms = retry_ms
        self.interval_ms = interval_ms
        self._terms = effect.terms
        self._stopping = False
        self._changed = threading.Event()
        """There are new terms, or it is to stop."""
        self._work: Work | None = None
        self._writes = False
        self._failure = ""
        """Why it cannot run; empty if it does."""
        self._retry_due_ms = 0
        self._told: tuple[FlowStatus, int, str] | None = None
        self._moved = LinkProgress({}, {}, {})
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="dafka-flow", daemon=True)
        self._thread.start()

    def steer(self, terms: FlowTerms) -> None:
        """Give it new terms; what it then does is told."""
        self._terms = terms
        self._changed.set()

    def stop(self) -> None:
        """End it; that is told."""
        self._stopping = True
        self._changed.set()

    def turned_since(self, since_ms: int) -> bool:
        """Whether its loop has turned since then; what has none open does not stand still."""
        work = self._work
        return work is None or work.turned_ms > since_ms

    def unwell(self) -> str:
        """See `LongRunning`."""
        work = self._work
        return "" if work is None else work.unwell()

    def unready(self) -> str:
        """See `LongRunning`."""
        work = self._work
        return self._failure if work is None else work.unready()

    def join(self) -> None:
        """Wait for it to end, once it is to stop."""
        link = self._flow.link
        wait_for_end(self._thread, f"the link from {link.source} to {link.target}")

    def check(self) -> None:
        """Complain if its thread has ended by something that must not be.

        Raises:
            NodeFailedError: It has.
        """
        if self._fault is not None:
            raise NodeFailedError(f"flow has failed: {self._fault}") from self._fault

    def _main(self) -> None:
        try:
            self._run_on()
        except BaseException as error:
            self._fault = error
            log.critical("flow failed", exc_info=True)
            self._end()

    def _run_on(self) -> None:
        while not self._stopping:
            if self._changed.is_set():
                self._changed.clear()
                self._told = None  # who has steered it waits for what comes of that
            self._become(self._terms)
            self._report()
            self._changed.wait(self.interval_ms / 1_000)
        self._end()
        self._tell(FlowStopped(self._run))

    def _become(self, terms: FlowTerms) -> None:
        try:
            self._go_towards(terms)
        except (DafkaError, DistributorError) as error:
            self._failure = str(error)
            self._retry_due_ms = now_ms() + self._retry_ms
            self._end()
        if self._failure:
            self._say(FlowStatus.FAILED, 0, self._failure)
        elif self._work is None:
            self._say(FlowStatus.SUSPENDED, 0)
        elif self._writes:
            self._say(FlowStatus.WRITING, terms.epoch)
        else:
            later = self._later(terms)
            superseded = f"another replica writes under epoch {later}" if later else ""
            self._say(FlowStatus.WARM, 0, superseded)

    def _go_towards(self, terms: FlowTerms) -> None:
        if self._work is not None:
            self._work.join(0)
        if not terms.scheduled:
            self._failure = ""
            self._end()
            return
        writes = terms.epoch > 0 and not self._later(terms)
        if self._writes and not writes:
            self._say(FlowStatus.DRAINING, 0)
            self._close()
        if self._work is None:
            if self._failure and now_ms() < self._retry_due_ms:
                return
            self._work = self._open(self._flow, permitted=writes)
            self._failure = ""
        elif writes and not self._writes:
            self._work.permit()
        self._writes = writes
        self._say_at_targets(terms.epoch)

    def _later(self, terms: FlowTerms) -> int:
        """The epoch under which somebody else writes, if that is later than in these terms."""
        standing = self._standing
        return standing.later if standing is not None and standing.epoch == terms.epoch else 0

    def _say_at_targets(self, epoch: int) -> None:
        standing = self._standing
        if standing is not None and standing.epoch != epoch:
            self._standing = None
            standing.end()
        if epoch and self._standing is None and self._stand is not None:
            self._standing = self._stand(self._flow, epoch, self._changed.set)

    def _end(self) -> None:
        self._say_at_targets(0)
        self._close()

    def _close(self) -> None:
        work, self._work, self._writes = self._work, None, False
        if work is not None:
            work.close()

    def _say(self, status: FlowStatus, epoch: int, reason: str = "") -> None:
        if self._told == (status, epoch, reason):
            return
        self._told = status, epoch, reason
        if status is FlowStatus.FAILED:
            link = self._flow.link
            facts = {"source": link.source, "target": link.target, "error": reason}
            log.error("flow cannot run, it is tried again", extra=facts)
        elif reason:
            facts = {"source": self._flow.link.source, "target": self._flow.link.target}
            log.warning("flow writes no more: %s", reason, extra=facts)
        self._tell(FlowChanged(self._run, status, epoch, reason))

    def _report(self) -> None:
        if self._work is not None and (progress := self._work.progress) != self._moved:
            self._moved = progress
            self._tell(FlowMoved(self._run, *progress))


class FlowThreads:
    """The flows of one replica.

    Args:
        opened: See `FlowThread`.
        tell: See there.
        stand: See there.
    """

    def __init__(
        self, opened: Opener, tell: Callable[[ReplicaEvent], None], stand: Stand | None = None
    ) -> None:
        self._open, self._tell, self._stand = opened, tell, stand
        self._interval_ms = REPORT_INTERVAL_MS
        self._threads: dict[int, FlowThread] = {}
        self._ending: dict[int, FlowThread] = {}

    def perform(self, effect: FlowEffect) -> None:
        """Do what the replica's machine wants done; to be called by one thread, as all others."""
        match effect:
            case StartFlow():
                self._threads[effect.run] = FlowThread(
                    effect, self._open, self._tell, self._interval_ms, stand=self._stand
                )
            case SteerFlow():
                self._threads[effect.run].steer(effect.terms)
            case StopFlow():
                self._ending[effect.run] = self._threads.pop(effect.run)
                self._ending[effect.run].stop()
            case Configure():
                least, most = REPORT_INTERVALS_MS
                wanted = effect.values.get("report_interval_ms", REPORT_INTERVAL_MS)
                self._interval_ms = min(max(wanted, least), most)
                for thread in self._threads.values():
                    thread.interval_ms = self._interval_ms
            case _:
                assert_never(effect)

    def ended(self, run: int) -> None:
        """A run has told that it has stopped."""
        del self._ending[run]

    def turned_since(self, since_ms: int) -> bool:
        """Whether the loops of all have turned since then."""
        return all(thread.turned_since(since_ms) for thread in self._threads.values())

    def check(self) -> None:
        """Complain if the thread of one has ended by something that must not be.

        Raises:
            NodeFailedError: It has.
        """
        for thread in [*self._threads.values()]:
            thread.check()

    def unwell(self) -> str:
        """See `LongRunning`."""
        return next(filter(None, (one.unwell() for one in [*self._threads.values()])), "")

    def unready(self) -> str:
        """See `LongRunning`."""
        return next(filter(None, (one.unready() for one in [*self._threads.values()])), "")

    def close(self) -> None:
        """End all of them."""
        threads = [*self._threads.values(), *self._ending.values()]
        for thread in threads:
            thread.stop()
        for thread in threads:
            thread.join()
