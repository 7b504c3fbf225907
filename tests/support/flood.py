"""Floods of bytes over ZMTP without keys, as no library would send them.

Source: rfc.zeromq.org/spec/23 (ZMTP 3.0).
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
MORE, LONG = 1, 2

TOWER_NAME = 40
"""Shorter than a name may be at a tower without keys."""


def frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) > 255:
        return struct.pack(">BQ", flags | LONG, len(body)) + body
    return bytes((flags, len(body))) + body


def reached(endpoint: str, timeout_s: float) -> socket.socket:
    """A connection to `tcp://HOST:PORT`."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout_s)


def met(endpoint: str, kind: bytes, timeout_s: float = 0.5) -> socket.socket:
    """One over which both ends have said what they are."""
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    with ExitStack() as failing:
        connection = failing.enter_context(reached(endpoint, timeout_s))
        connection.sendall(GREETING + bytes((4, len(ready))) + ready)
        _received(connection, len(GREETING))
        _, size = _received(connection, 2)
        _received(connection, size)
        failing.pop_all()
    return connection


def _received(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += (more := connection.recv(size - len(found)))
        if not more:
            raise ConnectionResetError("the other end does not say what it is")
    return found


def names(rng: random.Random, length: int = 250, count: int = 400) -> bytes:
    """Subscriptions to names that have nothing in common."""
    digits = (length - 2) // 2
    return b"".join(frame(b"\x01B" + rng.randbytes(digits).hex().encode()) for _ in range(count))


def parts(length: int, size: int = 1 << 18) -> bytes:
    """Frames after each of which there are more."""
    one = frame(bytes(length), MORE)
    return one * max(1, size // len(one))


def pour(endpoint: str, kind: bytes, chunk, until_s: float = math.inf) -> bool:
    """Send what `chunk` makes, one after the other; whether the other end has ended it.

    Args:
        endpoint: `tcp://HOST:PORT`.
        kind: What to say that this end is, such as `SUB`.
        chunk: Makes some bytes.
        until_s: Of the monotonic clock.
    """
    with met(endpoint, kind) as connection:
        connection.setblocking(False)
        left = memoryview(b"")
        while time.monotonic() < until_s:
            # Who is cut may have no room for an answer any more: the end comes as the end of file.
            readable, writable, _ = select.select([connection], [connection], [], 0.1)
            try:
                if readable and not connection.recv(1 << 16):
                    return True
                if writable:
                    left = left or memoryview(chunk())
                    left = left[connection.send(left) :]
            except OSError:
                return True
    return False


def flood(endpoint: str, kind: bytes, chunk, until_s: float) -> int:
    """Pour, and come again when cut; returns how often that was."""
    cuts = 0
    while time.monotonic() < until_s:
        try:
            cuts += pour(endpoint, kind, chunk, until_s)
        except OSError:
            time.sleep(0.01)  # not let in
    return cuts
