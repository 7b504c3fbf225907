"""What a node does in a turn of its loop: no thread, clock, socket or decision of its own.

Events go to the role, effects to meshes or back to the role. `dafka.node.loop.Node` runs turns in a
thread, around a poller; the simulator runs the same ones on a heap of events.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from dafka.process import metrics
from dafka.protocol.effects import Dropped, Listen, Lost, Publish, Unlisten
from dafka.protocol.events import Received, TurnEnded, Woke
from dafka.protocol.machine import earliest
from dafka.protocol.presence import Disconnect, Refused, TowerAway, TowerBack, TwinHeard
from dafka.wire import messages
from dafka.wire.dialect import Company

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.process.clock import Clock
    from dafka.protocol.events import Event
    from dafka.transport.mesh import Notice
    from dafka.transport.sockets import Pollable
    from dafka.wire.messages import Message, MessageId

S = TypeVar("S")
"""How a node tells its meshes apart."""

E = TypeVar("E")
"""Events of its own that a role has beside those of `dafka.protocol`; `Never` if it has none."""

log = logging.getLogger(__name__)

_BATCHES = (
    messages.Records,
    messages.RecordMessage,
    messages.DirectRecords,
    messages.DirectRecord,
    messages.StoredRecords,
)

_NOTICES = (Disconnect, TowerAway, TowerBack, Refused, TwinHeard, Dropped, Company)


class Role(Protocol[S, E]):
    """What lives in a node: a machine, and what performs its own effects."""

    name: str
    """The label of its metrics: producer, consumer, store, link."""

    def handle(self, side: S, event: Event | E, now_ms: int) -> Iterable[tuple[S, object]]:
        """Pass an event to the machine."""

    def wakeup_ms(self) -> int | None:
        """When to send it `Woke`."""

    def perform(self, side: S, effect: object) -> Event | E | None:
        """Do an effect that is not the network's; returns the event that completes it, if any."""

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[S, Event | E]]]]:
        """Further sockets, and what makes events of them when they are readable."""

    def close(self) -> None:
        """Release what it holds; called in the node's thread, last."""


class MeshPort(Protocol):
    """A node's place in a cluster, as far as a turn needs it: `dafka.transport.mesh.Mesh`."""

    @property
    def peers(self) -> int:
        """How many nodes it is connected to."""

    def publish(self, message: Message) -> Dropped | None:
        """Send a message to every peer that listens; returns why it cannot be sent."""

    def flush(self) -> None:
        """Send what waits for others of its kind."""

    def listen(self, message_id: MessageId, key: str) -> None:
        """Subscribe."""

    def unlisten(self, message_id: MessageId, key: str) -> None:
        """Take a subscription back."""

    def wake(self, now_ms: int) -> Iterable[Event | Notice]:
        """Do what time has made due; returns what has come of it, as for `take`."""

    def wakeup_ms(self) -> int | None:
        """When to call `wake`."""

    def close(self, linger_ms: int) -> None:
        """Leave; what was published may take so long to go out."""


class Turn(Generic[S, E]):
    """The turns of one node: `take` and `complete` what has arrived, then `end`.

    Args:
        role: What lives here.
        address: Its identity, for the metrics.
        meshes: Its meshes by side.
        clock: Its clock.
        wake: Makes the next turn begin now; from any thread.
    """

    def __init__(
        self,
        role: Role[S, E],
        address: str,
        meshes: Mapping[S, MeshPort],
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self.inbox: deque[tuple[S, Event | E]] = deque()
        """What was posted and is not handled yet."""
        self._role = role
        self._address = address
        self._meshes = dict(meshes)
        self._first = next(iter(self._meshes))
        self._handle = role.handle
        self._now_ms = clock.now_ms
        self.turned_ms = clock.now_ms()
        """When the last turn came to its end."""
        self._wake = wake
        self._due_ms: int | None = None
        self.away: frozenset[str] = frozenset()
        """Towers that are not heard; may be read from any thread."""
        self._unread: set[S] = set()
        """Meshes in which nobody reads what this node writes."""
        self._taken_in = metrics.traffic(role.name, "in")
        self._sent_out = metrics.traffic(role.name, "out")

    def post(self, side: S, event: Event | E) -> None:
        """Hand an event over from another thread."""
        self.inbox.append((side, event))
        self._wake()

    def begin(self) -> None:
        """Wake all for the first time."""
        self.feed(self._first, Woke())
        self._wake_meshes(self._now_ms(), first=True)

    def due_ms(self) -> int | None:
        """When the role or a mesh is to be woken first."""
        meshes = [mesh.wakeup_ms() for mesh in self._meshes.values()]
        self._due_ms = earliest(self._role.wakeup_ms(), *meshes)
        return self._due_ms

    def take(self, side: S, arrived: Iterable[Event | Notice]) -> None:
        """Handle what a mesh has received."""
        feed = self.feed
        for event in arrived:
            if isinstance(event, Received):
                message = event.message
                if isinstance(message, _BATCHES):
                    self._taken_in.add(message.count, len(message.content))
            elif isinstance(event, _NOTICES):
                self._notice(side, event)
                continue
            feed(side, event)

    def complete(self, happened: Iterable[tuple[S, Event | E]]) -> None:
        """Handle what the role has made of something else than a mesh."""
        for side, event in happened:
            self.feed(side, event)

    def end(self, *, woken: bool) -> None:
        """Do what is due or posted, and let go out what was collected.

        Args:
            woken: Something may be due that was not when the turn began.
        """
        self.turned_ms = now_ms = self._now_ms()
        if woken or (self._due_ms is not None and self._due_ms <= now_ms):
            self._wake_due(now_ms)
        while self.inbox:
            self.feed(*self.inbox.popleft())
        self._taken_in.tell()
        self.feed(self._first, TurnEnded())
        for mesh in self._meshes.values():
            mesh.flush()
        self._sent_out.tell()

    def close(self, linger_ms: int) -> None:
        """Release everything; what was published may take so long to go out."""
        self._role.close()
        for mesh in self._meshes.values():
            mesh.close(linger_ms)
        metrics.PEERS.remove(self._role.name, self._address)
        metrics.UNREAD.remove(self._role.name, self._address)
        for tower in self.away:
            self._tower(tower, away=False)

    def feed(self, side: S, event: Event | E) -> None:
        """Hand an event to the role and perform what it asks for, to the end."""
        pending: list[tuple[S, Event | E]] = [(side, event)]
        for happened in pending:  # which grows on the way
            for effect_side, effect in self._handle(*happened, self._now_ms()):
                completed = self.perform(effect_side, effect)
                if completed is not None:
                    pending.append((effect_side, completed))

    def perform(self, side: S, effect: object) -> Event | E | None:
        """Do an effect; returns the event that completes it, if any."""
        if isinstance(effect, Publish):
            message = effect.message
            if isinstance(message, _BATCHES):
                self._sent_out.add(message.count, len(message.content))
            dropped = self._meshes[side].publish(message)
            if dropped is not None:
                self._drop(dropped)
        elif isinstance(effect, Listen):
            self._meshes[side].listen(effect.id, effect.key)
        elif isinstance(effect, Unlisten):
            self._meshes[side].unlisten(effect.id, effect.key)
        elif isinstance(effect, Dropped):
            self._drop(effect)
        elif isinstance(effect, Lost):
            self._lose(effect)
        else:
            return self._role.perform(side, effect)
        return None

    def _notice(self, side: S, notice: Notice) -> None:
        """Count or say what an operator should know of a mesh."""
        match notice:
            case Dropped():
                self._drop(notice)
            case Disconnect():
                metrics.PEERS_LEFT.labels(self._role.name).inc()
            case TowerAway():
                self._tower(notice.tower, away=True)
                log.warning(
                    "tower is not heard: %s; start it or correct the endpoint, this node keeps "
                    "looking for it",
                    "new nodes are found through the others"
                    if notice.heard
                    else "no node is found until one is heard, those found stay connected",
                    extra={"role": self._role.name, "tower": notice.tower},
                )
            case TowerBack():
                self._tower(notice.tower, away=False)
                facts = {"role": self._role.name, "tower": notice.tower}
                log.warning("tower is heard", extra=facts)
            case Refused():
                log.warning(
                    "the key of this node is not let in: if it is to be, it has to be in the "
                    "access file that the process at the other end was started with; that is "
                    "tried again every %d s",
                    notice.again_ms // 1_000,
                    extra={"role": self._role.name, "endpoint": notice.endpoint},
                )
            case TwinHeard():
                facts = {"role": self._role.name, "endpoint": notice.endpoint}
                log.error(
                    "another node has the address of this one, its directory was copied: both "
                    "count as one; end one of them and empty its directory",
                    extra=facts,
                )
            case Company():
                self._meet(side, notice)

    def _meet(self, side: S, company: Company) -> None:
        """Say when nobody reads what is said in a mesh, and when somebody does again."""
        if company is Company.OTHER:
            self._unread.add(side)
            log.warning(
                "all nodes heard of write as the C implementation does, and would break at what "
                "this one sends: it says nothing until one of its own kind is there; if the "
                "cluster is theirs, say wire libdafka (--wire, wire= in Python, wire: in the "
                "topology)",
                extra={"role": self._role.name},
            )
        elif side in self._unread:
            self._unread.discard(side)
            log.warning("a node of its own kind is there", extra={"role": self._role.name})
        metrics.UNREAD.labels(self._role.name, self._address).set(len(self._unread))

    def _tower(self, tower: str, *, away: bool) -> None:
        labels = self._role.name, self._address, tower
        if away:
            self.away |= {tower}
            metrics.TOWERS_AWAY.labels(*labels).set(1)
        else:
            self.away -= {tower}
            metrics.TOWERS_AWAY.remove(*labels)

    def _drop(self, dropped: Dropped) -> None:
        metrics.count_dropped(self._role.name, dropped.reason)

    def _lose(self, lost: Lost) -> None:
        """Report what nobody has any more. From 0 on it is only where the log starts by now."""
        place = {
            "topic": lost.partition.topic,
            "address": lost.partition.address,
            "start": lost.start,
            "end": lost.end,
        }
        if lost.start == 0:
            log.info("partition begins at its log start", extra=place)
            return
        metrics.LOST.labels(self._role.name).inc(lost.end - lost.start)
        log.warning("records skipped: no store has them any more", extra=place)

    def _wake_due(self, now_ms: int) -> None:
        due_ms = self._role.wakeup_ms()
        if due_ms is not None and due_ms <= now_ms:
            self.feed(self._first, Woke())
        self._wake_meshes(now_ms)

    def _wake_meshes(self, now_ms: int, *, first: bool = False) -> None:
        for side, mesh in self._meshes.items():
            due_ms = mesh.wakeup_ms()
            if first or (due_ms is not None and due_ms <= now_ms):
                self.take(side, mesh.wake(now_ms))
                metrics.PEERS.labels(self._role.name, self._address).set(
                    sum(each.peers for each in self._meshes.values())
                )
