"""A tower's two sockets: beacons come in on one and go out to everybody on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from dafka.errors import MisuseError, WireError
from dafka.model import Reach
from dafka.protocol.presence import tower_beacon
from dafka.transport import sockets
from dafka.transport.curve import guard, refuse_keys_within, user_of
from dafka.transport.shedder import shedder
from dafka.transport.sockets import send_frames
from dafka.wire.beacon import (
    KINDS,
    OF_GUEST,
    OF_GUEST_TO_OTHERS,
    OF_STORE,
    WELCOME,
    NodeBeacon,
    TowerBeacon,
    decode_node_beacon,
    echo_of,
    encode_tower_beacon,
)

if TYPE_CHECKING:
    from dafka.model import TowerEndpoints
    from dafka.reasons import Reason
    from dafka.transport.keys import Credentials

BEACONS_PER_TURN_MAX = 1_000
"""Beacons passed on before the loop looks at anything else."""


class TowerSockets:
    """Bound at both endpoints of a tower.

    Args:
        endpoints: Where.
        credentials: The cluster's own, if it has keys.

    Raises:
        MisuseError: An endpoint cannot be bound.
    """

    def __init__(self, endpoints: TowerEndpoints, credentials: Credentials | None = None) -> None:
        self._secured = credentials is not None
        self._cluster_key = "" if credentials is None else credentials.access.cluster
        """Whose a store's is; without keys it is nobody's, as theirs."""
        self._reach = Reach.of_tower(endpoints.inbound)
        refuse_keys_within(endpoints.inbound, credentials)
        self._inbound = sockets.beacon_subscriber()
        self._outbound = sockets.tower_publisher(secured=self._secured)
        for socket in (self._inbound, self._outbound):
            guard(socket, credentials)
        if self._reach is not Reach.PROCESS:
            # C nodes wait for it; ours do not. ZeroMQ would abort at a welcome to somebody who
            # waited for a name of inproc, and is gone.
            self._outbound.set(zmq.XPUB_WELCOME_MSG, WELCOME)
        for kind in KINDS:
            self._inbound.subscribe(kind)
        try:
            sockets.bind(self._inbound, endpoints.inbound, message_max=sockets.BEACONS_BYTES_MAX)
            sockets.bind(self._outbound, endpoints.outbound, sockets.TOWER_NAMES)
        except zmq.ZMQError as error:
            self.close()
            raise MisuseError(f"cannot open tower at {endpoints.inbound}: {error}") from error

    @property
    def pollable(self) -> list[zmq.Socket[bytes]]:
        """Sockets to poll for reading; when one is readable, call `relay`."""
        return [self._inbound, self._outbound]

    def relay(self) -> tuple[list[TowerBeacon], list[Reason]]:
        """Pass on the beacons that have arrived; returns them, and why others were dropped."""
        for _ in range(BEACONS_PER_TURN_MAX):
            if not self._discard_subscription():
                break
        relayed: list[TowerBeacon] = []
        dropped: list[Reason] = []
        for _ in range(BEACONS_PER_TURN_MAX):
            try:
                arrived = self._receive()
            except WireError as error:
                dropped.append(error.reason)
                continue
            if arrived is None:
                break
            node_beacon, peer_host, key = arrived
            if self._secured and not self._may_announce(node_beacon, key):
                dropped.append("beacon key")
                continue
            beacon = tower_beacon(node_beacon, peer_host, self._reach)
            if beacon is None:
                dropped.append("beacon endpoint")
                continue
            for kind in _heard_under(node_beacon):
                send_frames(self._outbound, encode_tower_beacon(beacon, kind))
            relayed.append(beacon)
        return relayed, dropped

    def _may_announce(self, beacon: NodeBeacon, proved: str) -> bool:
        is_store = proved == self._cluster_key
        return beacon.key == proved and (is_store or beacon.kind != OF_STORE)

    def close(self) -> None:
        """Release both endpoints."""
        self._inbound.close(0)
        self._outbound.close(0)

    def _receive(self) -> tuple[NodeBeacon, str, str] | None:
        """One node's beacon, the host it came from and the key proved there."""
        try:
            frames = self._inbound.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        if shedder.watching:
            shedder.took(frames[-1])
        try:
            # An IPv4 node at an IPv6 socket: peers without IPv6 must be able to reach it too.
            peer_host = str(frames[0].get("Peer-Address")).removeprefix("::ffff:")
        except zmq.ZMQError:
            peer_host = ""
        beacon = decode_node_beacon([frame.bytes for frame in frames])
        return beacon, peer_host, user_of(frames[0])

    def _discard_subscription(self) -> bool:
        """Towers have no use for subscriptions, but they must not pile up."""
        try:
            self._outbound.recv(zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True


def _heard_under(beacon: NodeBeacon) -> tuple[bytes, ...]:
    """What a tower's copies of a beacon begin with: guests hear stores, and themselves."""
    if beacon.kind == OF_GUEST:
        return OF_GUEST_TO_OTHERS, echo_of(beacon.address)
    return (beacon.kind,)
