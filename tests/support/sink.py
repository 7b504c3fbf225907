"""What floods can be poured into that costs nobody anything: it takes all, and keeps none.

For what hostile peers cost a machine by their own work. A process of its own: who attacks it is
served by nobody.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import sys

from tests.support import flood

TAKEN_BYTES = 1 << 18


def greeting(kind: bytes) -> bytes:
    """What an end of ZMTP says first, without keys."""
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    return flood.GREETING + bytes((4, len(ready))) + ready


def main(*doors: str) -> None:
    """Take all that comes in at some doors, until whoever started it closes its input.

    Args:
        doors: `PORT=KIND`, such as `5556=XPUB`.
    """
    os.nice(19)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    for door in doors:
        port, _, kind = door.partition("=")
        server = socket.create_server(("127.0.0.1", int(port)))
        selector.register(server, selectors.EVENT_READ, greeting(kind.encode()))
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                return
            _serve(selector, key.fileobj, key.data)


def _serve(selector: selectors.BaseSelector, one: socket.socket, said: bytes | None) -> None:
    try:
        if said is not None:
            taken, _ = one.accept()
            taken.sendall(said)
            selector.register(taken, selectors.EVENT_READ)
        elif not one.recv(TAKEN_BYTES):
            raise ConnectionResetError
    except OSError:
        if said is None:
            selector.unregister(one)
            one.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
