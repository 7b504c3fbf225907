"""The one place where ZeroMQ sockets are made and used: bounds, whole messages, who lives.

Every bound of a socket is set here. High-water marks count messages and ours carry batches, so they
are chosen to keep mark x batch size within tens of megabytes a peer. A message is sent and received
with all its frames or not at all; which connections live is what ZeroMQ itself reports.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import resource
import socket as system
import time
from contextlib import contextmanager
from enum import Enum
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from dafka.errors import MisuseError
from dafka.limits import (
    FRAME_BYTES_MAX,
    HELLO_TOPICS_MAX,
    QUESTION_BYTES_MAX,
    STORE_PEERS_MAX,
)
from dafka.model import is_address
from dafka.transport import sockets
from dafka.transport.shedder import shedder
from dafka.transport.shedding import NO_NAMES, NamesBound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Socket = zmq.Socket[bytes]
    Pollable = Socket | int
    """A ZeroMQ socket or a file descriptor."""

SILENCE_S_MAX = 25
"""A connection whose other end acknowledges nothing for so long is gone: neither a probe, nor what
was sent to it, nor that it has room for more."""

PROBE_AFTER_S = 10
"""So long a connection may be idle before it is probed."""

PROBE_EVERY_S = 5

CURVE_BYTES = 64
"""What encryption adds to a frame, at most; it counts for the bound of one that is received."""

LIBZMQ_MIN = (4, 3, 4)
"""Older ones can be crashed or filled from outside (CVE-2021-20236 and before)."""

PUBLISH_MARK = 1_000
"""Batches queued for one slow peer; more is dropped for it, and it fetches later."""

SINGLES_MARK = 100_000
"""Instead, where records travel one by one: the answer to one FETCH of the C implementation fits,
which asks for so many, and once. The answer has 16 MiB at most. Live records have no such bound: a
peer that does not read costs their size times this, 100 MB at 1 kB. Fewer would make catching up
that much slower, as what is dropped is asked for again a second later."""

RECEIVE_MARK = 1_000
"""Batches, or single records, queued from one peer before TCP pushes back; nothing is lost then."""

CONTROL_MARK = 10_000
"""Beacons, and subscriptions that are sent; with `NAME_BYTES_MAX`, 10 MB for one peer."""

NAMES_MARK = 32
"""Subscriptions queued from one peer: what is kept of them is thirty times as large, so what is on
its way when a flood is cut must be little."""

NAMES = NamesBound(6 * 1024 * 1024, 2 * 1024 * 1024)
"""Subscriptions that a node with keys may get: of a consumer of 10,000 topics of 58 characters more
than 4 MiB were seen, as it asks for each thrice and takes some back while it catches up."""

OPEN_NAMES = NamesBound(512 * 1024, 512 * 1024)
"""The same without keys, by the same reckoning with `LISTENED_BYTES_MAX`."""

BEACONS_BYTES_MAX = 64 * 1024
"""What a tower may get from a node before there is a whole beacon: one has some 200 bytes, but
thousands may be on their way."""

TOWER_NAMES = NamesBound(16 * 1024, 2 * 1024 * 1024)
"""The same of a tower: a node has two."""

TOWER_NAME_BYTES_MAX = 16
"""One of them. Whoever sends longer ones is disconnected before they are kept."""

NAMES_BUFFER_BYTES = 64 * 1024
"""What the kernel takes in of them beside, for the same reason."""

SUBSCRIPTIONS_MARK = 3 * HELLO_TOPICS_MAX + CONTROL_MARK
"""Subscriptions on their way to a new peer: of a consumer three a topic. ZeroMQ drops what is
beyond, without a word and for good."""

NAME_BYTES_MAX = 1_024
"""A frame of a beacon, or a subscription: a name and a few octets. Whoever sends more is
disconnected."""

QUESTION_MARK = 16
"""Questions queued from or to one connection; with `QUESTION_BYTES_MAX` it can take 16 MiB."""

QUESTIONS_BUFFER_BYTES = 32 * 1024
"""What the kernel takes in of them beside: all are answered, also those of who has left since."""

ANSWER_MARK = 2 * QUESTION_MARK
"""Answers queued for one peer that does not read them, so those to all that it may have asked at
once; more is dropped for it. How many bytes they have is bounded by `Unread`."""

BACKLOG = 4_096
"""Connections that wait to be taken in. Of thousands of nodes that start at once the kernel drops
what is beyond, and each of those tries again after 1, 3, 7 … seconds; ZeroMQ's default is 100."""

ADMITTING_MS = 2_000
"""How long the handshake of who comes in may take; who has said nothing by then is disconnected."""

REACHING_MS = 10_000
"""The same of who is connected to. It begins before the other end takes the connection in, where
thousands may wait. Who gave up sooner would come again, to the end of the queue, and what he left
there would be taken in too: of 5,000 nodes on a busy machine each came six times."""

SOCKETS_MAX = 16_384
"""Of one process: some 2,700 nodes. ZeroMQ's default of 1,023 is reached with 170."""

_MAIN_THREAD, _NAMES_THREAD = 1, 2
"""Masks of ZeroMQ's two IO threads. It looks names up on the thread of the connection, at every
attempt, and waits there for a name server that does not answer. So connections to names, which only
towers and query ports have, share no thread with the others."""

BIND_S = 0.5
"""How long a taken endpoint is waited for."""

BIND_AGAIN_S = 0.02

REFUSED_WITHIN_S = 0.3
"""A machine that is there refuses within a round trip."""

_MAPPED = re.compile(r"\[::ffff:([0-9.]+)\]")

if zmq.zmq_version_info() < LIBZMQ_MIN:
    raise ImportError(f"libzmq {zmq.zmq_version()} is too old: at least 4.3.4 is needed")


class _Context(zmq.Context[zmq.Socket[bytes]]):
    """Of this process's nodes. The application's own has other threads, and another ZAP domain."""

    _instance = None  # else the base class's would be found


def context() -> zmq.Context[zmq.Socket[bytes]]:
    """Return the context that all sockets of this process are in; a forked one has its own."""
    return _Context.instance(io_threads=2)


def numeric(host: str) -> str:
    """The address that a host's name stands for here, in brackets if it is one of IPv6.

    ZeroMQ looks names up where it connects, not where it binds. A name that cannot be looked up is
    returned as it is: it may be an interface's, and else ZeroMQ says that there is no such device.
    """
    try:
        found = system.getaddrinfo(host.strip("[]"), None, type=system.SOCK_STREAM)
    except (OSError, UnicodeError):
        return host
    address = str(found[0][4][0])
    return f"[{address}]" if ":" in address else address


def unmapped(endpoint: str) -> str:
    """An endpoint as nodes write it: sockets for both families show IPv4 as a part of IPv6."""
    return _MAPPED.sub(r"\1", endpoint)


def bind(
    socket: zmq.Socket[bytes],
    endpoint: str,
    names: NamesBound = NO_NAMES,
    message_max: int = FRAME_BYTES_MAX,
) -> None:
    """Bind a socket, waiting a moment for an endpoint that is taken.

    A host's name is looked up, and bound is the first address it has. A path of ipc is taken only
    if nobody listens there any more.

    ZeroMQ closes sockets in the background: an endpoint that this process, or one that was just
    stopped, has given up may be taken for some milliseconds more.

    Args:
        socket: Any.
        endpoint: Where.
        names: Of a publisher, how many subscriptions may come before a peer counts as one that
            fills this process's memory.
        message_max: Of others, bytes of the largest message, for the same reason.

    Raises:
        zmq.ZMQError: The endpoint stays taken, or cannot be bound at all.
    """
    if endpoint.startswith("tcp://"):
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        endpoint = f"tcp://{numeric(host)}:{port}"
    socket.set(zmq.HANDSHAKE_IVL, ADMITTING_MS)
    deadline = time.monotonic() + BIND_S
    while True:
        try:
            with _path_to_itself(endpoint):
                socket.bind(endpoint)
        except zmq.ZMQError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise
            time.sleep(BIND_AGAIN_S)
        else:
            break
    if endpoint.startswith("tcp://"):
        shedder.bound(socket, names, message_max)


def connect(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Connect a socket; to a name, where waiting for the name server stops nobody else.

    Raises:
        zmq.ZMQError: It is no endpoint.
    """
    host = endpoint.removeprefix("tcp://").rpartition(":")[0]
    named = endpoint.startswith("tcp://") and not is_address(host)
    socket.set(zmq.AFFINITY, _NAMES_THREAD if named else _MAIN_THREAD)
    socket.connect(endpoint)


def refuses(endpoint: str) -> bool:
    """Whether nobody listens at an endpoint: its machine says so, and that at once.

    False where nothing is said, and of what is no address of TCP: to look a name up may take long.
    """
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if not endpoint.startswith("tcp://") or not is_address(host):
        return False
    try:
        system.create_connection((host.strip("[]"), int(port)), REFUSED_WITHIN_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def store_peers_max() -> int:
    """How many nodes a store may connect to: each connects to it, too, and other files are open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return STORE_PEERS_MAX if files == resource.RLIM_INFINITY else min(files // 3, STORE_PEERS_MAX)


@contextmanager
def _path_to_itself(endpoint: str) -> Iterator[None]:
    """ZeroMQ takes a path away from whoever has it; it may only be a dead one's.

    Of several processes that look at once, the directory's lock lets one look and bind.
    """
    if not endpoint.startswith("ipc://"):
        yield
        return
    path = endpoint.removeprefix("ipc://")
    try:
        descriptor = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise zmq.ZMQError(error.errno) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with system.socket(system.AF_UNIX, system.SOCK_STREAM) as probe:
            if probe.connect_ex(path) == 0:
                raise zmq.ZMQError(errno.EADDRINUSE)
        yield
    except BlockingIOError as error:
        raise zmq.ZMQError(errno.EADDRINUSE) from error
    finally:
        os.close(descriptor)


def publisher(mark: int = PUBLISH_MARK) -> zmq.Socket[bytes]:
    """An XPUB that sees every subscription, also one that another peer has made before."""
    socket = _socket(zmq.XPUB, mark, NAMES_MARK, NAME_BYTES_MAX)
    socket.set(zmq.XPUB_VERBOSE, 1)
    socket.set(zmq.RCVBUF, NAMES_BUFFER_BYTES)
    return socket


def tower_publisher(*, secured: bool = False) -> zmq.Socket[bytes]:
    """The same of a tower. With keys names may be long: the bound is that of the handshake, too."""
    socket = publisher()
    if not secured:
        socket.set(zmq.MAXMSGSIZE, TOWER_NAME_BYTES_MAX + CURVE_BYTES)
    return socket


def subscriber() -> zmq.Socket[bytes]:
    """A SUB for many publishers."""
    return _socket(zmq.SUB, SUBSCRIPTIONS_MARK, RECEIVE_MARK)


def beacon_subscriber() -> zmq.Socket[bytes]:
    """A SUB for beacons."""
    return _socket(zmq.SUB, CONTROL_MARK, CONTROL_MARK, NAME_BYTES_MAX)


def beacon_publisher() -> zmq.Socket[bytes]:
    """A PUB towards towers."""
    return _socket(zmq.PUB, CONTROL_MARK, CONTROL_MARK, NAME_BYTES_MAX)


def router() -> zmq.Socket[bytes]:
    """A ROUTER that answers questions, and says so when an answer has nowhere to go."""
    socket = _socket(zmq.ROUTER, ANSWER_MARK, QUESTION_MARK, QUESTION_BYTES_MAX)
    socket.set(zmq.ROUTER_MANDATORY, 1)
    socket.set(zmq.RCVBUF, QUESTIONS_BUFFER_BYTES)
    return socket


def dealer() -> zmq.Socket[bytes]:
    """A DEALER that asks them, of a peer that is there: none pile up for one that is not."""
    socket = _socket(zmq.DEALER, QUESTION_MARK, ANSWER_MARK)
    socket.set(zmq.IMMEDIATE, 1)
    return socket


def monitor() -> zmq.Socket[bytes]:
    """A PAIR for what ZeroMQ reports of another socket, within the process.

    Were there a mark, ZeroMQ's IO thread would wait at it, and with it every socket. What piles up
    is bounded by how often peers can come back: once a second.
    """
    return _socket(zmq.PAIR, CONTROL_MARK, 0)


def _socket(
    kind: int, send_mark: int, receive_mark: int, frame_bytes_max: int = FRAME_BYTES_MAX
) -> zmq.Socket[bytes]:
    ours = context()
    ours.set(zmq.MAX_SOCKETS, SOCKETS_MAX)  # counts until the first is made
    with _enough_files():
        socket = ours.socket(kind)
    socket.set(zmq.SNDHWM, send_mark)
    socket.set(zmq.RCVHWM, receive_mark)
    socket.set(zmq.MAXMSGSIZE, frame_bytes_max + CURVE_BYTES)
    socket.set(zmq.HANDSHAKE_IVL, REACHING_MS)
    socket.set(zmq.BACKLOG, BACKLOG)
    socket.set(zmq.RECONNECT_IVL, 50)
    socket.set(zmq.RECONNECT_IVL_MAX, 1_000)
    # TCP finds out who is gone, and not ZeroMQ's heartbeats: at one that is due after a peer that
    # has filled its queue is gone, libzmq aborts the process (docs/adr/0019).
    socket.set(zmq.TCP_KEEPALIVE, 1)
    socket.set(zmq.TCP_KEEPALIVE_IDLE, PROBE_AFTER_S)
    socket.set(zmq.TCP_KEEPALIVE_INTVL, PROBE_EVERY_S)
    socket.set(zmq.TCP_KEEPALIVE_CNT, (SILENCE_S_MAX - PROBE_AFTER_S) // PROBE_EVERY_S)
    socket.set(zmq.TCP_MAXRT, SILENCE_S_MAX * 1_000)
    socket.set(zmq.IPV6, 1)
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.AFFINITY, _MAIN_THREAD)
    return socket


@contextmanager
def _enough_files() -> Iterator[None]:
    try:
        yield
    except zmq.ZMQError as error:
        if error.errno != errno.EMFILE:
            raise
        raise MisuseError(
            f"cannot open another socket: this process has {SOCKETS_MAX}, or all the files it may "
            "have (ulimit -n); run fewer nodes in it"
        ) from error


FRAMES_MAX = 4
"""Frames kept of one message. No message has more than three; a fourth makes it malformed."""


def send_frames(socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> None:
    """Send a message."""
    *first, last = frames
    for frame in first:
        socket.send(frame, zmq.SNDMORE)
    socket.send(last)


def send_at_once(
    socket: zmq.Socket[bytes], frames: Sequence[bytes], *, track: bool = False
) -> zmq.MessageTracker | None:
    """Send a message to a peer that has room for it, without waiting.

    ZeroMQ counts what a peer has read by what its IO thread reports, and looks at that once in a
    millisecond at most. Until then it takes who has read everything for full: it is asked to look.

    Returns:
        Whether the last frame has gone, if that is to be tracked; it is not copied then.

    Raises:
        zmq.ZMQError: The peer has gone, or has no room.
    """
    try:
        return _send(socket, frames, track)
    except zmq.Again:  # of the first frame: the others go where that has gone
        socket.get(zmq.EVENTS)
        return _send(socket, frames, track)


def _send(
    socket: zmq.Socket[bytes], frames: Sequence[bytes], track: bool
) -> zmq.MessageTracker | None:
    *first, last = frames
    for frame in first:
        socket.send(frame, zmq.NOBLOCK | zmq.SNDMORE)
    return socket.send(last, zmq.NOBLOCK, copy=not track, track=track)


def receive_frames(socket: zmq.Socket[bytes]) -> list[bytes] | None:
    """Take one whole message off a socket, or None if there is none.

    All its frames come at once, and at most `FRAMES_MAX` are kept; ZeroMQ had them all in memory.
    """
    # Not `recv_multipart`: it asks the socket after each frame whether there are more, which costs
    # as much as the frame. One that is not copied knows by itself.
    frames: list[bytes] = []
    try:
        while True:
            frame = socket.recv(zmq.NOBLOCK, copy=False)
            if len(frames) < FRAMES_MAX:
                frames.append(frame.bytes)
            if not frame.more:
                if shedder.watching:
                    shedder.took(frame)
                return frames
    except zmq.Again:
        return None


_names = count()


class ConnectionChange(Enum):
    """What has become of a connection."""

    ALIVE = "alive"
    """Both ends have agreed, with keys once they are proved."""
    GONE = "gone"
    REFUSED = "refused"
    """The other end does not let this one's key in. ZeroMQ tries no more."""


_CHANGES = {
    int(zmq.EVENT_HANDSHAKE_SUCCEEDED): ConnectionChange.ALIVE,
    int(zmq.EVENT_DISCONNECTED): ConnectionChange.GONE,
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): ConnectionChange.REFUSED,
}


class Connections:
    """Reports of one connecting socket's connections, from now on.

    Endpoints with a name are not known again: reported are addresses. Inproc reports nothing.

    Args:
        socket: Not connected yet.

    Raises:
        MisuseError: The process may open no more files.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        name = f"inproc://dafka.connections.{next(_names)}"
        self.socket = sockets.monitor()
        """Readable when there are changes."""
        try:
            with _enough_files():
                socket.monitor(name, sum(_CHANGES))
        except MisuseError:
            self.socket.close(0)
            raise
        self.socket.connect(name)

    def changes(self) -> Iterator[tuple[str, ConnectionChange]]:
        """Yield the endpoints whose connection has changed since the last call, and how."""
        while True:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            report = parse_monitor_message(frames)
            endpoint = sockets.unmapped(report["endpoint"].decode("utf-8", "replace"))
            yield endpoint, _CHANGES[report["event"]]

    def close(self) -> None:
        """Stop listening; before the socket itself is closed."""
        self._socket.monitor(None, 0)
        self.socket.close(0)
