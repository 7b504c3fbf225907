"""Which process has which end of a connection, as Linux tells it.

Asked is the kernel, by netlink (sock_diag(7)): to write the table below /proc/net takes it 20 ms on
a large machine, whatever is in it.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

Place = tuple[str, int]
"""An IPv4 address and a port."""

_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST, _DUMP = 0x001, 0x300
_ERROR, _DONE = 2, 3
_EVERY_STATE, _LISTEN = 0xFFFFFFFF, 1 << 10

_HEADER = struct.Struct("=IHHII")
"""Of a netlink message: its length, type, flags, number and port."""

_ENDS = struct.Struct("=2s2s16s16sIII")
"""Both ports and addresses, an interface and a cookie, here that of any socket."""

_MAPPED = bytes(10) + b"\xff\xff"
"""How the address of an IPv6 socket begins that is used for IPv4, as ZeroMQ's are."""


def listening() -> dict[Place, int]:
    """Return the inode of every socket of this network that waits for connections over IPv4."""
    return {
        place: inode
        for family in (socket.AF_INET, socket.AF_INET6)
        for place, inode in _ask(family, _LISTEN, _DUMP)
        if place is not None
    }


def inode_of(local: Place, remote: Place) -> int | None:
    """Return the inode of the socket at one end of a connection; None if it is gone."""
    ends = (*_packed(local), *_packed(remote))
    answers = _ask(socket.AF_INET, _EVERY_STATE, 0, (ends[0], ends[2], ends[1], ends[3]))
    return next((inode for _, inode in answers), None)


class SocketOwners:
    """Who has which socket.

    Args:
        processes: Tells who is who: names by process id.
    """

    def __init__(self, processes: Callable[[], Mapping[int, str]]) -> None:
        self._processes = processes
        self._owners: dict[str, str] = {}

    def of(self, inode: int) -> str:
        """Return who has a socket open; empty if none of the processes."""
        return self.among((inode,)).get(inode, "")

    def among(self, inodes: Collection[int]) -> dict[int, str]:
        """Return who has which of some sockets open, without those that are other processes'."""
        names = {inode: f"socket:[{inode}]" for inode in inodes}
        if not self._owners.keys() >= {*names.values()}:
            # Several milliseconds, so it is kept: connections mostly come many at once.
            self._owners = dict(self._look())
        owners = self._owners
        return {inode: owners[name] for inode, name in names.items() if name in owners}

    def _look(self) -> Iterator[tuple[str, str]]:
        for pid, name in self._processes().items():
            with suppress(OSError):  # it may end at any moment
                for file in os.scandir(f"/proc/{pid}/fd"):
                    with suppress(OSError):  # or close what was just listed
                        yield os.readlink(file), name  # noqa: PTH115 (takes half the time)


def _packed(place: Place) -> tuple[bytes, bytes]:
    host, port = place
    return port.to_bytes(2, "big"), socket.inet_aton(host).ljust(16, b"\0")


def _ask(
    family: int,
    states: int,
    flags: int,
    ends: tuple[bytes, bytes, bytes, bytes] = (b"\0\0", b"\0\0", bytes(16), bytes(16)),
) -> Iterator[tuple[Place | None, int]]:
    """Yield the local place, if it is of IPv4, and the inode of each socket that is asked for."""
    any_cookie = (0, 0xFFFFFFFF, 0xFFFFFFFF)
    question = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, states)
    question += _ENDS.pack(*ends, *any_cookie)
    size = _HEADER.size + len(question)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST | flags, 0, 0) + question)
        more = True
        while more:
            answer = kernel.recv(1 << 16)
            while answer:
                length, kind, *_ = _HEADER.unpack_from(answer)
                more = bool(flags) and kind not in (_ERROR, _DONE)
                if kind == _BY_FAMILY:
                    yield _socket(family, answer[_HEADER.size : length])
                answer = answer[length:]


def _socket(family: int, told: bytes) -> tuple[Place | None, int]:
    port, _, address, *_ = _ENDS.unpack_from(told, 4)
    (inode,) = struct.unpack_from("=I", told, 4 + _ENDS.size + 16)
    if family == socket.AF_INET6:
        if not address.startswith(_MAPPED):
            return None, inode
        address = address[len(_MAPPED) :]
    return (socket.inet_ntoa(address[:4]), int.from_bytes(port, "big")), inode
