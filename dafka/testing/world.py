"""A world from one seed: one heap of events, meshes that misbehave, nodes that crash.

A node here is the role of a real one in the turns of a real one (`dafka.node.turn`); simulated are
its ports: clock and mesh, and in subclasses the disk, the query port and the application. The same
seed gives the same run, event for event; `World.fingerprint` shows it.
"""

from __future__ import annotations

import hashlib
import logging
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, Protocol, cast

from dafka.model import Shape
from dafka.node.loop import NodeFailedError
from dafka.node.turn import E, S, Turn
from dafka.protocol.events import PeerLeft, PeerListened, Received, ReceivedTogether
from dafka.protocol.foreign import Singles
from dafka.testing.clocks import BOOTED_MS_MAX, SimClock
from dafka.testing.history import Fault, History
from dafka.transport.access import ANYBODY, Sender, taken
from dafka.wire import rfc46
from dafka.wire.bundles import BUNDLED
from dafka.wire.messages import DirectRecord, RecordMessage
from dafka.wire.slots import SlotListeners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from dafka.node.turn import Role
    from dafka.protocol.events import Event
    from dafka.protocol.machine import Machine
    from dafka.transport.mesh import Notice
    from dafka.transport.sockets import Pollable
    from dafka.wire.messages import Message, MessageId


def mute() -> None:
    """Let what nodes log go nowhere: here a full disk is no news."""
    for package in ("dafka", "distributor"):
        logging.getLogger(package).addHandler(logging.NullHandler())


TURNS_MAX = 1_000
"""Who turns more often in one millisecond never sleeps."""

EVENTS_MAX = 1_000_000
"""Where more happens in one millisecond something plans itself again and again."""


@dataclass(slots=True)
class Faults:
    """What the network and the disks do to a run; probabilities from 0 to 1.

    Attributes:
        loss: A message does not arrive.
        duplication: A message arrives twice.
        delay_ms_max: A message takes up to this long; differing delays reorder.
        disk_ms_max: A write takes up to this long.
        corruption: Content arrives at a store with a bit changed.
        refusal: A disk refuses a write, as a full one does.
        skew_ms_max: Wall clocks are wrong by so much at most, in either direction.
    """

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms_max: int = 2
    disk_ms_max: int = 2
    corruption: float = 0.0
    refusal: float = 0.0
    skew_ms_max: int = 0

    def heal(self) -> None:
        """From now on nothing goes wrong; delays stay, and what clocks show."""
        self.loss = self.duplication = self.corruption = self.refusal = 0.0


LATE = 0.05
"""How much of what is sent arrives when nobody waits for it any more."""


class World:
    """Time, chance and the order of events.

    Args:
        seed: Everything random comes from it.
        faults: May be changed while the world runs.
    """

    def __init__(self, seed: int, faults: Faults) -> None:
        self.random = random.Random(seed)
        self.faults = faults
        self.history = History()
        """What the nodes' applications saw, for `dafka.testing.checker`."""
        self.now_ms = 0
        self.cuts: set[tuple[str, str]] = set()
        """Pairs of nodes: of the first nothing gets to the second."""
        self.healed_ms = 0
        """Since when nothing goes wrong any more."""
        self.events = 0
        self._clocks = random.Random(f"clocks of {seed}")
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._pushed = 0
        self._digest = hashlib.blake2b(digest_size=8)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do `action` in `delay_ms`."""
        self._pushed += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._pushed, action))

    def machine(self) -> SimClock:
        """The clocks of one more machine."""
        skew_ms = self.faults.skew_ms_max
        return SimClock(
            lambda: self.now_ms,
            self._clocks.randrange(BOOTED_MS_MAX),
            self._clocks.randint(-skew_ms, skew_ms),
        )

    def cut(self, one: str, other: str, *, both: bool) -> None:
        """Let nothing of a node get to another, nor the other way round if `both`."""
        self.note("cut", one, other, both)
        self.history.record(Fault(self.now_ms, f"cut {one} {other}"))
        self.cuts |= {(one, other), (other, one)} if both else {(one, other)}

    def parted(self, one: str, other: str) -> bool:
        """Whether one of these two cannot answer the other."""
        return bool(self.cuts) and bool(self.cuts & {(one, other), (other, one)})

    def heal(self) -> None:
        """From now on nothing goes wrong; delays stay, and what clocks show."""
        self.healed_ms = self.now_ms
        self.faults.heal()
        self.cuts.clear()

    def run_until(self, time_ms: int) -> None:
        """Let everything happen that happens up to `time_ms`."""
        before = self.events
        while self._heap and self._heap[0][0] <= time_ms:
            at_ms, _, action = heappop(self._heap)
            if at_ms != self.now_ms:
                self.now_ms, before = at_ms, self.events
            self.events += 1
            assert self.events - before < EVENTS_MAX, f"time stands still at {at_ms} ms"
            action()
        self.now_ms = time_ms

    def note(self, *facts: object) -> None:
        """Make `facts` part of the fingerprint."""
        self._digest.update(repr((self.now_ms, facts)).encode())

    @property
    def fingerprint(self) -> str:
        """Equal for two runs in which the same happened at the same times."""
        return self._digest.hexdigest()

    def delay_ms(self) -> int:
        """How long the next message takes."""
        return int(self.random.random() * (self.faults.delay_ms_max + 1))

    def send(self, arrive: Callable[[], None], late_ms_max: int, chance: random.Random) -> None:
        """Let a message arrive, or be lost; some come when nobody waits for them any more.

        Args:
            arrive: Takes it.
            late_ms_max: By how much those may be late.
            chance: Draws what becomes of it.
        """
        if chance.random() < self.faults.loss:
            return
        late = self.faults.loss > 0 and chance.random() < LATE
        late_ms = chance.randint(0, late_ms_max) if late else 0
        self.after(self.delay_ms() + late_ms, arrive)


class SimMesh:
    """The network of one cluster: nodes hear each other, by subscription, unreliably.

    Each every other; guests hear stores only.
    """

    def __init__(self, world: World) -> None:
        self.guests = False
        """Whether all but stores are guests."""
        self._world = world
        self._members: dict[SimMeshPort, dict[bytes, tuple[MessageId, str]]] = {}
        self._prefixes: dict[SimMeshPort, tuple[bytes, ...]] = {}
        """What of each member's subscriptions messages are compared with."""

    @property
    def members(self) -> int:
        """How many nodes are connected."""
        return len(self._members)

    def __contains__(self, member: SimMeshPort) -> bool:
        return member in self._members

    def join(self, member: SimMeshPort) -> None:
        """Connect a node; it learns of everybody's subscriptions."""
        self._members[member] = {}
        self._prefixes[member] = ()
        for other, prefixes in self._members.items():
            if other is not member and other.hears(member):
                for message_id, key in prefixes.values():
                    self._send(member, PeerListened(message_id, key))

    def leave(self, member: SimMeshPort) -> None:
        """Disconnect a node; all others notice, behind the last that it has said."""
        self._members.pop(member, None)
        self._prefixes.pop(member, None)
        left = PeerLeft(member.address)
        for other in self._members:
            if other.hears(member):
                self._world.after(self._world.faults.delay_ms_max, partial(other.arrive, left))

    def listen(self, member: SimMeshPort, message_id: MessageId, key: str) -> None:
        """Subscribe a node."""
        self._members[member][rfc46.prefix(message_id, key)] = (message_id, key)
        self._prefixes[member] = (*self._members[member],)
        for other in self._members:
            if other is not member and member.hears(other):
                self._send(other, PeerListened(message_id, key))

    def unlisten(self, member: SimMeshPort, message_id: MessageId, key: str) -> None:
        """Take a node's subscription back."""
        self._members[member].pop(rfc46.prefix(message_id, key), None)
        self._prefixes[member] = (*self._members[member],)

    def publish(self, member: SimMeshPort, message: Message) -> None:
        """Carry a message to every other node that listens for it, as the faults allow."""
        frames = rfc46.encode(message)
        self._world.note(frames[0], frames[1])
        # Values, so one for all: what is decoded is what was encoded, and nobody can change it.
        (message,) = taken(Sender(ANYBODY), [rfc46.decode(frames)])
        received = Received(message)
        faults, chance, cuts = self._world.faults, self._world.random, self._world.cuts
        for other, prefixes in self._prefixes.items():
            if other is member or not frames[0].startswith(prefixes):
                continue
            if not other.hears(member) or (cuts and (member.name, other.name) in cuts):
                continue
            if chance.random() < faults.loss:
                continue
            if chance.random() >= faults.duplication:
                self._send(other, received)
            elif isinstance(received.message, BUNDLED) and chance.random() < 0.5:
                self._send(other, ReceivedTogether((received.message,) * 2))
            else:
                self._send(other, received)
                self._send(other, received)

    def _send(self, member: SimMeshPort, event: Event) -> None:
        delay_ms = self._world.delay_ms()
        self._world.note(delay_ms)
        self._world.after(delay_ms, partial(member.arrive, event))


_SINGLE = RecordMessage, DirectRecord


class SimMeshPort:
    """One life of a node in one mesh: what its turns take for the network.

    Args:
        node: Whose.
        side: How the node calls this mesh.
        mesh: The network.
    """

    def __init__(self, node: SimNode[S, E], side: S, mesh: SimMesh) -> None:
        self.name = node.name
        self.address = node.address
        self._keeps = node.keeps
        self._guest = node.guest or (mesh.guests and not node.keeps)
        self._mesh = mesh
        self._arrive = partial(node.arrive, side)
        self._wall_ms = node.clock.wall_ms
        self._singles = Singles(Shape.BATCHES)
        self._slots = SlotListeners()
        self._leave = node.leave
        self._published = node.published
        mesh.join(self)

    @property
    def peers(self) -> int:
        """How many other nodes are connected."""
        return self._mesh.members - 1

    def hears(self, other: SimMeshPort) -> bool:
        """Whether it is connected to another node's publisher."""
        return other._keeps or not self._guest

    def arrive(self, event: Event) -> None:
        """Take an event in, unless the node has crashed since it was sent."""
        if self not in self._mesh:
            return
        if isinstance(event, PeerListened):
            self._slots.listened(event.id, event.key)
        if not isinstance(event, Received) or not isinstance(event.message, _SINGLE):
            self._arrive(event)
            return
        for one in self._singles.inbound((event,), self._wall_ms()):
            assert isinstance(one, Received), "what is too large is not sent here"
            self._arrive(one)

    def publish(self, message: Message) -> None:
        """Send a message, not before the node has done what it did before."""
        for one in self._slots.beside((message,)):
            self._leave(partial(self._send, one))

    def flush(self) -> None:
        """Nothing waits here."""

    def listen(self, message_id: MessageId, key: str) -> None:
        """Subscribe."""
        self._mesh.listen(self, message_id, key)

    def unlisten(self, message_id: MessageId, key: str) -> None:
        """Take a subscription back."""
        self._mesh.unlisten(self, message_id, key)

    def wake(self, _now_ms: int) -> list[Notice]:
        """Nobody sends beacons: all find each other at once."""
        return []

    def wakeup_ms(self) -> None:
        """Never."""

    def close(self, _linger_ms: int) -> None:
        """Leave the mesh."""
        self._mesh.leave(self)

    def _send(self, message: Message) -> None:
        self._published(message)
        self._mesh.publish(self, message)


class SimNode(ABC, Generic[S, E]):
    """A process: a role and its turns, in meshes of this world; it may die.

    Subclasses build the role anew at every boot, and are its application.
    """

    keeps = False
    """Whether it is a store."""

    def __init__(self, world: World, name: str, meshes: Mapping[S, SimMesh]) -> None:
        self.world = world
        self.name = name
        self.machine_clock = world.machine()
        """Those of its machine."""
        self.clock = self.machine_clock.clock
        """What it knows time by."""
        self.guest = False
        """Whether it is connected to stores only."""
        self.incarnation = 0
        self.alive = False
        self.ports: dict[S, SimMeshPort] = {}
        self._meshes = dict(meshes)
        self._turn: Turn[S, E] | None = None
        self._handlers: Mapping[Pollable, Callable[[], Iterable[tuple[S, Event | E]]]] = {}
        self._arrived: list[tuple[S, Event]] = []
        self._woken = False
        self._turn_due_ms: int | None = None
        self._planned: set[int] = set()
        """When it will see whether a turn is due, in this life."""
        self._turns = 0, 0
        """A time, and how many turns there were at it."""
        self._busy_until_ms = 0
        self._asleep_until_ms = 0
        self._leaving: list[Callable[[], None]] = []
        """What others will see once the thread is not busy any more."""

    @abstractmethod
    def build(self) -> tuple[Role[S, E], Machine[Any, Any]]:
        """Return a role as in a fresh process, and the machine in it."""

    @property
    def address(self) -> str:
        """What it says it is in a mesh."""
        return self.name

    def published(self, message: Message) -> None:
        """Something is being said: for those who keep a history."""

    def performed(self, side: S, effect: object, completed: object) -> None:
        """An effect was performed, with what completed it: for those who keep a history."""

    def turned(self) -> None:
        """A turn has ended: the application may look at what there is."""

    @property
    def awake(self) -> bool:
        """Whether it lives, on a machine that is not suspended."""
        return self.alive and self.world.now_ms >= self._asleep_until_ms

    def boot(self) -> None:
        """Start the process."""
        assert not self.alive
        self.alive = True
        self.incarnation += 1
        self._turn_due_ms = None
        self._planned = set()
        self._busy_until_ms = self._asleep_until_ms = self.world.now_ms
        self.world.note("boot", self.name)
        role, machine = self.build()
        self._handlers = role.pollable()
        self.ports = {side: SimMeshPort(self, side, mesh) for side, mesh in self._meshes.items()}
        self._turn = _WatchedTurn(self, role, machine)
        self._turn.begin()
        self._ended()

    def crash(self) -> None:
        """Die as by kill -9."""
        assert self._turn is not None
        self.world.note("crash", self.name)
        self.world.history.record(Fault(self.world.now_ms, f"crash {self.name}"))
        turn, self._turn = self._turn, None
        self.alive = False
        self.incarnation += 1
        self._planned = set()
        self._arrived, self._leaving, self._handlers = [], [], {}
        turn.close(0)

    def suspend(self, milliseconds: int) -> None:
        """Let its machine be suspended: it does nothing, and what comes for it waits."""
        self.world.note("suspend", self.name)
        self.world.history.record(Fault(self.world.now_ms, f"suspend {self.name}"))
        self.machine_clock.suspended(milliseconds)
        self._asleep_until_ms = self.world.now_ms + milliseconds
        self._busy_until_ms = max(self._busy_until_ms, self._asleep_until_ms)
        self._turn_due_ms = None
        self._plan(self._busy_until_ms)

    def post(self, side: S, event: Event | E) -> None:
        """Hand an event over, as an application's thread does."""
        if self._turn is not None:
            self._turn.post(side, event)

    def arrive(self, side: S, event: Event) -> None:
        """Something has come from a mesh."""
        self._arrived.append((side, event))
        self.come_to_it()

    def wake(self) -> None:
        """Look at inbox and timers in a turn soon."""
        self._woken = True
        self.come_to_it()

    def come_to_it(self) -> None:
        """Take a turn at once or a little later: by then there may be more to do in it."""
        soon_ms = self.world.now_ms + 1
        if self._turn_due_ms is None or self._turn_due_ms > soon_ms:
            self._plan(soon_ms - self.world.random.getrandbits(1))

    def busy(self, milliseconds: int) -> None:
        """Its thread does nothing else for so long, from when it is idle on."""
        self._busy_until_ms = max(self._busy_until_ms, self.world.now_ms) + milliseconds

    def leave(self, action: Callable[[], None]) -> None:
        """Do what others see: now, or when the thread has done what keeps it busy."""
        if self._leaving or self._busy_until_ms > self.world.now_ms:
            self._leaving.append(action)
        else:
            action()

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something after a time, or once it is awake, unless it has crashed by then."""
        incarnation = self.incarnation

        def act() -> None:
            if incarnation != self.incarnation:
                return
            if self.awake:
                action()
            else:
                self.world.after(self._asleep_until_ms - self.world.now_ms, act)

        self.world.after(delay_ms, act)

    def _plan(self, time_ms: int) -> None:
        now_ms = self.world.now_ms
        due_ms = max(time_ms, self._busy_until_ms, now_ms)
        if self._turn_due_ms is None or due_ms < self._turn_due_ms:
            self._turn_due_ms = due_ms
            if due_ms not in self._planned:
                self._planned.add(due_ms)
                self.world.after(due_ms - now_ms, partial(self._come_round, self._planned, due_ms))

    def _come_round(self, planned: set[int], due_ms: int) -> None:
        if planned is self._planned:
            planned.discard(due_ms)
            if due_ms == self._turn_due_ms:
                self._turn_due_ms = None
                self._take_turn(due_ms)

    def _take_turn(self, due_ms: int) -> None:
        self._idle()
        time_ms, count = self._turns
        self._turns = due_ms, count + 1 if time_ms == due_ms else 0
        assert count < TURNS_MAX, f"{self.name} never sleeps"
        try:
            self._turn_over()
        except AssertionError:
            raise
        except Exception as error:
            raise NodeFailedError(f"{self.name} has failed: {error!r}") from error
        self._ended()

    def _turn_over(self) -> None:
        assert self._turn is not None
        arrived, self._arrived = self._arrived, []
        for side, event in arrived:
            self._turn.take(side, (event,))
        for socket in self._readable():
            self._turn.complete(self._handlers[socket]())
        woken, self._woken = self._woken, False
        self._turn.end(woken=woken)

    def _ended(self) -> None:
        """A turn is over: the application has its own, then all wait for the next."""
        self.turned()
        if self._turn is None:
            return
        if self._busy_until_ms > self.world.now_ms:
            self._plan(self._busy_until_ms)
        else:
            self._idle()
        if self._readable():
            self._plan(self.world.now_ms)
        elif (due_ms := self._turn.due_ms()) is not None:
            self._plan(self.machine_clock.world_ms(due_ms))

    def _idle(self) -> None:
        leaving, self._leaving = self._leaving, []
        for action in leaving:
            action()

    def _readable(self) -> list[Pollable]:
        return [one for one in self._handlers if cast("SimSocket", one).readable]


class SimSocket(Protocol):
    """What a role polls here besides its meshes."""

    @property
    def readable(self) -> bool:
        """Whether there is something to be received."""


class _WatchedTurn(Turn[S, E]):
    """Tells the node what was performed, and looks after its machine."""

    def __init__(self, node: SimNode[S, E], role: Role[S, E], machine: Machine[Any, Any]) -> None:
        super().__init__(role, node.name, node.ports, node.clock, node.wake)
        self._performed = node.performed
        self._check = machine.check

    def feed(self, side: S, event: Event | E) -> None:
        """Hand an event over, and see that the machine is sound afterwards."""
        super().feed(side, event)
        self._check()

    def perform(self, side: S, effect: object) -> Event | E | None:
        """Do an effect; returns the event that completes it, if any."""
        completed = super().perform(side, effect)
        self._performed(side, effect, completed)
        return completed
