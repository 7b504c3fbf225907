"""A node's four sockets: publisher and subscriber to its peers, and both ways to its towers.

Source: 46/DAFKA, Interconnection Model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from dafka.errors import MisuseError, WireError
from dafka.protocol.effects import Dropped
from dafka.protocol.events import PeerListened, Received
from dafka.protocol.presence import (
    Announce,
    Connect,
    Disconnect,
    Heard,
    PresenceEffect,
    PresenceMachine,
    PresenceSettings,
)
from dafka.transport import sockets
from dafka.wire import rfc46
from dafka.wire.beacon import BEACON, WELCOME, NodeBeacon, decode_tower_beacon, encode_node_beacon

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dafka.model import TowerEndpoints
    from dafka.wire.messages import Message, MessageId

MESSAGES_PER_TURN_MAX = 256
"""Messages taken in before timers and the other sockets get their turn."""

FRAMES_MAX = 4
"""Frames kept of one message. No message has more than three; a fourth makes it malformed."""


class Mesh:
    """One node's place in one cluster.

    Args:
        address: The node's identity.
        host: Interface to bind the publisher to, and to advertise.
        towers: At least one.
        settings: Beacon times.

    Raises:
        MisuseError: The host is not one of this machine's.
    """

    def __init__(
        self,
        *,
        address: str,
        host: str,
        towers: Sequence[TowerEndpoints],
        settings: PresenceSettings,
    ) -> None:
        self._publisher = sockets.publisher()
        self._subscriber = sockets.subscriber()
        self._beacons_out = sockets.beacon_publisher()
        self._beacons_in = sockets.subscriber()
        try:
            port = self._publisher.bind_to_random_port(f"tcp://{sockets.numeric(host)}")
        except zmq.ZMQError as error:
            self.close(0)
            raise MisuseError(f"cannot bind a node at host {host!r}: {error}") from error
        for prefix in (BEACON, WELCOME):
            self._beacons_in.subscribe(prefix)
        for tower in towers:
            self._beacons_out.connect(tower.inbound)
            self._beacons_in.connect(tower.outbound)
        beacon = NodeBeacon(address, host, port)
        self._presence = PresenceMachine(beacon, settings)

    @property
    def pollable(self) -> list[zmq.Socket[bytes]]:
        """Sockets to poll for reading; when one is readable, call `receive`."""
        return [self._publisher, self._subscriber, self._beacons_in]

    @property
    def peers(self) -> int:
        """How many peers this node is connected to."""
        return self._presence.peers

    def listen(self, message_id: MessageId, key: str) -> None:
        """Subscribe to messages of every peer, present and future."""
        self._subscriber.subscribe(rfc46.prefix(message_id, key))

    def publish(self, message: Message) -> None:
        """Send a message to every peer that listens; dropped for those whose queue is full."""
        *first, last = rfc46.encode(message)
        for frame in first:
            self._publisher.send(frame, zmq.SNDMORE)
        self._publisher.send(last)

    def receive(self, now_ms: int) -> Iterator[PeerListened | Received | Dropped]:
        """Yield what has arrived, at most a turn's worth."""
        yield from self._receive_subscriptions()
        self._receive_beacons(now_ms)
        for _ in range(MESSAGES_PER_TURN_MAX):
            frames = receive_frames(self._subscriber)
            if frames is None:
                return
            try:
                message = rfc46.decode(frames)
            except WireError as error:
                yield Dropped(error.reason)
            else:
                yield Received(message)

    def wake(self, now_ms: int) -> None:
        """Send the beacons that are due."""
        self._perform(self._presence.wake(now_ms))

    def wakeup_ms(self) -> int | None:
        """When the next beacon is due."""
        return self._presence.wakeup_ms()

    def close(self, linger_ms: int) -> None:
        """Leave the mesh; what was published may take `linger_ms` to go out."""
        self._publisher.close(linger_ms)
        for socket in (self._subscriber, self._beacons_out, self._beacons_in):
            socket.close(0)

    def _receive_subscriptions(self) -> Iterator[PeerListened]:
        for _ in range(MESSAGES_PER_TURN_MAX):
            frames = receive_frames(self._publisher)
            if frames is None:
                return
            if frames[0][:1] == b"\x01":
                subscription = rfc46.subscription(frames[0][1:])
                if subscription is not None:
                    yield PeerListened(*subscription)

    def _receive_beacons(self, now_ms: int) -> None:
        for _ in range(MESSAGES_PER_TURN_MAX):
            frames = receive_frames(self._beacons_in)
            if frames is None:
                return
            try:
                beacon = decode_tower_beacon(frames)
            except WireError:
                continue
            if beacon is not None:
                self._perform(self._presence.heard(Heard(beacon), now_ms))

    def _perform(self, effects: list[PresenceEffect]) -> None:
        for effect in effects:
            match effect:
                case Announce():
                    self._announce(effect.beacon)
                case Connect():
                    self._subscriber.connect(effect.endpoint)
                case Disconnect():
                    self._subscriber.disconnect(effect.endpoint)

    def _announce(self, beacon: NodeBeacon) -> None:
        *first, last = encode_node_beacon(beacon)
        for frame in first:
            self._beacons_out.send(frame, zmq.SNDMORE)
        self._beacons_out.send(last)


def receive_frames(socket: zmq.Socket[bytes]) -> list[bytes] | None:
    """Take one whole message off a socket, or None if there is none.

    All frames are drained, at most `FRAMES_MAX` kept: one left behind would be taken for the
    beginning of the next message.
    """
    try:
        frames = [socket.recv(zmq.NOBLOCK)]
    except zmq.Again:
        return None
    while socket.get(zmq.RCVMORE):
        frame = socket.recv()
        if len(frames) < FRAMES_MAX:
            frames.append(frame)
    return frames
