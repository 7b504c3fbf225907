"""Controllers in processes that die and freeze, and what the stores keep of what is wanted.

The machines are those of `distributor.control.controller`; see `distributor.testing.control`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.protocol.events import Woke
from distributor.control.controller import ControllerMachine
from distributor.control.events import (
    CommandCame,
    ControllerEvent,
    EndStream,
    OpenStream,
    PeekAnswered,
    SendCommands,
    SessionEnd,
    StreamEnded,
    StreamReady,
    Superseded,
    Want,
)
from distributor.control.frontiers import reaches
from distributor.control.messages import (
    AllowWrites,
    CreateFlow,
    CreateInstance,
    InitializationComplete,
    Peek,
    Positions,
    Schedule,
    UpdateConfiguration,
)
from distributor.testing.control_streams import SimProcess, SimStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Partition
    from dafka.testing.world import World
    from distributor.control.events import ControllerEffect, SessionSettings
    from distributor.control.messages import Command, Flow, StateCommand
    from distributor.testing.control_replicas import SimRecords, SimReplica

INSTANCE = CreateInstance("north", 1)


@dataclass(slots=True)
class Desired:
    """What the stores keep: who is in charge, and what is wanted of all replicas.

    Attributes:
        epoch: Of the controller in charge.
        flows: By number, what each is, and where it starts.
        scheduled: Those that run.
        grants: By flow, who may write, and under which epoch.
        configuration: Settings.
        flows_begun: How many numbers of flows are given away.
        peeks_begun: How many of peeks.
        writers: How many epochs of writers.
    """

    epoch: int = 0
    flows: dict[int, tuple[Flow, dict[Partition, int]]] = field(default_factory=dict)
    scheduled: set[int] = field(default_factory=set)
    grants: dict[int, dict[str, int]] = field(default_factory=dict)
    configuration: dict[str, int] = field(default_factory=dict)
    flows_begun: int = 0
    peeks_begun: int = 0
    writers: int = 0

    def commands(self, replica: str) -> list[StateCommand]:
        """Return what a controller that begins wants of a replica."""
        commands: list[StateCommand] = [INSTANCE, UpdateConfiguration(dict(self.configuration))]
        for number, (flow, start) in sorted(self.flows.items()):
            commands.append(CreateFlow(number, flow, dict(start)))
            if number in self.scheduled:
                commands.append(Schedule(number))
            epoch = self.grants.get(number, {}).get(replica)
            if epoch is not None:
                commands.append(AllowWrites(number, epoch))
        return [*commands, InitializationComplete()]

    def remove(self, number: int) -> None:
        """A flow is not wanted any more."""
        del self.flows[number]
        self.scheduled.discard(number)
        self.grants.pop(number, None)


class SimController(SimProcess[ControllerEvent]):
    """A process that is, or was, in charge."""

    def __init__(
        self,
        world: World,
        name: str,
        settings: SessionSettings,
        desired: Desired,
        replicas: Sequence[SimReplica],
        records: SimRecords,
    ) -> None:
        super().__init__(world, name)
        self._settings, self._desired, self._records = settings, desired, records
        self._replicas = {replica.name: replica for replica in replicas}
        self.epoch = 0
        self.machines: dict[str, ControllerMachine] = {}
        self._streams: dict[str, SimStream] = {}
        """The last that it opened to each replica."""
        self.open_peeks: dict[int, tuple[str, Peek]] = {}
        """Of whom they were asked, and what."""
        self.answered: Counter[type[object]] = Counter()
        self.ended: Counter[SessionEnd] = Counter()
        """Why it has ended sessions, or why they were lost."""

    @property
    def in_charge(self) -> bool:
        """Whether the stores agree that it is."""
        return self.alive and self.epoch == self._desired.epoch

    def take_office(self) -> None:
        """Start, with an epoch of its own, and want what the stores say is wanted."""
        self._desired.epoch += 1
        self.epoch = self._desired.epoch
        self.machines = {
            replica: ControllerMachine(self.name, self.epoch, replica, self._settings)
            for replica in self._replicas
        }
        self.open_peeks.clear()
        self._streams.clear()
        self.start()
        for replica in self._replicas:
            for command in self._desired.commands(replica):
                self.want(replica, command)

    def want(self, replica: str, command: StateCommand) -> None:
        """Want something of a replica."""
        if isinstance(command, Peek):
            self.open_peeks[command.number] = replica, command
        self._handle(replica, Want(command))

    def want_of_all(self, command: StateCommand) -> None:
        """Want something of every replica."""
        for replica in self._replicas:
            self.want(replica, command)

    def told(self, stream: SimStream, event: ControllerEvent) -> None:
        """Something comes from a replica."""
        self._handle(stream.replica.name, event)

    def turn(self) -> None:
        """Let the machines do what is due."""
        for replica, machine in self.machines.items():
            due_ms = machine.wakeup_ms()
            if self.alive and due_ms is not None and due_ms <= self.world.now_ms:
                self._handle(replica, Woke())

    def _handle(self, replica: str, event: ControllerEvent) -> None:
        if isinstance(event, StreamEnded):
            self.ended[event.why] += 1
        machine = self.machines[replica]
        for effect in machine.handle(event, self.world.now_ms):
            self._do(replica, effect)
        machine.check()

    def _do(self, replica: str, effect: ControllerEffect) -> None:
        match effect:
            case OpenStream():
                self._connect(replica, effect.stream)
            case SendCommands():
                self._send(self._streams[replica], effect.commands)
            case EndStream():
                honest = effect.why is not SessionEnd.VIOLATION
                assert honest, f"I9, I10, I11: the replica broke the protocol: {effect.detail}"
                self.ended[effect.why] += 1
                stream = self._streams[replica]
                stream.to_replica(StreamEnded(stream.there, effect.why))
            case Superseded():
                assert effect.epoch > self.epoch, "I13: it has been refused for an older one"
                self.crash()
            case PeekAnswered():
                self._answer(effect)

    def _connect(self, replica: str, number: int) -> None:
        peer = self._replicas[replica]
        stream = SimStream(self.world, self, peer, (len(peer.streams), number))
        self._streams[replica] = stream
        if peer.alive:
            peer.accept(stream)
            stream.to_controller(StreamReady(number))
        else:
            stream.to_controller(StreamEnded(number))

    def _send(self, stream: SimStream, commands: Sequence[Command]) -> None:
        for command in commands:
            stream.to_replica(CommandCame(stream.there, command))
        stream.commanded()

    def _answer(self, effect: PeekAnswered) -> None:
        open_peek = self.open_peeks.pop(effect.peek, None)
        assert open_peek is not None, f"I11: peek {effect.peek} has two answers"
        self.answered[type(effect.answer)] += 1
        peek = open_peek[1]
        if isinstance(effect.answer, Positions):
            flow, _ = self._desired.flows.get(peek.flow, (None, None))
            there = flow is None or reaches(self._records.target(flow), peek.at_least)
            assert there, "I11: the target is not that far"
