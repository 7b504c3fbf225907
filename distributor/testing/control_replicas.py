"""Replicas in processes that die, freeze and get stuck, with flows that copy.

The machine is that of `distributor.control.replica`; see `distributor.testing.control`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dafka.groups.writers import Writers
from dafka.model import SLOTS, Partition
from dafka.protocol.events import Woke
from distributor.control.events import (
    CommandCame,
    Configure,
    EndProcess,
    EndStream,
    FlowChanged,
    FlowEffect,
    FlowMoved,
    FlowStopped,
    FlowsTurned,
    ReplicaEvent,
    ResponseCame,
    SendResponses,
    SessionEnd,
    StartFlow,
    SteerFlow,
    StopFlow,
    StreamEnded,
    StreamOpened,
)
from distributor.control.frontiers import reaches
from distributor.control.later_writers import SAY_MS, LaterWriters, writing_of
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    Command,
    CreateFlow,
    Flow,
    FlowDropped,
    FlowKind,
    FlowStatus,
    Hello,
    InitializationComplete,
)
from distributor.control.replica import ReplicaMachine, ReplicaStage
from distributor.testing.control_streams import TICK_MS, SimProcess, SimStream
from topology.model import ClusterName
from topology.plan import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.testing.world import World
    from distributor.control.events import FlowTerms, ReplicaEffect, SessionSettings
    from distributor.control.flow_table import Fate
    from distributor.control.later_writers import Writing
    from distributor.control.messages import Response

PARTITIONS = Partition("orders", "A"), Partition("orders", "B")

_ENDS = ClusterName("north"), ClusterName("south")
LINK = Link(
    source=_ENDS[0], level=1, branch=0, targets=_ENDS[1:], beyond=_ENDS[1:], span=_ENDS, topics=""
)


def flow_of(number: int, kind: FlowKind = FlowKind.RECORDS) -> Flow:
    """The flow of a number: no two have the same share."""
    return Flow(LINK, kind, number % SLOTS, SLOTS)


SUPERSEDED_MS_MAX = 2_000
"""How long an older writer that is awake may go on beside a later one."""

WRITTEN_MS = 500
"""So long after it has written last a writer is taken for one that lives."""


@dataclass(slots=True)
class _Spell:
    """Since when one has written without a pause, and when it did last."""

    first_ms: int
    last_ms: int

    def goes_on(self, now_ms: int) -> bool:
        """Whether it is taken for one that still writes."""
        return now_ms < self.last_ms + WRITTEN_MS


class SimRecords:
    """What there is to copy, and what every flow has at its target."""

    def __init__(self) -> None:
        self.source = dict.fromkeys(PARTITIONS, 0)
        self.writers = Writers()
        """What the target's store has heard of them."""
        self._targets: dict[Flow, dict[Partition, int]] = {}
        self._spells: dict[Writing, dict[int, _Spell]] = {}
        """Of each flow, by epoch, the last spell of writing."""

    def written(self, flow: Flow, epoch: int, since_ms: int, now_ms: int) -> None:
        """Something of a flow is written by who has been awake since a moment."""
        spells = self._spells.setdefault(writing_of(flow, 0), {})
        mine = spells.get(epoch)
        if mine is None or not mine.goes_on(now_ms):
            mine = spells[epoch] = _Spell(now_ms, now_ms)
        mine.last_ms = now_ms
        later = max(one for one, spell in spells.items() if spell.goes_on(now_ms))
        if later > epoch:
            beside_ms = now_ms - max(since_ms, mine.first_ms, spells[later].first_ms)
            assert beside_ms < SUPERSEDED_MS_MAX, f"I8: {epoch} writes beside {later}"

    def target(self, flow: Flow) -> dict[Partition, int]:
        """How far a flow's target is."""
        return self._targets.setdefault(flow, dict.fromkeys(PARTITIONS, 0))


class ReplicaWitness:
    """What one life of a replica was told, reckoned by other means than its machine does."""

    def __init__(self) -> None:
        self._best = 0, ""
        self._stream: SimStream | None = None
        self._over: set[SimStream] = set()
        self._window: list[Command] = []
        self.complete = False
        self.wanted: dict[int, Flow] = {}
        self.granted: set[tuple[Flow, int]] = set()

    def hear(self, stream: SimStream, command: Command) -> None:
        """A command arrives; what was under way in a session that has ended is heard by nobody."""
        if stream in self._over:
            return
        if isinstance(command, Hello):
            epoch, controller = self._best
            if command.epoch > epoch or (command.epoch, command.controller) == (epoch, controller):
                self._best = command.epoch, command.controller
                self._stream, self._window, self.complete = stream, [], False
        elif stream is self._stream and self.complete:
            self._apply(command)
        elif stream is self._stream:
            self._window.append(command)
            if isinstance(command, InitializationComplete):
                self.complete = True
                self.wanted.clear()
                for one in self._window:
                    self._apply(one)

    def over(self, stream: SimStream) -> None:
        """A session has ended: nothing more is heard in it."""
        self._over.add(stream)
        if stream is self._stream:
            self._stream = None

    def _apply(self, command: Command) -> None:
        match command:
            case CreateFlow():
                self.wanted[command.number] = command.flow
            case AllowWrites():
                self.granted.add((self.wanted[command.flow], command.epoch))
            case AllowCompaction(before=None):
                del self.wanted[command.flow]
            case _:
                pass


class SimRun:
    """A flow at work."""

    def __init__(self, effect: StartFlow, number: int, records: SimRecords) -> None:
        self.run = effect.run
        self.number = number
        """The flow's."""
        self.flow = effect.flow
        self.terms: FlowTerms = effect.terms
        self.ending = False
        self.steered = 0
        self._told: tuple[FlowStatus, int] | None = FlowStatus.SUSPENDED, 0
        target = records.target(self.flow)
        self.input = {one: max(effect.terms.start.get(one, 0), end) for one, end in target.items()}

    def steer(self, terms: FlowTerms) -> None:
        """Hear of new terms."""
        served = reaches(terms.start, self.terms.start)
        assert served, "I4: it has given up what is wanted of it again"
        self.terms, self._told = terms, None
        self.steered += 1

    @property
    def writing(self) -> Writing | None:
        """What may be written, if anything."""
        allowed = self.terms.scheduled and self.terms.epoch > 0
        return writing_of(self.flow, self.terms.epoch) if allowed else None

    def work(self, records: SimRecords, most: int, *, writes: bool) -> list[ReplicaEvent]:
        """Copy some more, and tell of it."""
        target = records.target(self.flow)
        for partition, end in records.source.items():
            if self.terms.scheduled:
                self.input[partition] = min(end, self.input[partition] + most)
            if writes:
                start = max(target[partition], self.terms.start.get(partition, 0))
                target[partition] = max(start, min(self.input[partition], start + most))
        events: list[ReplicaEvent] = [
            FlowMoved(self.run, dict(self.input), dict(target), dict(self.input))
        ]
        status = FlowStatus.WRITING if writes else FlowStatus.WARM
        status = status if self.terms.scheduled else FlowStatus.SUSPENDED
        now = status, self.terms.epoch if writes else 0
        if now != self._told:
            self._told = now
            events.append(FlowChanged(self.run, *now))
        return events


class SimReplica(SimProcess[ReplicaEvent]):
    """A process that runs flows."""

    def __init__(
        self, world: World, name: str, settings: SessionSettings, records: SimRecords
    ) -> None:
        super().__init__(world, name)
        self._settings, self._records = settings, records
        self.stuck = False
        """Whether its flows stand still."""
        self.machine = ReplicaMachine(name, settings)
        self.runs: dict[int, SimRun] = {}
        self.configuration: dict[str, int] = {}
        self.streams: dict[int, SimStream] = {}
        self.witness = ReplicaWitness()
        self.ended: Counter[SessionEnd] = Counter()
        """Why it has ended sessions."""
        self._fates: Counter[Fate] = Counter()
        self.later = LaterWriters()
        self._say_due_ms = 0
        self._turned_ms = self._awake_ms = 0
        """When it has turned last, and since when it does."""

    @property
    def fates(self) -> Counter[Fate]:
        """What became of flows in all its lives, whenever controllers connected again."""
        return self._fates + self.machine.table.fates

    def boot(self) -> None:
        """Start the process."""
        self.stuck = False
        self._fates = self.fates
        self.machine = ReplicaMachine(self.name, self._settings)
        self.runs, self.configuration, self.streams = {}, {}, {}
        self.witness = ReplicaWitness()
        self.later, self._say_due_ms = LaterWriters(), 0
        self.start()

    def accept(self, stream: SimStream) -> None:
        """Somebody connects."""
        self.streams[stream.there] = stream
        stream.to_replica(StreamOpened(stream.there))

    def told(self, stream: SimStream, event: ReplicaEvent) -> None:
        """Something comes over a stream."""
        if isinstance(event, CommandCame):
            self.witness.hear(stream, event.command)
        elif isinstance(event, StreamEnded):
            self.witness.over(stream)
        self.handle(event)

    def handle(self, event: ReplicaEvent) -> None:
        """Let the machine take an event in, and do what it says."""
        machine = self.machine
        for effect in machine.handle(event, self.world.now_ms):
            self._do(effect, event)
        machine.check()
        if machine.stage is ReplicaStage.COMPUTATION:
            held = {number: run.flow for number, run in machine.table.runs.items()}
            assert held == self.witness.wanted, "I2, I13: it runs what nobody wants of it"

    def turn(self) -> None:
        """Let the flows copy, and the machine do what is due."""
        now_ms = self.world.now_ms
        if now_ms > self._turned_ms + 2 * TICK_MS:
            self._awake_ms = now_ms
        self._turned_ms = now_ms
        if now_ms >= self._say_due_ms:
            self._say_due_ms = now_ms + SAY_MS
            self._say_at_target()
        if not self.stuck:
            for run in [*self.runs.values()]:
                self._work(run)
            self.handle(FlowsTurned())
        due_ms = self.machine.wakeup_ms()
        if due_ms is not None and due_ms <= self.world.now_ms:
            self.handle(Woke())

    def _say_at_target(self) -> None:
        """Say what may be written; the answer comes after two trips, if it is awake then."""
        for run in self.runs.values():
            if run.writing is not None:
                said = partial(self._said, run.writing, self.incarnation)
                self.world.after(self.world.delay_ms(), said)

    def _said(self, writing: Writing, incarnation: int) -> None:
        """The target's store hears who writes."""
        latest = self._records.writers.heard(*writing, self.world.now_ms)
        answer = partial(self._answered, writing, latest, incarnation)
        self.world.after(self.world.delay_ms(), partial(self.when_awake, answer))

    def _answered(self, writing: Writing, latest: int, incarnation: int) -> None:
        if self.incarnation == incarnation:
            self.later.told("s1", {writing: latest}, self.world.now_ms)

    def writes(self, run: SimRun) -> bool:
        """Whether one may write, and nobody is heard of who does under a later epoch."""
        return run.writing is not None and not self.later.later(run.writing, self.world.now_ms)

    def _work(self, run: SimRun) -> None:
        writes = self.writes(run)
        if run.writing is not None and writes:
            epoch = run.writing.epoch
            self._records.written(run.flow, epoch, self._awake_ms, self.world.now_ms)
            granted = (run.flow, run.terms.epoch) in self.witness.granted
            assert granted, f"I6: flow {run.flow.share} writes, and nobody has allowed it"
        for event in run.work(self._records, self.world.random.randint(1, 5), writes=writes):
            self.handle(event)

    def _do(self, effect: ReplicaEffect, event: ReplicaEvent) -> None:
        if isinstance(effect, FlowEffect) and not isinstance(event, FlowStopped):
            assert self.witness.complete, "I5: half a window has been applied"
        match effect:
            case StartFlow():
                runs = self.machine.table.runs
                (number,) = (one for one, run in runs.items() if run.run == effect.run)
                self.runs[effect.run] = SimRun(effect, number, self._records)
                self._say_due_ms = 0
            case SteerFlow() | StopFlow():
                self._later(partial(self._change, effect))
            case Configure():
                self.configuration = dict(effect.values)
            case SendResponses():
                self._send(self.streams[effect.stream], effect.responses)
            case EndStream():
                self._end(effect)
            case EndProcess():
                raise AssertionError("it was made for this instance")

    def _later(self, action: Callable[[], None]) -> None:
        """Flows have threads of their own: they hear of things a little later, in order."""
        incarnation = self.incarnation

        def act() -> None:
            if self.incarnation == incarnation:
                action()

        self.world.after(TICK_MS + 1, partial(self.when_awake, act))

    def _change(self, effect: SteerFlow | StopFlow) -> None:
        run = self.runs[effect.run]
        if isinstance(effect, SteerFlow):
            run.steer(effect.terms)
            self._say_due_ms = 0
        elif run.ending:
            del self.runs[effect.run]
            self.handle(FlowStopped(effect.run))
        else:  # what it has begun it brings to its end
            run.ending = True
            self._later(partial(self._change, effect))

    def _send(self, stream: SimStream, responses: Sequence[Response]) -> None:
        for response in responses:
            if isinstance(response, FlowDropped):
                running = {run.number for run in self.runs.values()}
                assert response.flow not in running, "I12: it is not over yet"
            stream.to_controller(ResponseCame(stream.back, response))
        stream.responded()

    def _end(self, effect: EndStream) -> None:
        honest = effect.why is not SessionEnd.VIOLATION
        assert honest, f"I9: the controller broke the protocol: {effect.detail}"
        self.ended[effect.why] += 1
        stream = self.streams[effect.stream]
        self.witness.over(stream)
        stream.to_controller(StreamEnded(stream.back, effect.why, effect.epoch))
