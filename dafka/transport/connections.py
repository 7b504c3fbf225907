"""Which of a socket's connections live, as ZeroMQ itself reports it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from dafka.transport import sockets

if TYPE_CHECKING:
    from collections.abc import Iterator

_names = count()


class Connections:
    """Reports of one connecting socket's connections, from now on.

    Endpoints with a name are not known again: reported are addresses. Inproc reports nothing.

    Args:
        socket: Not connected yet.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        name = f"inproc://dafka.connections.{next(_names)}"
        socket.monitor(name, zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._reports = sockets.monitor()
        self._reports.connect(name)

    def changes(self) -> Iterator[tuple[str, bool]]:
        """Yield the endpoints whose connection has come to be (True) or gone since the last call.

        A connection counts once both ends have agreed, with keys once they are proved.
        """
        while True:
            try:
                frames = self._reports.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            report = parse_monitor_message(frames)
            endpoint = sockets.unmapped(report["endpoint"].decode("utf-8", "replace"))
            yield endpoint, report["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED

    def close(self) -> None:
        """Stop listening; before the socket itself is closed."""
        self._socket.monitor(None, 0)
        self._reports.close(0)
