"""A node's subscribers: where what its peers publish arrives, and who of them it comes from.

ZeroMQ does not say which peer a message comes from, only at which socket it arrived. So peers of
which different things may be taken are connected to sockets of their own.
"""

from __future__ import annotations

import errno
from collections import Counter
from typing import TYPE_CHECKING

import zmq

from dafka.errors import MisuseError
from dafka.limits import SENDERS_MAX
from dafka.transport import sockets
from dafka.transport.access import ANYBODY, Sender
from dafka.transport.curve import prove
from dafka.transport.shedder import shedder
from dafka.transport.sockets import Connections

if TYPE_CHECKING:
    from dafka.reasons import Reason
    from dafka.transport.keys import Credentials
    from dafka.transport.sockets import ConnectionChange


class Subscribers:
    """One for each sender that is to be told from others, as long as it is there.

    Args:
        credentials: The node's, in a cluster with keys.
        senders_max: How many there are at most.
    """

    def __init__(self, credentials: Credentials | None, senders_max: int = SENDERS_MAX) -> None:
        self._credentials = credentials
        self._senders_max = senders_max
        self._prefixes: Counter[bytes] = Counter()
        """What is subscribed to, and how often."""
        self._senders: dict[zmq.Socket[bytes], Sender] = {}
        self._connections: dict[Sender, tuple[zmq.Socket[bytes], Connections]] = {}
        self._reports: dict[zmq.Socket[bytes], Sender] = {}
        self._connected: dict[str, Sender] = {}
        """By endpoint."""
        self.changed = 0
        """How often a socket was opened, closed, or used otherwise than to receive from it."""
        self._open(Sender(ANYBODY))

    @property
    def sockets(self) -> list[zmq.Socket[bytes]]:
        """All that are open."""
        return list(self._senders)

    @property
    def reports(self) -> list[zmq.Socket[bytes]]:
        """For each of them, the one that is readable when its connections have changed."""
        return list(self._reports)

    def reported(
        self, socket: zmq.Socket[bytes]
    ) -> tuple[zmq.Socket[bytes], list[tuple[str, ConnectionChange]]] | None:
        """Of one of `reports`, whose it is and what `Connections.changes` says; else None.

        What that one has received is to be taken first. What is said of an endpoint where another
        sender is tried by now is left out: attempts that failed, or what was left.
        """
        sender = self._reports.get(socket)
        if sender is None:
            return None
        self.changed += 1
        subscriber, connections = self._connections[sender]
        changes = connections.changes()
        return subscriber, [one for one in changes if self._connected.get(one[0]) == sender]

    def sender(self, socket: zmq.Socket[bytes]) -> Sender:
        """Whom what arrives at one of `sockets` comes from."""
        return self._senders[socket]

    def subscribe(self, prefix: bytes) -> None:
        """Subscribe to messages of every peer, present and future."""
        self._prefixes[prefix] += 1
        for socket in self._senders:
            socket.subscribe(prefix)

    def unsubscribe(self, prefix: bytes) -> None:
        """Take one `subscribe` back."""
        self._prefixes[prefix] -= 1
        if not self._prefixes[prefix]:
            del self._prefixes[prefix]
        for socket in self._senders:
            socket.unsubscribe(prefix)

    def connect(self, endpoint: str, key: str) -> Reason | None:
        """Connect to a peer that has to prove `key`; nobody else can be there then.

        Returns:
            Why not: the key is not known, or there are as many senders as may or can be.
        """
        sender: Sender | None = Sender(ANYBODY)
        if self._credentials is not None:
            sender = self._credentials.access.sender(key)
            if sender is None:
                return "beacon key"  # the tower has another access file
        assert sender is not None
        if sender not in self._connections:
            if len(self._connections) >= self._senders_max:
                return "too many peers"
            try:
                self._open(sender)
            except MisuseError:
                return "too many peers"  # no file is left for a socket
        socket, _ = self._connections[sender]
        self.changed += 1
        prove(socket, self._credentials, key)
        sockets.connect(socket, endpoint)
        if endpoint not in self._connected:
            shedder.connected(endpoint)
        self._connected[endpoint] = sender
        return None

    def disconnect(self, endpoint: str) -> None:
        """Leave a peer, and forget its sender with the last one of that."""
        sender = self._connected.pop(endpoint, None)
        if sender is None:
            return
        shedder.left(endpoint)
        self.changed += 1
        socket, _ = self._connections[sender]
        try:
            socket.disconnect(endpoint)
        except zmq.ZMQError as error:
            # A connection of inproc ends with the other end, and is forgotten.
            if error.errno != errno.ENOENT:
                raise
        if sender.mark and sender not in self._connected.values():
            self._close(sender)

    def close(self) -> None:
        """Leave all peers."""
        for sender in list(self._connections):
            self._close(sender)
        while self._connected:
            endpoint, _ = self._connected.popitem()
            shedder.left(endpoint)

    def _open(self, sender: Sender) -> None:
        socket = sockets.subscriber()
        try:
            connections = Connections(socket)
        except MisuseError:
            socket.close(0)
            raise
        for prefix, count in self._prefixes.items():
            for _ in range(count):
                socket.subscribe(prefix)
        self._senders[socket] = sender
        self._connections[sender] = socket, connections
        self._reports[connections.socket] = sender

    def _close(self, sender: Sender) -> None:
        socket, connections = self._connections.pop(sender)
        del self._senders[socket]
        del self._reports[connections.socket]
        connections.close()
        socket.close(0)
