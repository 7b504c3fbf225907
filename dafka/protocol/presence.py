"""Presence: whom a node is connected to, as its towers' beacons tell.

A node sends its beacon at an interval, and soon for every peer it sees for the first time, so that
a newcomer need not wait. A node hears its own beacon back from each tower; when that is missing,
the tower is away.

Whoever may send beacons may announce any endpoint, so a beacon alone makes nobody a peer for good:
of several keys that are announced for one endpoint each is tried in turn, until one is proved
there. A peer whose connection lives is never left. One that is silent and whose connection is gone
is left after a while; after a longer one when no tower is heard, for then nobody can be heard.

A node connects to so many at most. Guests never connect to it, unless it is a store, and what they
send stores have: they get the room that others leave, and the sockets.

Source: 46/DAFKA, Node Discovery and Presence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dafka.errors import WireError
from dafka.limits import PEERS_MAX
from dafka.model import Reach, Value
from dafka.protocol.effects import Dropped
from dafka.protocol.events import PeerLeft, Woke
from dafka.wire.beacon import OF_GUEST, NodeBeacon, TowerBeacon, peer_endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

GREETING_MS = 5
"""For each peer, how far apart beacons for newcomers are: all nodes together answer a newcomer, and
without this a start of N nodes at once would make N^3 beacons. So a node hears at most 200 a second
of them, whatever the number of nodes."""


TRIAL_MS = 3_000
"""So long a key is tried at an endpoint while others are announced there, or it at too many, too:
whoever is connected to gives up a handshake that does not end in 2 s."""

RIVALS_MAX = 16
"""Keys kept of those announced for one endpoint; it takes as many owners to fill them."""

UNPROVED_MAX = 256
"""Endpoints tried for one key at which it is not proved; the one that was tried longest makes room
for another. In a cluster without keys none is proved."""


class Heard(Value, frozen=True):
    """A tower passed a beacon on.

    Attributes:
        beacon: Which.
        tower: Its name.
        of_key: Whether its address is one of its key: only then is that peer's leaving told.
    """

    beacon: TowerBeacon
    tower: str
    of_key: bool = True


class ConnectionChanged(Value, frozen=True):
    """The connection to a peer has come to be, or is gone."""

    endpoint: str
    alive: bool


class ConnectionRefused(Value, frozen=True):
    """A peer, or a tower by its name, does not let this node's key in."""

    endpoint: str


class ConnectionLacking(Value, frozen=True):
    """There is no socket for a peer: too many senders are told apart."""

    endpoint: str


class Announce(Value, frozen=True):
    """Send this beacon to every tower."""

    beacon: NodeBeacon


class Connect(Value, frozen=True):
    """Connect to a peer's publisher, which must prove `key` if there is one."""

    endpoint: str
    key: str = ""


class ConnectAgain(Value, frozen=True):
    """Try once more a peer, or a tower by its name: nobody else does."""

    endpoint: str
    key: str = ""


class Disconnect(Value, frozen=True):
    """Leave a peer."""

    endpoint: str


class TowerAway(Value, frozen=True):
    """A tower is not heard any more, or has not been since the start.

    Attributes:
        tower: Which.
        heard: How many others are.
    """

    tower: str
    heard: int


class TowerBack(Value, frozen=True):
    """A tower that was away is heard."""

    tower: str


class Refused(Value, frozen=True):
    """Somebody does not let this node's key in; said once, until he does.

    Attributes:
        endpoint: Of a peer, or the name of a tower.
        again_ms: How long until he is tried again, each time.
    """

    endpoint: str
    again_ms: int


class TwinHeard(Value, frozen=True):
    """Another node has this one's address: what keeps it was copied.

    Attributes:
        endpoint: One of the two.
    """

    endpoint: str


PresenceEvent = Heard | ConnectionChanged | ConnectionRefused | ConnectionLacking | Woke
Connecting = Connect | ConnectAgain | Disconnect
PresenceEffect = (
    Announce | Connecting | PeerLeft | TowerAway | TowerBack | Refused | TwinHeard | Dropped
)


class PresenceSettings(Value, frozen=True, kw_only=True):
    """What presence can be told; the first two defaults are those of the C implementation.

    Attributes:
        beacon_interval_ms: How often a node says that it is there.
        peer_timeout_ms: How long a peer without a connection may be silent; and how long a tower.
        first_ms: How long a tower may be silent that has not been heard yet.
        reunion_ms: How long a peer without a connection is waited for while no tower is heard.
            Longer than most outages, and not for ever: somebody else may get its port.
        refused_ms: How long who does not let this node's key in is not tried again: he may know it
            by then, if he has been started anew. So it is with peers for whom there was no socket.
        peers_max: How many a node connects to; guests have the room that others leave. If it is
            not said `PEERS_MAX`, and of a store as many as its open files allow.
    """

    beacon_interval_ms: int = 1_000
    peer_timeout_ms: int = 4_000
    first_ms: int = 2_000
    reunion_ms: int = 60_000
    refused_ms: int = 10_000
    peers_max: int | None = None


PRESENCE = PresenceSettings()


@dataclass(slots=True)
class _Peer:
    address: str
    """Empty while it is not known whose the key is that is tried, and where it is not its key's."""
    seen_ms: int
    """When its last beacon came, or its connection came or went."""
    key: str
    tried_ms: int
    """When this key's turn began."""
    connected: bool = False
    rivals: dict[str, int] = field(default_factory=dict)
    """Other keys announced for its endpoint, and when each was tried last."""
    again_ms: int | None = None
    """When to try it once more, as there was no socket for it."""


class PresenceMachine:
    """A node's side of discovery.

    Args:
        beacon: What this node announces.
        settings: See there.
        towers: Their names, as in `Heard`.
        store: Whether guests connect to this node: then they are peers as all are.
    """

    def __init__(
        self,
        beacon: NodeBeacon,
        settings: PresenceSettings,
        towers: Iterable[str],
        *,
        store: bool = False,
    ) -> None:
        self._beacon = beacon
        self._settings = settings
        self._peers_max = PEERS_MAX if settings.peers_max is None else settings.peers_max
        self._peers: dict[str, _Peer] = {}
        """By endpoint."""
        self._store = store
        self._guests: dict[str, None] = {}
        """Endpoints of peers that are left when there is no room for another."""
        self._refused: dict[str, int | None] = {}
        """Peers and towers that do not let this node in, and when to try each again; None while it
        is tried."""
        self._own_endpoints: dict[str, str] = {}
        """Where others reach this node, as each tower tells them."""
        self._told_endpoints: dict[str, tuple[str, str]] = {}
        """Where its address was said to be last, and before that: there may be a twin."""
        self._twin_told = False
        self._announce_due_ms: int | None = None
        self._announced_ms: int | None = None
        self._echo_ms: dict[str, int | None] = dict.fromkeys(towers)
        """By tower, when it was heard last, by our own beacon coming back."""
        self._away: set[str] = set()
        """The towers that were said to be away."""
        self._began_ms: int | None = None

    @property
    def peers(self) -> int:
        """How many peers this node is connected to."""
        return len(self._peers)

    def handle(self, event: PresenceEvent, now_ms: int) -> list[PresenceEffect]:
        """Take one event in; see `Machine`."""
        match event:
            case Heard():
                return self._hear(event, now_ms)
            case ConnectionChanged(endpoint, alive):
                peer = self._peers.get(endpoint)
                # What ends before it has come to be is no sign of life, only another attempt.
                if peer is None or not (alive or peer.connected):
                    return []
                peer.connected, peer.seen_ms, peer.tried_ms = alive, now_ms, now_ms
                self._refused.pop(endpoint, None)
                return [] if alive else _left(peer.address)
            case ConnectionRefused(endpoint):
                return self._is_refused(endpoint, now_ms)
            case ConnectionLacking(endpoint):
                return self._lacks_socket(endpoint, now_ms)
            case Woke():
                return self._wake(now_ms)

    def wakeup_ms(self) -> int | None:
        """When the next beacon is due."""
        return self._announce_due_ms

    def check(self) -> None:
        """Assert its bound, that it is no peer of its own, and that only towers are away."""
        assert len(self._peers) <= self._peers_max
        assert all(len(peer.rivals) <= RIVALS_MAX for peer in self._peers.values())
        assert all(peer.key not in peer.rivals for peer in self._peers.values())
        assert not self._peers.keys() & self._own_endpoints.values()
        assert self._guests.keys() <= self._peers.keys()
        assert self._refused.keys() <= self._peers.keys() | self._echo_ms.keys()
        assert self._away <= self._echo_ms.keys()

    def _hear(self, event: Heard, now_ms: int) -> list[PresenceEffect]:
        beacon = event.beacon
        if (beacon.address, beacon.key) == (self._beacon.address, self._beacon.key):
            return self._tower_heard(event, now_ms)
        if beacon.echo:
            return []  # of who says that he is this node: a guest connects to stores only
        if beacon.endpoint in self._own_endpoints.values():
            return []  # of somebody who was there before this node
        if not event.of_key:
            beacon = replace(beacon, address="")
        peer = self._peers.get(beacon.endpoint)
        if peer is not None:
            if peer.key == beacon.key:
                peer.seen_ms = now_ms
                self._sort(beacon)
                before, peer.address = peer.address, beacon.address
                return [] if before == beacon.address else _left(before)
            return self._rival(peer, beacon, now_ms)
        return self._meet(beacon, now_ms)

    def _meet(self, beacon: TowerBeacon, now_ms: int) -> list[PresenceEffect]:
        """Connect to a node that is new, if there is room, or a guest makes some."""
        effects: list[PresenceEffect] = []
        unproved = self._unproved(beacon.key)
        if len(unproved) >= UNPROVED_MAX:
            longest = min(unproved, key=lambda endpoint: self._peers[endpoint].tried_ms)
            if now_ms - self._peers[longest].tried_ms < TRIAL_MS:
                return [Dropped("too many peers")]
            effects += self._leave(longest)
        if len(self._peers) >= self._peers_max:
            if beacon.guest or not self._guests:
                return [Dropped("too many peers")]
            effects += self._leave(next(reversed(self._guests)))
        self._peers[beacon.endpoint] = _Peer(beacon.address, now_ms, beacon.key, now_ms)
        self._sort(beacon)
        effects.append(Connect(beacon.endpoint, beacon.key))
        greeting_ms = self._greeting_ms(now_ms)
        if greeting_ms > now_ms:
            self._announce_due_ms = min(greeting_ms, self._announce_due_ms or greeting_ms)
            return effects
        return [*effects, self._announce(now_ms)]

    def _sort(self, beacon: TowerBeacon) -> None:
        """Note whether a peer has only the room that others leave."""
        if beacon.guest and not self._store:
            self._guests[beacon.endpoint] = None
        else:
            self._guests.pop(beacon.endpoint, None)

    def _rival(self, peer: _Peer, beacon: TowerBeacon, now_ms: int) -> list[PresenceEffect]:
        """Another key is announced where one is tried, or proved: it waits for its turn."""
        if beacon.key in peer.rivals or len(peer.rivals) < RIVALS_MAX:
            peer.rivals.setdefault(beacon.key, -1)
        if peer.connected or now_ms - peer.tried_ms < TRIAL_MS:
            return []
        following = min(peer.rivals, key=peer.rivals.__getitem__)
        del peer.rivals[following]
        peer.rivals[peer.key] = peer.tried_ms
        peer.key, peer.tried_ms, peer.seen_ms = following, now_ms, now_ms
        peer.address, peer.again_ms = "", None
        self._refused.pop(beacon.endpoint, None)
        return [Disconnect(beacon.endpoint), Connect(beacon.endpoint, following)]

    def _unproved(self, key: str) -> list[str]:
        if not key:
            return []
        peers = self._peers.items()
        return [one for one, peer in peers if peer.key == key and not peer.connected]

    def _wake(self, now_ms: int) -> list[PresenceEffect]:
        """Send what is due, leave who is gone, and say which tower is away."""
        if self._began_ms is None:
            self._began_ms = now_ms
        if self._announce_due_ms is not None and self._announce_due_ms > now_ms:
            return []
        gone = [*self._towers_away(now_ms), *self._leave_gone(now_ms)]
        return [self._announce(now_ms), *gone, *self._try_again(now_ms)]

    def _is_refused(self, endpoint: str, now_ms: int) -> list[PresenceEffect]:
        if endpoint not in self._peers and endpoint not in self._echo_ms:
            return []
        told = endpoint in self._refused
        again_ms = self._settings.refused_ms
        self._refused[endpoint] = now_ms + again_ms
        return [] if told else [Refused(endpoint, again_ms)]

    def _lacks_socket(self, endpoint: str, now_ms: int) -> list[PresenceEffect]:
        """Let a guest make room, at once as it would come again; or try later."""
        peer = self._peers.get(endpoint)
        if peer is None:
            return []
        if endpoint in self._guests or not self._guests:
            peer.again_ms = now_ms + self._settings.refused_ms
            return []
        return [*self._leave(next(reversed(self._guests))), ConnectAgain(endpoint, peer.key)]

    def _try_again(self, now_ms: int) -> list[PresenceEffect]:
        due = [one for one, ms in self._refused.items() if ms is not None and ms <= now_ms]
        self._refused.update(dict.fromkeys(due))
        for endpoint, peer in self._peers.items():
            if peer.again_ms is not None and peer.again_ms <= now_ms:
                peer.again_ms = None
                due.append(endpoint)
        keys = {one: self._peers[one].key for one in due if one in self._peers}
        return [ConnectAgain(one, keys.get(one, "")) for one in due]

    def _announce(self, now_ms: int) -> Announce:
        self._announced_ms = now_ms
        self._announce_due_ms = now_ms + self._settings.beacon_interval_ms
        return Announce(self._beacon)

    def _greeting_ms(self, now_ms: int) -> int:
        """When a newcomer may be told of us, as others were just now."""
        if self._announced_ms is None:
            return now_ms
        gap_ms = min(GREETING_MS * (self.peers - 1), self._settings.beacon_interval_ms)
        return self._announced_ms + gap_ms

    def _tower_heard(self, event: Heard, now_ms: int) -> list[PresenceEffect]:
        endpoint = event.beacon.endpoint
        effects = self._twin(event.tower, endpoint)
        if not self._may_be_at(endpoint):
            return effects
        if not self._towers_heard(now_ms):
            # Nobody could be heard meanwhile: their silence counts from now.
            for peer in self._peers.values():
                peer.seen_ms = now_ms
        self._echo_ms[event.tower] = now_ms
        self._refused.pop(event.tower, None)
        self._own_endpoints[event.tower] = endpoint
        if endpoint in self._peers:
            effects += self._leave(endpoint)
        if event.tower in self._away:
            self._away.remove(event.tower)
            effects.append(TowerBack(event.tower))
        return effects

    def _may_be_at(self, endpoint: str) -> bool:
        """Whether this node is there, as far as it knows: which host it has a tower may say."""
        host, port = self._beacon.host, self._beacon.port
        return endpoint.endswith(f":{port}") if port else endpoint == host

    def _twin(self, tower: str, endpoint: str) -> list[PresenceEffect]:
        """A node has one endpoint at a time; of two nodes a tower tells in turn."""
        last, former = self._told_endpoints.setdefault(tower, (endpoint, ""))
        if endpoint == last:
            return []
        self._told_endpoints[tower] = endpoint, last
        if endpoint != former or self._twin_told:
            return []
        self._twin_told = True
        return [TwinHeard(last)]

    def _towers_heard(self, now_ms: int) -> int:
        oldest_ms = now_ms - self._settings.peer_timeout_ms
        return sum(echo is not None and echo > oldest_ms for echo in self._echo_ms.values())

    def _towers_away(self, now_ms: int) -> list[PresenceEffect]:
        assert self._began_ms is not None
        heard = self._towers_heard(now_ms)
        never_ms = self._began_ms + self._settings.first_ms
        patience_ms = self._settings.peer_timeout_ms
        away = [
            tower
            for tower, echo_ms in self._echo_ms.items()
            if tower not in self._away
            and (never_ms if echo_ms is None else echo_ms + patience_ms) <= now_ms
        ]
        self._away.update(away)
        return [TowerAway(tower, heard) for tower in away]

    def _leave_gone(self, now_ms: int) -> list[PresenceEffect]:
        settings = self._settings
        heard = self._towers_heard(now_ms)
        patience_ms = settings.peer_timeout_ms if heard else settings.reunion_ms
        gone = [
            endpoint
            for endpoint, peer in self._peers.items()
            if not peer.connected and now_ms - peer.seen_ms >= patience_ms
        ]
        return [effect for endpoint in gone for effect in self._leave(endpoint)]

    def _leave(self, endpoint: str) -> list[PresenceEffect]:
        peer = self._peers.pop(endpoint)
        self._guests.pop(endpoint, None)
        self._refused.pop(endpoint, None)
        return [Disconnect(endpoint), *_left(peer.address)]


def _left(address: str) -> list[PresenceEffect]:
    return [PeerLeft(address)] if address else []


def tower_beacon(
    beacon: NodeBeacon, peer_host: str, reach: Reach = Reach.NETWORK
) -> TowerBeacon | None:
    """What a tower publishes for a node's beacon; None if the node cannot be reached by all.

    Args:
        beacon: As the node sent it.
        peer_host: The host its connection comes from, used if it names none; may be empty.
        reach: How far those may be away who hear the tower.
    """
    host = beacon.host or peer_host
    if ":" in host and not host.startswith("[") and beacon.port:
        host = f"[{host}]"
    try:
        endpoint = peer_endpoint(f"tcp://{host}:{beacon.port}" if beacon.port else host)
    except WireError:
        return None
    if Reach.of_node(str(endpoint)) < reach:
        return None
    return TowerBeacon(beacon.address, str(endpoint), beacon.key, beacon.kind == OF_GUEST)
