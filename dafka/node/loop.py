"""A node's thread: it waits, then takes a turn; see `dafka.node.turn`."""

from __future__ import annotations

import logging
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Generic

from dafka.errors import DafkaError, MisuseError
from dafka.node.turn import E, S, Turn
from dafka.process.clock import CLOCK, now_ms, wall_ms
from dafka.transport.poller import Poller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.node.turn import Role
    from dafka.protocol.events import Event
    from dafka.transport.mesh import Mesh
    from dafka.transport.sockets import Socket

log = logging.getLogger(__name__)

IDLE_MS = 1_000
"""Longest sleep; beacons are due at this interval anyway."""

SHUTDOWN_MS = 5_000
"""How long `stop` waits for the thread, whatever it is doing."""

TAKE_IN_PARTS = 4
"""For such a part of the time that the end of the last turn took, more is taken in than once: a
slow disk takes as long for a few batches as for many, and who sends them does not wait."""

STUCK_MS = 30_000
"""A loop that has not turned for this long is called stuck; it turns once a second when idle."""


class NodeFailedError(DafkaError):
    """A node's thread ended with an error; its cause is `__cause__`."""


class Node(Generic[S, E]):
    """A role in its thread: waits, and lets the turn do the rest.

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
        self._meshes = dict(meshes)
        self._linger_ms = linger_ms
        self._turn = Turn(role, address, self._meshes, CLOCK, self.wake)
        self.post = self._turn.post
        """Hands an event over from another thread."""
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake_pending = False
        self._woken = False
        self._stopping = False
        self._stopped = False
        self._thread = threading.Thread(target=self._main, name=f"dafka-{role.name}", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

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
        silent_ms = now_ms() - self._turn.turned_ms
        if silent_ms > STUCK_MS:
            return f"{self._role.name} has not turned for {silent_ms // 1_000} s"
        return ""

    @property
    def turned_ms(self) -> int:
        """When its loop has turned last, on the monotonic clock."""
        return self._turn.turned_ms

    @property
    def towers_away(self) -> frozenset[str]:
        """The towers that it does not hear, of all its meshes."""
        return self._turn.away

    def peers(self, side: S) -> int:
        """How many nodes it is connected to in one of its meshes."""
        return self._meshes[side].peers

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error
            told = isinstance(error, MisuseError)  # says what to do; where it was raised does not
            facts = {"role": self._role.name} | ({"error": str(error)} if told else {})
            log.critical("node failed", extra=facts, exc_info=not told)
        finally:
            self._turn.close(self._linger_ms)
            os.close(self._wake_read)

    def _run(self) -> None:
        with Poller() as poller:
            self._take_turns(poller)

    def _take_turns(self, poller: Poller) -> None:
        turn = self._turn
        poller.add(self._wake_read, self._drain_wakes)
        for pollable, handler in self._role.pollable().items():
            poller.add(pollable, partial(self._complete, handler))
        turn.begin()
        stopping = False
        watched = {side: _Watched(poller, partial(self._receive, side)) for side in self._meshes}
        ended_s = 0.0

        def take_in(timeout_ms: int) -> bool:
            for side, mesh in self._meshes.items():
                watched[side].keep_up(mesh)
            return poller.turn(timeout_ms)

        while not stopping:
            # From here on `wake` writes to the pipe; what came before is seen by the next line.
            self._wake_pending = False
            due_ms = turn.due_ms()
            more = take_in(0 if turn.inbox or self._stopping else _until(due_ms))
            until_s = CLOCK.seconds() + ended_s / TAKE_IN_PARTS
            while more and CLOCK.seconds() < until_s:
                more = take_in(0)
            self._wake_pending = True
            # Read before the inbox is emptied: what was posted before `stop` is still handled.
            stopping = self._stopping
            # Whoever has woken it may have made something due.
            woken, self._woken = self._woken, False
            began_s = CLOCK.seconds()
            turn.end(woken=woken)
            ended_s = CLOCK.seconds() - began_s

    def _receive(self, side: S, mesh: Mesh, socket: Socket) -> None:
        self._turn.take(side, mesh.receive(socket, now_ms(), wall_ms()))

    def _complete(self, handler: Callable[[], Iterable[tuple[S, Event | E]]]) -> None:
        """Something else than a mesh is readable; the role says which events that makes."""
        self._turn.complete(handler())

    def _drain_wakes(self) -> None:
        os.read(self._wake_read, 4_096)
        self._woken = True


class _Watched:
    """The sockets of a mesh, in the poller: they change as peers come and go.

    Args:
        poller: Where.
        receive: Called with the mesh and its socket that is readable.
    """

    def __init__(self, poller: Poller, receive: Callable[[Mesh, Socket], None]) -> None:
        self._poller = poller
        self._receive = receive
        self._sockets: set[Socket] = set()
        self._changed = -1

    def keep_up(self, mesh: Mesh) -> None:
        """See that all sockets of the mesh are polled, and no others."""
        if mesh.changed == self._changed:
            return
        self._changed = mesh.changed
        there, of_keys = mesh.pollable, set(mesh.of_keys)
        for socket in self._sockets.difference(there):
            self._poller.remove(socket)
        for socket in there:
            if socket not in self._sockets:
                add = self._poller.add_sleeper if socket in of_keys else self._poller.add
                add(socket, partial(self._receive, mesh, socket))
        self._poller.used(of_keys)
        self._sockets = set(there)


def _until(due_ms: int | None) -> int:
    """How long to sleep, in milliseconds."""
    return IDLE_MS if due_ms is None else max(0, min(due_ms - now_ms(), IDLE_MS))
