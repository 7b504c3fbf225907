"""Replicas in processes that die, freeze and get stuck, with flows that copy.

The machine is that of `distributor.control.replica`; see `distributor.testing.control`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

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
    from distributor.control.messages import Response

PARTITIONS = Partition("orders", "A"), Partition("orders", "B")

_ENDS = ClusterName("north"), ClusterName("south")
LINK = Link(
    source=_ENDS[0], level=1, branch=0, targets=_ENDS[1:], beyond=_ENDS[1:], span=_ENDS, topics=""
)


def flow_of(number: int, kind: FlowKind = FlowKind.RECORDS) -> Flow:
    """The flow of a number: no two have the same share."""
    return Flow(LINK, kind, number % SLOTS, SLOTS)


class SimRecords:
    """What there is to copy, and what every flow has at its target."""

    def __init__(self) -> None:
        self.source = dict.fromkeys(PARTITIONS, 0)
        self._targets: dict[Flow, dict[Partition, int]] = {}

    def target(self, flow: Flow) -> dict[Partition, int]:
        """How far a flow's target is."""
        return self._targets.setdefault(flow, dict.fromkeys(PARTITIONS, 0))


class ReplicaWitness:
    """What one life of a replica was told, reckoned by other means than its machine does."""

    def __init__(self) -> None:
        self._best = 0, ""
        self._stream: SimStream | None = None
        self._window: list[Command] = []
        self.complete = False
        self.wanted: dict[int, Flow] = {}
        self.granted: set[tuple[Flow, int]] = set()

    def hear(self, stream: SimStream, command: Command) -> None:
        """A command arrives."""
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

    def work(self, records: SimRecords, most: int) -> list[ReplicaEvent]:
        """Copy some more, and tell of it."""
        target = records.target(self.flow)
        writes = self.terms.scheduled and self.terms.epoch > 0
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
        if not self.stuck:
            for run in [*self.runs.values()]:
                self._work(run)
            self.handle(FlowsTurned())
        due_ms = self.machine.wakeup_ms()
        if due_ms is not None and due_ms <= self.world.now_ms:
            self.handle(Woke())

    def _work(self, run: SimRun) -> None:
        if run.terms.scheduled and run.terms.epoch:
            granted = (run.flow, run.terms.epoch) in self.witness.granted
            assert granted, f"I6: flow {run.flow.share} writes, and nobody has allowed it"
        for event in run.work(self._records, self.world.random.randint(1, 5)):
            self.handle(event)

    def _do(self, effect: ReplicaEffect, event: ReplicaEvent) -> None:
        if isinstance(effect, FlowEffect) and not isinstance(event, FlowStopped):
            assert self.witness.complete, "I5: half a window has been applied"
        match effect:
            case StartFlow():
                runs = self.machine.table.runs
                (number,) = (one for one, run in runs.items() if run.run == effect.run)
                self.runs[effect.run] = SimRun(effect, number, self._records)
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
