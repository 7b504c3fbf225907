"""The loop: wait, hand events to the machine, perform its effects. No decisions of its own."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from dafka.errors import DafkaError
from dafka.process import metrics
from dafka.process.clock import now_ms, wall_ms
from dafka.protocol.effects import Dropped, Listen, Lost, Publish, Unlisten
from dafka.protocol.events import Received, TurnEnded, Woke
from dafka.protocol.machine import earliest
from dafka.protocol.presence import Disconnect, TowerAway, TowerBack
from dafka.transport.mesh import Mesh, Notice
from dafka.transport.sockets import Poller
from dafka.wire import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.protocol.events import Event
    from dafka.transport.sockets import Pollable, Socket

S = TypeVar("S")
"""How a node tells its meshes apart."""

E = TypeVar("E")
"""Events of its own that a role has beside those of `dafka.protocol`; `Never` if it has none."""

log = logging.getLogger(__name__)

IDLE_MS = 1_000
"""Longest sleep; beacons are due at this interval anyway."""

SHUTDOWN_MS = 5_000
"""How long `stop` waits for the thread, whatever it is doing."""

STUCK_MS = 30_000
"""A loop that has not turned for this long is called stuck; it turns once a second when idle."""

_BATCHES = (
    messages.Records,
    messages.RecordMessage,
    messages.DirectRecords,
    messages.DirectRecord,
)


class NodeFailedError(DafkaError):
    """A node's thread ended with an error; its cause is `__cause__`."""


class Role(Protocol[S, E]):
    """What lives in a node: a machine, and the shell of its own effects."""

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


class Node(Generic[S, E]):
    """A role in its thread.

    Args:
        role: What lives here.
        address: Its identity, for the metrics.
        meshes: Its meshes by side. Opened by the caller, used and closed by the node's thread.
        linger_ms: How long messages already published may take to leave when it stops.
    """

    def __init__(
        self, role: Role[S, E], address: str, meshes: Mapping[S, Mesh], linger_ms: int = 200
    ) -> None:
        self._role = role
        self._address = address
        self._meshes = dict(meshes)
        self._linger_ms = linger_ms
        self._taken_in = metrics.traffic(role.name, "in")
        self._sent_out = metrics.traffic(role.name, "out")
        self._first = next(iter(self._meshes))
        self._inbox: deque[tuple[S, Event | E]] = deque()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake_pending = False
        self._woken = False
        self._stopping = False
        self._stopped = False
        self._thread = threading.Thread(target=self._main, name=f"dafka-{role.name}", daemon=True)
        self._turned_ms = now_ms()
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def post(self, side: S, event: Event | E) -> None:
        """Hand an event over from another thread."""
        self._inbox.append((side, event))
        self.wake()

    def wake(self) -> None:
        """Make the loop look at its inbox and timers now; free when it is about to anyway."""
        if self._wake_pending or self._stopped:
            return
        self._wake_pending = True
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            return  # full: it will wake all the same
        except BrokenPipeError:
            return  # the thread has ended

    def stop(self) -> None:
        """Let the thread handle what is posted and end; wait for that, at most `SHUTDOWN_MS`."""
        self._stopping = True
        self.wake()
        self._thread.join(SHUTDOWN_MS / 1_000)
        if not self._stopped and not self._thread.is_alive():
            self._stopped = True
            os.close(self._wake_write)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread to end by itself; True if it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def check(self) -> None:
        """Complain if the thread has failed.

        Raises:
            NodeFailedError: It has; the cause says why.
        """
        if self.failure is not None:
            raise NodeFailedError(f"{self._role.name} has failed: {self.failure}") from self.failure

    def unwell(self) -> str:
        """Why its loop does not turn, for people; empty if it does."""
        if self.failure is not None:
            return f"{self._role.name} has failed: {self.failure}"
        if not self._thread.is_alive():
            return f"{self._role.name} has ended"
        silent_ms = now_ms() - self._turned_ms
        if silent_ms > STUCK_MS:
            return f"{self._role.name} has not turned for {silent_ms // 1_000} s"
        return ""

    def peers(self, side: S) -> int:
        """How many nodes it is connected to in one of its meshes."""
        return self._meshes[side].peers

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error
            log.critical("node failed", extra={"role": self._role.name}, exc_info=True)
        finally:
            self._role.close()
            for mesh in self._meshes.values():
                mesh.close(self._linger_ms)
            metrics.PEERS.remove(self._role.name, self._address)
            os.close(self._wake_read)

    def _run(self) -> None:
        poller = Poller()
        poller.add(self._wake_read, self._drain_wakes)
        for side, mesh in self._meshes.items():
            for socket in mesh.pollable:
                poller.add(socket, partial(self._receive, side, mesh, socket))
        for pollable, handler in self._role.pollable().items():
            poller.add(pollable, partial(self._complete, handler))
        self._feed(self._first, Woke())
        self._wake_due(now_ms())
        stopping = False
        while not stopping:
            # From here on `wake` writes to the pipe; what came before is seen by the next line.
            self._wake_pending = False
            due_ms = self._due_ms()
            poller.turn(0 if self._inbox or self._stopping else _until(due_ms))
            self._wake_pending = True
            self._turned_ms = now_ms()
            # Read before the inbox is emptied: what was posted before `stop` is still handled.
            stopping = self._stopping
            # Whoever has woken it may have made something due.
            if self._woken or (due_ms is not None and due_ms <= self._turned_ms):
                self._woken = False
                self._wake_due(self._turned_ms)
            while self._inbox:
                self._feed(*self._inbox.popleft())
            self._taken_in.tell()
            self._feed(self._first, TurnEnded())
            for mesh in self._meshes.values():
                mesh.flush()
            self._sent_out.tell()

    def _receive(self, side: S, mesh: Mesh, socket: Socket) -> None:
        for event in mesh.receive(socket, now_ms(), wall_ms()):
            if isinstance(event, Received):
                message = event.message
                if isinstance(message, _BATCHES):
                    self._taken_in.add(message.count, len(message.content))
            elif isinstance(event, Notice):
                self._notice(event)
                continue
            self._feed(side, event)

    def _complete(self, handler: Callable[[], Iterable[tuple[S, Event | E]]]) -> None:
        """Something else than a mesh is readable; the role says which events that makes."""
        for side, event in handler():
            self._feed(side, event)

    def _feed(self, side: S, event: Event | E) -> None:
        """Hand an event to the machine and perform what it asks for, to the end."""
        pending: list[tuple[S, Event | E]] = [(side, event)]
        for happened in pending:  # which grows on the way
            for effect_side, effect in self._role.handle(*happened, now_ms()):
                completed = self._perform(effect_side, effect)
                if completed is not None:
                    pending.append((effect_side, completed))

    def _perform(self, side: S, effect: object) -> Event | E | None:
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

    def _notice(self, notice: Notice) -> None:
        """Count or say what an operator should know of a mesh."""
        match notice:
            case Dropped():
                self._drop(notice)
            case Disconnect():
                metrics.PEERS_LEFT.labels(self._role.name).inc()
            case TowerAway():
                log.warning(
                    "tower is not heard: %s; start it or correct the endpoint, this node keeps "
                    "looking for it",
                    "new nodes are found through the others"
                    if notice.heard
                    else "no node is found until one is heard, those found stay connected",
                    extra={"role": self._role.name, "tower": notice.tower},
                )
            case TowerBack():
                facts = {"role": self._role.name, "tower": notice.tower}
                log.warning("tower is heard", extra=facts)

    def _drop(self, dropped: Dropped) -> None:
        metrics.count_dropped(self._role.name, dropped.reason)

    def _lose(self, lost: Lost) -> None:
        """Report what nobody has any more. From 0 on it is only where the log starts by now."""
        place = {
            "topic": lost.partition.topic,
            "partition": lost.partition.address,
            "start": lost.start,
            "end": lost.end,
        }
        if lost.start == 0:
            log.info("partition begins at its log start", extra=place)
            return
        metrics.LOST.labels(self._role.name).inc(lost.end - lost.start)
        log.warning("records skipped: no store has them any more", extra=place)

    def _wake_due(self, now: int) -> None:
        due_ms = self._role.wakeup_ms()
        if due_ms is not None and due_ms <= now:
            self._feed(self._first, Woke())
        for mesh in self._meshes.values():
            due_ms = mesh.wakeup_ms()
            if due_ms is None or due_ms <= now:
                for notice in mesh.wake(now):
                    self._notice(notice)
                metrics.PEERS.labels(self._role.name, self._address).set(
                    sum(each.peers for each in self._meshes.values())
                )

    def _due_ms(self) -> int | None:
        """When the role or a mesh is to be woken first."""
        meshes = [mesh.wakeup_ms() for mesh in self._meshes.values()]
        return earliest(self._role.wakeup_ms(), *meshes)

    def _drain_wakes(self) -> None:
        os.read(self._wake_read, 4_096)
        self._woken = True


def _until(due_ms: int | None) -> int:
    """How long to sleep, in milliseconds."""
    return IDLE_MS if due_ms is None else max(0, min(due_ms - now_ms(), IDLE_MS))
