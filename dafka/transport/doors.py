"""Hosts that nobody comes in from for a while: the kernel drops the first packet of a connection.

Who is cut comes again at once, and ZeroMQ has no call that refuses a connection: each one that it
takes in and that ends makes it walk over the subscriptions of all. A filter of the listening socket
(BPF) spares it that. It needs no privileges, and connections that are there go on.
Source: socket(7), SO_ATTACH_FILTER; Linux' Documentation/networking/filter.rst.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SHUT_MS = 5_000
"""For so long. Whoever is at the host of somebody who was cut waits so long to come in, too."""

HOSTS_MAX = 16
"""So many are shut out at once, the last ones: the kernel bounds what a filter may have."""

_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_NETWORK_HEADER = 0xFFF00000
"""Where it is, for a filter that is given what follows it."""

_LOAD_BYTE, _LOAD_WORD, _SHIFT_RIGHT, _JUMP_IF, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x06
_WHOLE = 0xFFFFFFFF

Instruction = tuple[int, int, int, int]


class ShutOut:
    """Which hosts are shut out.

    Args:
        shut_ms: For how long.
        hosts_max: How many at once.
    """

    def __init__(self, shut_ms: int = SHUT_MS, hosts_max: int = HOSTS_MAX) -> None:
        self._shut_ms, self._hosts_max = shut_ms, hosts_max
        self._until_ms: dict[str, int] = {}
        """In the order in which their time ends."""

    def add(self, host: str, now_ms: int) -> None:
        """Shut a host out from now on."""
        self._until_ms.pop(host, None)
        self._until_ms[host] = now_ms + self._shut_ms
        while len(self._until_ms) > self._hosts_max:
            del self._until_ms[next(iter(self._until_ms))]

    def hosts(self, now_ms: int) -> tuple[str, ...]:
        """Those whose time is not over."""
        self._until_ms = {host: end for host, end in self._until_ms.items() if end > now_ms}
        return tuple(self._until_ms)


def keep_out(descriptor: int, hosts: Iterable[str]) -> None:
    """Take no new connection from these addresses, and from all others again.

    Args:
        descriptor: Of a listening socket of TCP.
        hosts: Addresses of IPv4 and IPv6.

    Raises:
        OSError: The kernel refuses it, or the socket is gone.
    """
    program = [instruction for host in hosts for instruction in _dropped(host)]
    with socket.socket(fileno=os.dup(descriptor)) as listening:
        if not program:
            listening.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
            return
        program.append((_RETURN, 0, 0, _WHOLE))
        packed = b"".join(struct.pack("@HBBI", *one) for one in program)
        held = ctypes.create_string_buffer(packed, len(packed))
        pointed = struct.pack("@HP", len(program), ctypes.addressof(held))
        listening.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, pointed)


def _dropped(host: str) -> list[Instruction]:
    """Drop a packet if its header says that it comes from there; else go on behind this."""
    address = ipaddress.ip_address(host)
    at = _NETWORK_HEADER + (12 if address.version == 4 else 8)
    words = struct.unpack(f"!{len(address.packed) // 4}I", address.packed)
    compared: list[Instruction] = []
    for number, word in enumerate(words):
        left = 2 * (len(words) - 1 - number) + 1
        compared += [(_LOAD_WORD, 0, 0, at + 4 * number), (_JUMP_IF, 0, left, word)]
    compared.append((_RETURN, 0, 0, 0))
    version: list[Instruction] = [
        (_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        (_SHIFT_RIGHT, 0, 0, 4),
        (_JUMP_IF, 0, len(compared), address.version),
    ]
    return version + compared
