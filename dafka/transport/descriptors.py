"""Which of this process's descriptors are connections to watch, and how much came on each.

It is asked up to 200 times a second by a process that may have thousands of other descriptors. So
what a descriptor is gets asked once, and again only when another file is there. That is told by
`fstat`: the link in `/proc` says the same, and costs three times as much.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat
import sys
import termios
from typing import TYPE_CHECKING, NamedTuple

from dafka.limits import FRAME_BYTES_MAX
from dafka.transport.shedding import NO_NAMES, WatchedConnection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set

    from dafka.transport.shedding import NamesBound

_RECEIVED_AT = 128
"""Where `struct tcp_info` of Linux has `tcpi_bytes_received`."""

_INFO_BYTES = _RECEIVED_AT + 8

NONE_LEFT = errno.EMFILE, errno.ENFILE
"""What the kernel says where no descriptor is left: then those are open that there may be."""

_NO_SOCKET = 0
"""In place of the number of a file that is none: those of other kinds may have a socket's."""


class _TcpEnds(NamedTuple):
    """Of a connection of TCP."""

    port: int
    """Of this end."""
    peer: str


class _Way(NamedTuple):
    """How a connection is watched, see `WatchedConnection`."""

    names: NamesBound
    message_max: int
    peer: str
    came: bool


class _Descriptor(NamedTuple):
    """What a descriptor is."""

    number: int
    """Of the socket, or `_NO_SOCKET`."""
    ends: _TcpEnds | None
    """None if it is no connection of TCP."""
    way: _Way | None
    """None if it is not ours, so far: a port or a peer may be told of after it is connected."""


class Descriptors:
    """Knows what each open descriptor is; so there is one entry for each of them, and no other."""

    def __init__(self) -> None:
        self._directory = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._known: dict[int, _Descriptor] = {}

    def close(self) -> None:
        """Look no more."""
        os.close(self._directory)

    def connections(
        self, ports: Mapping[int, tuple[NamesBound, int]], peers: Set[str]
    ) -> Iterator[WatchedConnection]:
        """Yield the connections that are ours.

        One that was ours stays so, also when its port or peer is not among these any more.

        Args:
            ports: That are bound here, with the `names` and `message_max` of who comes there.
            peers: Endpoints that are connected to.
        """
        before, self._known = self._known, {}
        for descriptor in self._open():
            try:
                known = _known(descriptor, before.get(descriptor), ports, peers)
                self._known[descriptor] = known
                if known.way is not None:
                    received = _received(descriptor)
                    if not known.way.names.connection:
                        received -= _waiting(descriptor)
                    yield WatchedConnection(known.number, descriptor, received, *known.way)
            except OSError:
                continue  # closed meanwhile, or not connected yet

    def listening(self, ports: Set[int]) -> Iterator[int]:
        """Yield the sockets that take connections in at these ports."""
        for descriptor in self._open():
            try:
                if _number(descriptor) != _NO_SOCKET and _listens_at(descriptor) in ports:
                    yield descriptor
            except OSError:
                continue  # closed meanwhile

    def _open(self) -> Iterable[int]:
        try:
            # By the descriptor, and without an object for each, this is four times as fast.
            return [int(name) for name in os.listdir(self._directory)]  # noqa: PTH208
        except OSError as error:
            if error.errno not in NONE_LEFT:
                raise
            return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _known(
    descriptor: int,
    before: _Descriptor | None,
    ports: Mapping[int, tuple[NamesBound, int]],
    peers: Set[str],
) -> _Descriptor:
    """What a descriptor is; asked anew if it is another file's than `before`.

    Raises:
        OSError: It is a file's no more, or of a socket that is not connected.
    """
    number = _number(descriptor)
    known = before
    if known is None or known.number != number:
        ends = None if number == _NO_SOCKET else _ends(descriptor)
        known = _Descriptor(number, ends, None)
    ends = known.ends
    if known.way is None and ends is not None and (ends.port in ports or ends.peer in peers):
        return known._replace(way=_way(ends, ports))
    return known


def _number(descriptor: int) -> int:
    """Tells a socket from all others, of earlier and later; `_NO_SOCKET` of what is none."""
    status = os.fstat(descriptor)
    return status.st_ino if stat.S_ISSOCK(status.st_mode) else _NO_SOCKET


def _listens_at(descriptor: int) -> int | None:
    """The port of a socket that takes connections in; None of another.

    Raises:
        OSError: It is closed.
    """
    opened = socket.socket(fileno=descriptor)
    try:
        internet = opened.family in (socket.AF_INET, socket.AF_INET6)
        if not internet or not opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return None
        return int(opened.getsockname()[1])
    finally:
        opened.detach()


def _ends(descriptor: int) -> _TcpEnds | None:
    """Of a socket, if it is of TCP.

    Raises:
        OSError: It is not connected.
    """
    opened = socket.socket(fileno=descriptor)
    try:
        internet = opened.family in (socket.AF_INET, socket.AF_INET6)
        if not internet or opened.type != socket.SOCK_STREAM:
            return None
        return _TcpEnds(opened.getsockname()[1], _endpoint(opened.getpeername()))
    finally:
        opened.detach()


def _way(ends: _TcpEnds, ports: Mapping[int, tuple[NamesBound, int]]) -> _Way:
    if ends.port in ports:
        return _Way(*ports[ends.port], ends.peer, True)
    return _Way(NO_NAMES, FRAME_BYTES_MAX, ends.peer, False)


def _endpoint(name: tuple[str, int]) -> str:
    host = name[0].removeprefix("::ffff:")
    return f"tcp://[{host}]:{name[1]}" if ":" in host else f"tcp://{host}:{name[1]}"


def _received(descriptor: int) -> int:
    opened = socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    try:
        info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        return int.from_bytes(info[_RECEIVED_AT:], sys.byteorder)
    finally:
        opened.detach()


def _waiting(descriptor: int) -> int:
    """What the kernel has and ZeroMQ has not read: on a busy machine, tens of megabytes."""
    found = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return int.from_bytes(found, sys.byteorder)
