"""Presence: whom a node is connected to, as its towers' beacons tell.

A node sends its beacon at an interval, and at once for every peer it sees for the first time, so
that a newcomer need not wait. A peer whose beacons stop is left; but only while the towers can be
heard at all. A node hears its own beacon back: when that too is missing it is the tower that is
away, and everybody stays connected.

Source: 46/DAFKA, Node Discovery and Presence.
"""

from __future__ import annotations

from dataclasses import dataclass

from dafka.errors import MisuseError
from dafka.limits import PEERS_MAX
from dafka.model import Endpoint
from dafka.wire.beacon import NodeBeacon, TowerBeacon


@dataclass(frozen=True, slots=True)
class Heard:
    """A tower passed a beacon on."""

    beacon: TowerBeacon


@dataclass(frozen=True, slots=True)
class Announce:
    """Send this beacon to every tower."""

    beacon: NodeBeacon


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect to a peer's publisher, which must prove `key` if there is one."""

    endpoint: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Leave a peer."""

    endpoint: str


PresenceEffect = Announce | Connect | Disconnect


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceSettings:
    """What presence can be told; the defaults are those of the C implementation.

    Attributes:
        beacon_interval_ms: How often a node says that it is there.
        peer_timeout_ms: How long a peer may be silent.
    """

    beacon_interval_ms: int = 1_000
    peer_timeout_ms: int = 4_000


class PresenceMachine:
    """A node's side of discovery.

    Args:
        beacon: What this node announces.
        settings: See there.
    """

    def __init__(self, beacon: NodeBeacon, settings: PresenceSettings) -> None:
        self._beacon = beacon
        self._settings = settings
        self._peers: dict[str, int] = {}
        """Endpoints connected to, and when each was heard last."""
        self._keys: dict[str, str] = {}
        """The key that each was connected to with."""
        self._announce_due_ms: int | None = None
        self._echo_ms: int | None = None
        """When a tower was heard last, by our own beacon coming back."""

    @property
    def peers(self) -> int:
        """How many peers this node is connected to."""
        return len(self._peers)

    def heard(self, event: Heard, now_ms: int) -> list[PresenceEffect]:
        """Take in a beacon."""
        beacon = event.beacon
        if (beacon.address, beacon.key) == (self._beacon.address, self._beacon.key):
            self._tower_heard(now_ms)
            return []
        if beacon.endpoint in self._peers:
            # Another key at a known endpoint is a newcomer there; first the old one must be silent.
            if self._keys[beacon.endpoint] == beacon.key:
                self._peers[beacon.endpoint] = now_ms
            return []
        if len(self._peers) >= PEERS_MAX:
            return []
        self._peers[beacon.endpoint] = now_ms
        self._keys[beacon.endpoint] = beacon.key
        return [Connect(beacon.endpoint, beacon.key), Announce(self._beacon)]

    def wake(self, now_ms: int) -> list[PresenceEffect]:
        """Send what is due, leave who is silent."""
        effects: list[PresenceEffect] = []
        if self._announce_due_ms is None or self._announce_due_ms <= now_ms:
            self._announce_due_ms = now_ms + self._settings.beacon_interval_ms
            effects.append(Announce(self._beacon))
            effects += self._leave_silent(now_ms)
        return effects

    def wakeup_ms(self) -> int | None:
        """When the next beacon is due."""
        return self._announce_due_ms

    def _tower_heard(self, now_ms: int) -> None:
        timeout_ms = self._settings.peer_timeout_ms
        if self._echo_ms is not None and now_ms - self._echo_ms >= timeout_ms:
            # The tower was away. Nobody could be heard meanwhile: their silence counts from now.
            self._peers = dict.fromkeys(self._peers, now_ms)
        self._echo_ms = now_ms

    def _leave_silent(self, now_ms: int) -> list[PresenceEffect]:
        timeout_ms = self._settings.peer_timeout_ms
        if self._echo_ms is None or now_ms - self._echo_ms >= timeout_ms:
            return []
        silent = [
            endpoint
            for endpoint, heard_ms in self._peers.items()
            if now_ms - heard_ms >= timeout_ms
        ]
        for endpoint in silent:
            del self._peers[endpoint]
            del self._keys[endpoint]
        return [Disconnect(endpoint) for endpoint in silent]


def tower_beacon(beacon: NodeBeacon, peer_host: str) -> TowerBeacon | None:
    """What a tower publishes for a node's beacon; None if the node cannot be reached at all.

    Args:
        beacon: As the node sent it.
        peer_host: The host its connection comes from, used if it names none; may be empty.
    """
    host = beacon.host or peer_host
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    try:
        endpoint = Endpoint.parse(f"tcp://{host}:{beacon.port}")
    except MisuseError:
        return None
    return TowerBeacon(beacon.address, str(endpoint), beacon.key)
