"""A world from one seed: one heap of events, meshes that misbehave, nodes that crash.

Nothing here knows what the nodes do. The same seed gives the same run, event for event;
`World.fingerprint` shows it.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from dafka.protocol.effects import Effect, Listen, Publish, Unlisten
from dafka.protocol.events import Event, PeerListened, Received, ReceivedTogether, Woke
from dafka.testing.history import Fault, History
from dafka.wire import rfc46
from dafka.wire.bundles import BUNDLED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.wire.messages import Message, MessageId

S = TypeVar("S")
"""How a node tells its meshes apart."""


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
    """

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms_max: int = 2
    disk_ms_max: int = 2
    corruption: float = 0.0
    refusal: float = 0.0

    def heal(self) -> None:
        """From now on nothing goes wrong; delays stay."""
        self.loss = self.duplication = self.corruption = self.refusal = 0.0


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
        self.events = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._pushed = 0
        self._digest = hashlib.blake2b(digest_size=8)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do `action` in `delay_ms`."""
        self._pushed += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._pushed, action))

    def run_until(self, time_ms: int) -> None:
        """Let everything happen that happens up to `time_ms`."""
        while self._heap and self._heap[0][0] <= time_ms:
            self.now_ms, _, action = heappop(self._heap)
            self.events += 1
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
        return self.random.randrange(self.faults.delay_ms_max + 1)


class SimMesh:
    """The network of one cluster: every node hears every other, by subscription, unreliably."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._members: dict[MeshMember, dict[bytes, tuple[MessageId, str]]] = {}
        self._prefixes: dict[MeshMember, tuple[bytes, ...]] = {}
        """What of each member's subscriptions messages are compared with."""

    def join(self, member: MeshMember) -> None:
        """Connect a node; it learns of everybody's subscriptions."""
        self._members[member] = {}
        self._prefixes[member] = ()
        for other, prefixes in self._members.items():
            if other is not member:
                for message_id, key in prefixes.values():
                    self._send(member, PeerListened(message_id, key))

    def leave(self, member: MeshMember) -> None:
        """Disconnect a node."""
        self._members.pop(member, None)
        self._prefixes.pop(member, None)

    def listen(self, member: MeshMember, message_id: MessageId, key: str) -> None:
        """Subscribe a node."""
        self._members[member][rfc46.prefix(message_id, key)] = (message_id, key)
        self._prefixes[member] = (*self._members[member],)
        for other in self._members:
            if other is not member:
                self._send(other, PeerListened(message_id, key))

    def unlisten(self, member: MeshMember, message_id: MessageId, key: str) -> None:
        """Take a node's subscription back."""
        self._members[member].pop(rfc46.prefix(message_id, key), None)
        self._prefixes[member] = (*self._members[member],)

    def publish(self, member: MeshMember, message: Message) -> None:
        """Carry a message to every other node that listens for it, as the faults allow."""
        frames = rfc46.encode(message)
        self._world.note(frames[0], frames[1])
        # Values, so one for all: what is decoded is what was encoded, and nobody can change it.
        received = Received(rfc46.decode(frames))
        faults, chance = self._world.faults, self._world.random
        for other, prefixes in self._prefixes.items():
            if other is member or not frames[0].startswith(prefixes):
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

    def _send(self, member: MeshMember, event: Event) -> None:
        incarnation = member.incarnation
        delay_ms = self._world.delay_ms()
        self._world.note(delay_ms)
        self._world.after(delay_ms, lambda: member.arrive(self, event, incarnation))


class MeshMember(Protocol):
    """What a mesh needs of a node."""

    incarnation: int

    def arrive(self, mesh: SimMesh, event: Event, incarnation: int) -> None:
        """Take an event in, unless the node has crashed since it was sent."""


class Machine(Protocol[S]):
    """A machine with one or more sides, each on a mesh of its own."""

    def handle(self, side: S, event: Event, now_ms: int) -> Sequence[tuple[S, object]]:
        """Take one event in."""

    def wakeup_ms(self) -> int | None:
        """When to wake it."""

    def check(self) -> None:
        """Assert its invariants."""


class SimNode(Generic[S]):
    """A machine that lives in meshes, and may die.

    Subclasses build the machine anew at every boot and perform its own effects.
    """

    def __init__(self, world: World, name: str, meshes: dict[S, SimMesh]) -> None:
        self.world = world
        self.name = name
        self.incarnation = 0
        self.alive = False
        self._meshes = meshes
        self._machine: Machine[S] | None = None
        self._wake_ms: int | None = None

    def build(self) -> Machine[S]:
        """Return a machine as a fresh process would."""
        raise NotImplementedError

    def perform(self, side: S, effect: object) -> None:
        """Do what only this kind of node does."""
        raise NotImplementedError

    def published(self, message: Message) -> None:
        """Something is being said: for those who keep a history."""

    def boot(self) -> None:
        """Start the process."""
        assert not self.alive
        self.alive = True
        self.incarnation += 1
        self._wake_ms = None
        self._machine = self.build()
        self.world.note("boot", self.name)
        for mesh in self._meshes.values():
            mesh.join(self)
        self.feed(next(iter(self._meshes)), Woke())

    def crash(self) -> None:
        """Die as by kill -9."""
        assert self.alive
        self.alive = False
        self.incarnation += 1
        self._machine = None
        self.world.note("crash", self.name)
        self.world.history.record(Fault(self.world.now_ms, f"crash {self.name}"))
        for mesh in self._meshes.values():
            mesh.leave(self)

    def arrive(self, mesh: SimMesh, event: Event, incarnation: int) -> None:
        """Take an event from a mesh in, unless the node has crashed since it was sent."""
        if incarnation == self.incarnation:
            side = next(side for side, own in self._meshes.items() if own is mesh)
            self.feed(side, event)

    def feed(self, side: S, event: object) -> None:
        """Hand an event to the machine and perform what it asks for."""
        machine = self._machine
        if machine is None:
            return
        for effect_side, effect in machine.handle(side, event, self.world.now_ms):  # type: ignore[arg-type]
            if isinstance(effect, Publish):
                self.published(effect.message)
                self._meshes[effect_side].publish(self, effect.message)
            elif isinstance(effect, Listen):
                self._meshes[effect_side].listen(self, effect.id, effect.key)
            elif isinstance(effect, Unlisten):
                self._meshes[effect_side].unlisten(self, effect.id, effect.key)
            else:
                self.perform(effect_side, effect)
        machine.check()
        self._plan_wake(machine)

    def later(self, delay_ms: int, side: S, event: object) -> None:
        """Hand an event to the machine after a time, unless the node has crashed by then."""
        incarnation = self.incarnation

        def arrive() -> None:
            if incarnation == self.incarnation:
                self.feed(side, event)

        self.world.after(delay_ms, arrive)

    def _plan_wake(self, machine: Machine[S]) -> None:
        due_ms = machine.wakeup_ms()
        if due_ms is None or (self._wake_ms is not None and self._wake_ms <= due_ms):
            return
        self._wake_ms = due_ms
        incarnation = self.incarnation

        def wake() -> None:
            if incarnation == self.incarnation:
                self._wake_ms = None
                self.feed(next(iter(self._meshes)), Woke())

        self.world.after(max(0, due_ms - self.world.now_ms), wake)


class OneSided:
    """Gives a machine of one mesh the shape of `Machine`."""

    def __init__(self, machine: OneMesh) -> None:
        self._machine = machine
        self.wakeup_ms = machine.wakeup_ms
        self.check = machine.check

    def handle(self, side: None, event: Event, now_ms: int) -> list[tuple[None, Effect]]:
        """Take one event in."""
        return [(side, effect) for effect in self._machine.handle(event, now_ms)]


class OneMesh(Protocol):
    """The shape of the machines in `dafka.protocol`."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in."""

    def wakeup_ms(self) -> int | None:
        """When to wake it."""

    def check(self) -> None:
        """Assert its invariants."""
