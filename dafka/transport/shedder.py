"""This process's thread that cuts connections: who fills its memory (`shedding.py`), and others.

A thread of its own, as the one that a socket belongs to may sit in one call of ZeroMQ for seconds.
What it needs to know the kernel says: how large the process is, what each connection has received.
It ends a connection as the network does, since ZeroMQ has no call for that: a peer that did nothing
wrong connects again, and asks for what it missed.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

import zmq

from dafka.process import metrics
from dafka.process.clock import now_ms
from dafka.process.memory import give_back_freed_memory, keep_little
from dafka.transport.descriptors import NONE_LEFT, Descriptors
from dafka.transport.doors import ShutOut, keep_out
from dafka.transport.shedding import Shedding

if TYPE_CHECKING:
    from dafka.transport.shedding import Cut, NamesBound, SheddingBounds, WatchedConnection

log = logging.getLogger(__name__)

TICK_S = 0.03
"""How often to look at the process's size: in that time a peer can fill some tens of megabytes."""

WATCHING_S = 0.005
"""How often to look at connections while it grows."""

CALM_S = 0.01
"""How often to look at its size when it has grown, and grows no more."""

WATCHING_SHARE = 4
"""So many times as long as a look took of a processor, nothing is done after it. Not by the clock:
the busier a machine, the more rarely it would be looked, and the more came in between."""

CALM_SHARE = 40
"""The same as long as nothing says that somebody is filling memory just now: a process that has
grown by what it does would else pay for a flood that is not there."""

CALM_LOOK_MS_MAX = 1_000
"""How often to look then at least."""

IDLE_LOOK_MS = 5_000
"""How often to look at connections when it has not grown: what they received is known then."""

TRIM_MS = 500
"""How often freed memory is given back to the system, where that is due."""

TOLD_EVERY_MS = 1_000
"""One line of the log in that time: who is cut may come again at once."""

DISCARDED_BYTES_MAX = 64 * 1024 * 1024
"""What is taken off the kernel of a connection that is cut, at most."""

REFUSED_MAX = 1_000
"""Subscriptions of one key that are not permitted, while the process is watched."""

_CLOSED = errno.EBADF, errno.ENOTSOCK
"""What the kernel says of a socket that was closed meanwhile."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Looping(Protocol):
    """A loop that takes messages: `dafka.transport.poller.Poller`."""

    turns: int
    """Begun so far."""
    waiting: bool
    """Whether it is in ZeroMQ's poll."""
    thread: threading.Thread | None
    """Which runs it, once it runs."""


@dataclass(slots=True)
class _Refused:
    """Subscriptions of one key that were not permitted."""

    count: int = 0
    descriptors: set[int] = field(default_factory=set)


class Shedder:
    """Watches the sockets that are bound in this process, and the peers it is connected to.

    Args:
        bounds: When somebody is cut.
    """

    def __init__(self, bounds: SheddingBounds | None = None) -> None:
        self.bounds = bounds
        self.watching = False
        """Whether it wants to be told what is taken."""
        self._taken: set[int] = set()
        self._refused: dict[str, _Refused] = {}
        """By key, since it watches."""
        self._due: dict[int, str] = {}
        """See `cut`."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bound: dict[zmq.Socket[bytes], tuple[int, tuple[NamesBound, int]]] = {}
        """With their ports, and what `bound` was told of each."""
        self._peers: Counter[str] = Counter()
        """Endpoints that are connected to."""
        self._loops: WeakKeyDictionary[Looping, int] = WeakKeyDictionary()
        """With their turns when all had settled last."""

    def bound(self, listening: zmq.Socket[bytes], names: NamesBound, message_max: int) -> None:
        """Watch who comes in at a socket of TCP, until it is closed.

        Args:
            listening: The socket, bound.
            names: How many subscriptions may be sent to it; none if peers send others.
            message_max: Bytes of the largest of those, with some that may be on their way.
        """
        port = int(listening.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        with self._lock:
            self._bound[listening] = port, (names, message_max)
            if self._thread is None or not self._thread.is_alive():
                self._start()

    def connected(self, endpoint: str) -> None:
        """Watch a peer that is connected to, until `left`."""
        with self._lock:
            self._peers[endpoint] += 1

    def left(self, endpoint: str) -> None:
        """Take one `connected` back."""
        with self._lock:
            self._peers[endpoint] -= 1
            if not self._peers[endpoint]:
                del self._peers[endpoint]

    def loops(self, loop: Looping) -> None:
        """Remember who takes messages."""
        with self._lock:
            self._loops[loop] = 0

    def took(self, frame: zmq.Frame) -> None:
        """Note where a whole message came from; for when it is `watching`."""
        with suppress(zmq.ZMQError):  # of inproc: it has no descriptor
            self._taken.add(int(frame.get(zmq.SRCFD)))

    def refused(self, frame: zmq.Frame, key: str) -> bool:
        """Note a subscription that is not permitted; for when it is `watching`.

        Returns:
            Whether there were so many that the holder of the key shall not come in again soon.
        """
        known = self._refused.setdefault(key, _Refused())
        known.count += 1
        known.descriptors.add(int(frame.get(zmq.SRCFD)))
        return known.count >= REFUSED_MAX

    def cut(self, frame: zmq.Frame, reason: str) -> None:
        """Have the connection cut that a message came on, soon, however large the process is.

        Args:
            frame: Of the message; one that did not come by TCP is left.
            reason: Of the metric.
        """
        if self._thread is None or not self._thread.is_alive():
            return  # nobody would take it off
        # Of inproc it has no descriptor, and soon another connection may have it: so by number.
        with suppress(zmq.ZMQError, OSError), self._lock:
            self._due[os.fstat(int(frame.get(zmq.SRCFD))).st_ino] = reason

    def due(self) -> dict[int, str]:
        """Numbers of connections that are to be cut since the last call, with the reason."""
        with self._lock:
            due, self._due = self._due, {}
        return due

    def _start(self) -> None:
        if not Path("/proc/self/statm").exists():
            log.warning("floods of subscriptions and endless messages are bounded on Linux only")
            return
        self._thread = threading.Thread(target=self._run, name="dafka-shedder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            _Lookout(self).run()
        except Exception:
            log.exception("nobody is cut any more that fills memory")
        finally:
            self.watching = False

    def end(self) -> bool:
        """Forget what is closed; whether nothing is left, and the thread may end."""
        with self._lock:
            self._bound = {one: way for one, way in self._bound.items() if not one.closed}
            if not self._bound:
                self._thread = None
            return not self._bound

    def ways(self) -> tuple[dict[int, tuple[NamesBound, int]], set[str]]:
        """Ports that are bound, with what `bound` was told of each; and peers."""
        with self._lock:
            return dict(self._bound.values()), set(self._peers)

    def taken(self) -> set[int]:
        """Descriptors that something was taken from since the last call."""
        taken, self._taken = self._taken, set()
        return taken

    def refusing(self) -> set[int]:
        """Descriptors that too many subscriptions came from that are not permitted."""
        found = [one for one in list(self._refused.values()) if one.count >= REFUSED_MAX]
        return {descriptor for one in found for descriptor in list(one.descriptors)}

    def rest(self) -> None:
        """End to watch."""
        self.watching = False
        self._refused = {}

    def settled(self) -> bool:
        """Whether each loop has turned, or has nothing to do, since this was last so."""
        with self._lock:
            loops = list(self._loops.items())
        now: dict[Looping, int] = {}
        for loop, turns in loops:
            now[loop] = loop.turns
            if loop.thread is None or not loop.thread.is_alive() or loop.turns > turns + 1:
                continue
            # In its poll ZeroMQ may be at work for seconds: it reads subscriptions there.
            if not (loop.waiting and _asleep(loop.thread.native_id)):
                return False
        with self._lock:
            self._loops.update(now)
        return True


class _Lookout:
    """What the thread does."""

    def __init__(self, shedder: Shedder) -> None:
        self._shedder = shedder
        self._shedding = Shedding(shedder.bounds)
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._spare = os.dup(self._statm)
        """Becomes that of who is cut, who may have taken all others."""
        self._descriptors = Descriptors()
        self._shut_out = ShutOut()
        self._kept_out: tuple[str, ...] = ()
        """As the kernel was told last."""
        self._complained = False
        self._wasteful = False
        """Whether heaps keep little at present."""
        self._looked_ms = self._trim_ms = self._told_ms = 0
        self._look_s = 0.0

    def run(self) -> None:
        """Look and cut until no socket is bound."""
        try:
            while not self._shedder.end():
                time.sleep(self.tick(now_ms()))
        finally:
            if self._wasteful:
                keep_little(False)
            os.close(self._statm)
            os.close(self._spare)
            self._descriptors.close()

    def tick(self, now: int) -> float:
        """Look at the process's size, and at connections if that is due.

        Returns:
            Seconds to rest.
        """
        _, resident, shared, *_ = os.pread(self._statm, 128, 0).split()
        self._shedding.resize((int(resident) - int(shared)) * _PAGE_BYTES, now)
        watching = self._shedding.watching
        if watching:
            self._shedder.watching = True
        elif self._shedder.watching:
            self._shedder.rest()
        if due := self._shedder.due():
            self._cut_due(due, now)
        rest_s = CALM_S if watching else TICK_S
        if self._is_due(now):
            self._look(now)
            rest_s = max(WATCHING_S, WATCHING_SHARE * self._look_s)
        self._keep_out(self._shut_out.hosts(now))
        self._give_back(now)
        return rest_s

    def _give_back(self, now: int) -> None:
        wasteful = self._shedding.wasteful
        if wasteful != self._wasteful:
            self._wasteful = wasteful
            keep_little(wasteful)
        if wasteful and self._trim_ms <= now:
            self._trim_ms = now + TRIM_MS
            give_back_freed_memory()

    def _is_due(self, now: int) -> bool:
        """Whether to look at connections now."""
        if not self._shedding.watching:
            return now >= self._looked_ms + IDLE_LOOK_MS
        calm_ms = min(CALM_LOOK_MS_MAX, round(CALM_SHARE * self._look_s * 1_000))
        return self._shedding.hurried or now >= self._looked_ms + calm_ms

    def _look(self, now: int) -> None:
        self._looked_ms = now
        taken = self._shedder.taken()
        settled = self._shedding.watching and self._shedder.settled()
        refused = self._shedder.refusing()
        began = time.thread_time()
        there = self._descriptors.connections(*self._shedder.ways())
        cut = self._shedding.look(there, taken, refused, settled=settled)
        self._look_s = time.thread_time() - began
        if cut is not None and self._end(cut.connection):
            if cut.connection.came:
                self._shut_out.add(_host(cut.connection), now)
            self._tell(cut, now)

    def _cut_due(self, due: dict[int, str], now: int) -> None:
        """Cut who has sent a publisher what it cannot use; not what has its descriptor by now."""
        there = list(self._descriptors.connections(*self._shedder.ways()))
        for one in there:
            reason = due.get(one.number)
            if reason is not None and one.names.connection and self._end(one):
                metrics.CUT.labels(reason).inc()
                log.warning("connection cut", extra={"peer": one.peer, "reason": reason})

    def _end(self, connection: WatchedConnection) -> bool:
        try:
            os.dup2(connection.descriptor, self._spare, inheritable=False)
            return _end(self._spare, connection.number)
        except OSError:
            return False
        finally:
            os.dup2(self._statm, self._spare, inheritable=False)

    def _keep_out(self, hosts: tuple[str, ...]) -> None:
        if hosts == self._kept_out:
            return
        self._kept_out = hosts
        ports, _ = self._shedder.ways()
        for descriptor in self._descriptors.listening(ports.keys()):
            try:
                keep_out(descriptor, hosts)
            except OSError as error:
                if error.errno not in _CLOSED and not self._complained:
                    self._complained = True
                    says = "who is cut for filling memory can come again at once"
                    log.warning("%s: the kernel refuses the filter: %s", says, error)

    def _tell(self, cut: Cut, now: int) -> None:
        metrics.CUT.labels(cut.reason).inc()
        if now < self._told_ms:
            return
        self._told_ms = now + TOLD_EVERY_MS
        log.warning(
            "connection cut, it fills this process's memory",
            extra={
                "peer": cut.connection.peer,
                "reason": cut.reason,
                "received_bytes": cut.received,
                "grown_bytes": self._shedding.grown,
            },
        )


def _end(descriptor: int, number: int) -> bool:
    """Cut a connection, and throw away what the kernel still has of it; False if it is another.

    Raises:
        OSError: It has gone by itself.
    """
    if os.fstat(descriptor).st_ino != number:
        return False
    opened = socket.socket(fileno=descriptor)
    try:
        opened.shutdown(socket.SHUT_RDWR)
        left = DISCARDED_BYTES_MAX
        with suppress(OSError):  # nothing is left
            while left > 0 and (got := opened.recv(1 << 18, socket.MSG_DONTWAIT)):
                left -= len(got)
    finally:
        opened.detach()
    return True


def _host(connection: WatchedConnection) -> str:
    return connection.peer.removeprefix("tcp://").rpartition(":")[0].strip("[]")


def _asleep(thread: int | None) -> bool:
    try:
        status = Path(f"/proc/self/task/{thread}/stat").read_bytes()
    except OSError as error:
        return error.errno not in NONE_LEFT  # it has ended
    return status[status.rindex(b")") + 2 :][:1] == b"S"


shedder = Shedder()
"""That of this process: its memory is one."""
