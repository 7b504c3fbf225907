"""Commands of controllers: examples, any valid sequence of them, and a replica that hears them."""

from __future__ import annotations

from hypothesis import strategies as st

from dafka.model import Partition
from dafka.testing.world import Faults, World
from distributor.control.events import (
    CommandCame,
    FlowEffect,
    FlowStopped,
    SendResponses,
    SessionSettings,
    StopFlow,
    StreamOpened,
    Writable,
)
from distributor.control.history import CommandHistory
from distributor.control.messages import (
    VERSIONS,
    AllowCompaction,
    AllowWrites,
    CancelPeek,
    CreateFlow,
    FlowKind,
    Hello,
    InitializationComplete,
    Peek,
    Schedule,
    UpdateConfiguration,
)
from distributor.control.replica import ReplicaMachine
from distributor.testing.control_controllers import INSTANCE, Desired, SimController
from distributor.testing.control_replicas import SimRecords, SimReplica, flow_of

A, B = Partition("orders", "A"), Partition("orders", "B")
COMPLETE = InitializationComplete()
SETTINGS = SessionSettings()
HASTY = SessionSettings(silence_ms=1_000, ping_ms=200)

frontiers = st.dictionaries(st.sampled_from((A, B)), st.integers(1, 9), max_size=2)
configurations = st.dictionaries(st.sampled_from(("rate", "margin")), st.integers(0, 3))


def hello(epoch=1, controller="c1", replica="r1", oldest=VERSIONS[0], newest=VERSIONS[-1]):
    return Hello(controller, epoch, oldest, newest, replica)


def create(number, start=None, kind=FlowKind.RECORDS):
    return CreateFlow(number, flow_of(number, kind), start or {})


OF_FLOWS = {
    "schedule": lambda flow, number, frontier: Schedule(flow),
    "writes": lambda flow, number, frontier: AllowWrites(flow, number),
    "compact": lambda flow, number, frontier: AllowCompaction(flow, frontier),
    "drop": lambda flow, number, frontier: AllowCompaction(flow, None),
    "peek": lambda flow, number, frontier: Peek(number, flow, {A: 1}),
}
KINDS = ("create", "create", "configure", "cancel", *OF_FLOWS)


@st.composite
def histories(draw):
    """Any commands that a controller may give, from its first one on, as a list."""
    commands = [INSTANCE]
    flows, peeks = [], []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(KINDS), max_size=25)), 1):
        if kind == "create":
            flows.append(number)
            commands.append(create(number, draw(frontiers)))
        elif kind == "configure":
            commands.append(UpdateConfiguration(draw(configurations)))
        elif kind == "cancel" and peeks:
            commands.append(CancelPeek(draw(st.sampled_from(peeks))))
        elif kind in OF_FLOWS and flows:
            flow = draw(st.sampled_from(flows))
            commands.append(OF_FLOWS[kind](flow, number, draw(frontiers)))
            if kind == "drop":
                flows.remove(flow)
            if kind == "peek":
                peeks.append(number)
    return commands


def reduced(commands):
    """The history that some commands come to."""
    history = CommandHistory()
    for command in commands:
        assert history.objection(command) is None
        history.take(command)
    return history


class Driven:
    """A replica whose streams take everything and whose flows stop at once."""

    def __init__(self, name="r1", settings=SETTINGS):
        self.machine = ReplicaMachine(name, settings)
        self.stream = -1
        self.effects = []
        """What flows were told in the last session; `responses` has what was said in it."""
        self.responses = []

    def handle(self, event, now_ms=0):
        """What the machine wants done, responses apart."""
        effects = self.machine.handle(event, now_ms)
        self.machine.check()
        for effect in effects:
            if isinstance(effect, SendResponses):
                self.responses += effect.responses
                self.handle(Writable(effect.stream), now_ms)
            elif isinstance(effect, FlowEffect):
                self.effects.append(effect)
            if isinstance(effect, StopFlow):
                self.handle(FlowStopped(effect.run), now_ms)
        return [one for one in effects if not isinstance(one, SendResponses)]

    def connect(self, greeting=None, now_ms=0):
        """Begin a session; what of the last one came of it is forgotten here."""
        self.stream += 1
        self.effects.clear()
        self.responses.clear()
        self.handle(StreamOpened(self.stream), now_ms)
        return self.tell(greeting or hello(), now_ms=now_ms)

    def tell(self, *commands, now_ms=0):
        """Let commands come; returns what comes of the last."""
        found = []
        for command in commands:
            found = self.handle(CommandCame(self.stream, command), now_ms)
        return found

    @property
    def state(self):
        """What it runs, and under which terms."""
        runs = self.machine.table.runs
        return {number: (run.flow, run.told) for number, run in runs.items()}

    def said(self, kind):
        """The responses of a kind, in this session."""
        return [one for one in self.responses if isinstance(one, kind)]


def pair(flows=(1,)):
    """A controller that drives a replica, and what it wants of it."""
    world, desired, records = World(0, Faults()), Desired(), SimRecords()
    replica = SimReplica(world, "r1", HASTY, records)
    controller = SimController(world, "c1", HASTY, desired, [replica], records)
    for number in flows:
        desired.flows[number] = flow_of(number), {}
        desired.scheduled.add(number)
        desired.grants[number] = {"r1": number}
    replica.boot()
    controller.take_office()
    world.run_until(500)
    return world, controller, replica


def copied(world, controller, replica):
    replica._records.source.update({A: world.now_ms, B: 1})
    world.run_until(world.now_ms + 5_000)
    return replica._records.target(flow_of(1))[B] == 1
