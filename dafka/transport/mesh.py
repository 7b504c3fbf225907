"""A node's sockets: publisher and subscribers to its peers, and both ways to each of its towers.

Source: 46/DAFKA, Interconnection Model.
"""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from dafka.errors import MisuseError, RecordError, WireError
from dafka.limits import FETCH_ANSWER_BYTES_MAX, PEERS_MAX
from dafka.model import Reach, Shape, TowerEndpoints, mark_of, replace
from dafka.protocol.effects import Dropped
from dafka.protocol.events import PeerLeft, PeerListened, Received, ReceivedTogether, Woke
from dafka.protocol.foreign import Singles
from dafka.protocol.presence import (
    Announce,
    Connect,
    ConnectAgain,
    ConnectionChanged,
    ConnectionLacking,
    ConnectionRefused,
    Disconnect,
    Heard,
    PresenceEffect,
    PresenceMachine,
    PresenceSettings,
    Refused,
    TowerAway,
    TowerBack,
    TwinHeard,
)
from dafka.transport import sockets
from dafka.transport.access import taken
from dafka.transport.admission import Admission
from dafka.transport.binding import Binding
from dafka.transport.curve import checked_binding, guard, prove, refuse_keys_within
from dafka.transport.names import HostNames
from dafka.transport.sockets import ConnectionChange, Connections, receive_frames, send_frames
from dafka.transport.subscribers import Subscribers
from dafka.transport.unread import Listening, Unread
from dafka.wire.beacon import (
    BEACON,
    OF_GUEST,
    OF_STORE,
    WELCOME,
    NodeBeacon,
    decode_tower_beacon,
    echo_of,
    encode_node_beacon,
)
from dafka.wire.bundles import Bundles
from dafka.wire.dialect import DEFAULT_DIALECT, Company, DialectWatch, dialect
from dafka.wire.fields import WITH_CONTENT
from dafka.wire.messages import DirectRecords, MessageId
from dafka.wire.slots import SlotListeners

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dafka.cluster import Cluster
    from dafka.reasons import Reason
    from dafka.transport.access import Sender
    from dafka.wire.beacon import TowerBeacon
    from dafka.wire.messages import Message

MESSAGES_PER_TURN_MAX = 256
"""Messages taken in before timers and the other sockets get their turn."""

FIELDS_OF_ONE_BYTES = 512
"""What has more without any content counts for several: thousands of names take milliseconds."""

Notice = Disconnect | TowerAway | TowerBack | Refused | TwinHeard | Dropped | Company
"""What a node's operator is told of its mesh; a company when it has become another."""


STARTING_MS = 20_000
"""So long a node may refuse to be among others than its own; later it only says nothing."""


class Mesh:
    """One node's place in one cluster.

    Where there are keys it is known at which of its subscribers something arrives what may be taken
    from there.

    Args:
        cluster: Which.
        address: The node's identity.
        content: How this node publishes records; see `Cluster.shape`.
        store: Whether the node is a store, which guests connect to.
        refuses_others: Whether the node ends where it starts among none but nodes of the other
            dialect. Only for what an application has opened, who would wait in silence: others
            go on, as anybody who comes into an open cluster may write as he likes.

    Raises:
        MisuseError: The cluster has no tower, or one that is no endpoint; the host is not one of
            this machine's, or the port is taken; strangers could come in, or others who hear of
            the node could not connect to it; there is no such content.
    """

    def __init__(
        self,
        cluster: Cluster,
        address: str,
        *,
        content: str | None = None,
        store: bool = False,
        refuses_others: bool = False,
    ) -> None:
        if not cluster.towers:
            raise MisuseError("at least one tower is needed")
        shape = cluster.shape(content)
        credentials = cluster.credentials
        place, towers = _checked_places(cluster)
        self._credentials = credentials
        self._dialect = dialect(cluster.wire)
        self.foreign = shape is not Shape.BATCHES
        """Whether nodes of another make may be in it: they need HEAD at a regular interval."""
        mark = sockets.SINGLES_MARK if self.foreign else sockets.PUBLISH_MARK
        # Half of it where live batches need their place, too.
        self._singles = Singles(shape, mark if self.foreign else mark // 2)
        # What one node sends is its own affair; what the others can read is the cluster's.
        self._bundles = Bundles(self._dialect, written=cluster.shape() is Shape.BATCHES)
        self._publisher = sockets.publisher(mark)
        self._unread, self._listening = (
            Unread(self._publisher),
            Listening(counted=credentials is not None),
        )
        self._admission = Admission(self._publisher, credentials)
        self._slots, self._names = SlotListeners(), HostNames()
        self._watch = _watch_of(cluster)
        """Until it is known that somebody can read what this node sends."""
        self._company = Company.ALIKE if self._watch is None else Company.UNKNOWN
        """What `wake` has told of it."""
        self._refuses_others = refuses_others
        guard(self._publisher, credentials)
        self._subscribers = Subscribers(credentials)
        self._endpoint = ""
        """Where the publisher is bound, once it is."""
        self._kinds = _kinds(cluster, store=store)
        """Of its beacons."""
        self._beacons_out = {tower.inbound: sockets.beacon_publisher() for tower in towers}
        """One for each tower: a report does not say which refuses it, where that has a name."""
        self._beacons_in = {tower.inbound: sockets.beacon_subscriber() for tower in towers}
        """One for each tower: a beacon does not say which it came through."""
        self._towers = {socket: tower for tower, socket in self._beacons_in.items()}
        for socket in (*self._beacons_out.values(), *self._beacons_in.values()):
            prove(socket, credentials)
        self._doors = {} if credentials is None else _doors(self._beacons_out, self._beacons_in)
        """Where it is reported that a tower does not let this node in, with its name."""
        try:
            self._bind(place, address)
            told_host, told_port = place.told(cluster.advertise, self._endpoint)
        except MisuseError:
            self.close(0)
            raise
        if self._watch is not None:
            self.listen(*self._watch.mark(address))
        self._connect_towers(towers, address)
        key = "" if credentials is None else credentials.public
        beacon = NodeBeacon(address, told_host, told_port, key)
        self._presence = PresenceMachine(
            beacon, _presence(cluster, store=store), self._beacons_in, store=store
        )

    @property
    def pollable(self) -> list[zmq.Socket[bytes]]:
        """Sockets to poll for reading; when one is readable, `receive` from it."""
        subscribers = self._subscribers
        own = [self._publisher, *self._beacons_in.values(), *self._doors]
        return [*own, *subscribers.sockets, *subscribers.reports]

    @property
    def of_keys(self) -> list[zmq.Socket[bytes]]:
        """Those of `pollable` of which there are two for each key that writes.

        Only `receive` from one uses it, while `changed` is the same.
        """
        return [*self._subscribers.sockets[1:], *self._subscribers.reports[1:]]

    @property
    def changed(self) -> int:
        """How often `pollable` has become another, or one `of_keys` was used otherwise."""
        return self._subscribers.changed

    @property
    def peers(self) -> int:
        """How many peers this node is connected to."""
        return self._presence.peers

    def listen(self, message_id: MessageId, key: str) -> None:
        """Subscribe to messages of every peer, present and future."""
        self._subscribers.subscribe(self._dialect.prefix(message_id, key))

    def unlisten(self, message_id: MessageId, key: str) -> None:
        """Take back what `listen` with the same arguments asked for."""
        self._subscribers.unsubscribe(self._dialect.prefix(message_id, key))

    def publish(self, message: Message) -> Dropped | None:
        """Send a message to every peer that listens, some with the next `flush`.

        It is dropped for those whose queue is full.

        Returns:
            Why it cannot be sent, if it cannot.
        """
        if self._watch is not None:
            self._watch.hold(message)
            return None
        try:
            for part in self._slots.beside(self._singles.outbound(message)):
                frames = self._bundles.add(part)
                if frames is None:
                    continue
                if not isinstance(part, DirectRecords):
                    send_frames(self._publisher, frames)
                elif not self._unread.send(mark_of(part.requester), frames):
                    return Dropped("not read")
        except RecordError as error:
            return Dropped(error.reason)
        return None

    def takes(self, requester: str) -> bool:
        """Whether a requester listens, and has read enough, to be sent the answer to a FETCH."""
        room = self._unread.has_room(mark_of(requester), FETCH_ANSWER_BYTES_MAX)
        return room and requester in self._listening

    def listens(self, requester: str) -> bool:
        """Whether a requester listens for the heads that it asks for."""
        return self._listening.for_heads(requester)

    def flush(self) -> None:
        """Send what was published and waits for others of its kind; after every turn."""
        for frames in self._bundles.flush():
            send_frames(self._publisher, frames)

    def receive(
        self, socket: zmq.Socket[bytes], now_ms: int, wall_ms: int = 0
    ) -> Iterator[PeerListened | PeerLeft | Received | ReceivedTogether | Notice]:
        """Yield what has arrived at one of the sockets, at most a turn's worth.

        Args:
            socket: One of `pollable`. Only this one: to find out that another has nothing costs
                as much as taking a message.
            now_ms: Of the monotonic clock.
            wall_ms: The time of records that bring none.
        """
        if socket.closed:
            return  # by what came just before, in the same turn
        tower = self._towers.get(socket)
        if tower is not None:
            yield from self._receive_beacons(tower, socket, now_ms)
            return
        if socket in self._doors:
            name, door = self._doors[socket]
            refused = [(name, one) for _, one in door.changes() if one is ConnectionChange.REFUSED]
            yield from self._connections_changed(refused, now_ms)
            return
        reported = self._subscribers.reported(socket)
        if reported is not None:
            subscriber, changes = reported
            # What a peer has said while it was there comes first.
            yield from self._receive_published(subscriber, now_ms, wall_ms)
            yield from self._connections_changed(changes, now_ms)
            return
        if socket is self._publisher or self.foreign:
            # Who asks for single records is known by what it is subscribed to.
            yield from self._receive_subscriptions()
            self._open_up(now_ms)
        if socket is not self._publisher:
            yield from self._receive_published(socket, now_ms, wall_ms)

    def _connections_changed(
        self, changes: Iterable[tuple[str, ConnectionChange]], now_ms: int
    ) -> Iterator[PeerLeft | Notice]:
        for endpoint, change in changes:
            event = ConnectionChanged(endpoint, change is ConnectionChange.ALIVE)
            happened = ConnectionRefused(endpoint) if change is ConnectionChange.REFUSED else event
            yield from self._perform(self._presence.handle(happened, now_ms), now_ms)

    def _receive_published(
        self, socket: zmq.Socket[bytes], now_ms: int, wall_ms: int
    ) -> Iterator[Received | ReceivedTogether | Dropped]:
        arrived = self._receive_messages(self._subscribers.sender(socket), socket)
        yield from self._singles.inbound(arrived, wall_ms)
        self._open_up(now_ms)

    def _receive_messages(
        self, sender: Sender, socket: zmq.Socket[bytes]
    ) -> Iterator[Received | ReceivedTogether | Dropped]:
        count = 0
        while count < MESSAGES_PER_TURN_MAX:
            frames = receive_frames(socket)
            if frames is None:
                return
            try:
                messages = self._bundles.opened(frames)
            except WireError as error:
                messages = []
                yield Dropped(error.reason)
            if self._watch is not None:
                self._watch.arrived(frames, readable=bool(messages))
            allowed = taken(sender, messages)
            if len(allowed) == 1:
                yield Received(allowed[0])
            elif allowed:
                yield ReceivedTogether(tuple(allowed))
            for _ in range(len(messages) - len(allowed)):
                yield Dropped("not permitted")
            count += _weight(frames, messages)

    def wake(self, now_ms: int) -> list[PeerLeft | Notice]:
        """Send the beacons that are due, and leave the peers that are gone.

        Raises:
            MisuseError: Whoever else is in the cluster speaks the other dialect, and this node
                refuses that.
        """
        notices = self._perform(self._presence.handle(Woke(), now_ms), now_ms)
        company = self._open_up(now_ms)
        if company is not self._company:
            self._company = company
            notices.append(company)
            self._refuse(company, now_ms)
        return notices

    def wakeup_ms(self) -> int | None:
        """When the next beacon is due."""
        return self._presence.wakeup_ms()

    def close(self, linger_ms: int) -> None:
        """Leave the mesh; what was published may take `linger_ms` to go out."""
        self._names.close()
        self._subscribers.close()
        self._publisher.close(linger_ms)
        if self._endpoint.startswith("ipc:"):
            # ZeroMQ does it in the background, which the end of the process cuts short.
            Path(self._endpoint.removeprefix("ipc://")).unlink(missing_ok=True)
        for _, door in self._doors.values():
            door.close()
        for socket in (*self._beacons_out.values(), *self._beacons_in.values()):
            socket.close(0)

    def _bind(self, place: Binding, address: str) -> None:
        endpoint = place.endpoint(address)
        try:
            names = sockets.OPEN_NAMES if self._credentials is None else sockets.NAMES
            sockets.bind(self._publisher, endpoint, names)
        except zmq.ZMQError as error:
            raise MisuseError(f"cannot bind a node at {str(place)!r}: {error}") from error
        if place.scheme == "tcp":
            endpoint = sockets.unmapped(self._publisher.get_string(zmq.LAST_ENDPOINT))
        self._endpoint = endpoint

    def _connect_towers(self, towers: Iterable[TowerEndpoints], address: str) -> None:
        heard = (OF_STORE, echo_of(address)) if OF_GUEST in self._kinds else (BEACON,)
        for socket in self._beacons_in.values():
            for prefix in (*heard, WELCOME):
                socket.subscribe(prefix)
        for tower in towers:
            self._connect_tower(tower)

    def _connect_tower(self, tower: TowerEndpoints) -> None:
        sockets.connect(self._beacons_out[tower.inbound], tower.inbound)
        sockets.connect(self._beacons_in[tower.inbound], tower.outbound)

    def _open_up(self, now_ms: int) -> Company:
        """Say what has waited, once somebody is there who reads it; returns who is there."""
        if self._watch is None:
            return Company.ALIKE
        company = self._watch.company(now_ms)
        if company is Company.ALIKE:
            held, self._watch = self._watch.held, None
            for message in held:
                self.publish(message)
        return company

    def _refuse(self, company: Company, now_ms: int) -> None:
        if self._watch is None or company is not Company.OTHER or not self._refuses_others:
            return
        if self._watch.age_ms(now_ms) < STARTING_MS:
            towers = ", ".join(self._beacons_in)
            raise MisuseError(
                f"the nodes at {towers} write as the C implementation does, and would break at "
                "what this one sends: say wire libdafka (--wire, wire= in Python, wire: in the "
                "topology)"
            )

    def _receive_subscriptions(self) -> Iterator[PeerListened | Dropped]:
        for _ in range(MESSAGES_PER_TURN_MAX):
            try:
                frame = self._publisher.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                self._admission.all_read()
                return
            verb, prefix = frame.bytes[:1], frame.bytes[1:]
            if verb not in (b"\x00", b"\x01"):
                self._admission.disorder(frame)
                yield Dropped("no subscription")
                continue
            subscription = self._dialect.subscription(prefix)
            if self._watch is not None and verb == b"\x01":
                self._watch.subscribed(prefix)
            if verb == b"\x00":
                self._unsubscribe(prefix, subscription)
                continue
            if not self._admission.subscribe(frame, prefix, subscription):
                if subscription is not None:
                    self._listening.refused(*subscription)
                yield Dropped("subscription not permitted")
                continue
            if subscription is not None:
                self._singles.listened(*subscription)
                self._bundles.listened(*subscription)
                self._listening.listened(*subscription)
                self._slots.listened(*subscription)
                if self.foreign and subscription[0] is MessageId.HEAD:
                    # A C consumer asks at its first HEAD once and never again. We may not be
                    # connected to it yet, so it has to wait for the interval.
                    continue
                yield PeerListened(*subscription)

    def _unsubscribe(self, prefix: bytes, subscription: tuple[MessageId, str] | None) -> None:
        if subscription is not None and self._listening.left(*subscription):
            self._singles.left(*subscription)
        self._admission.unsubscribe(prefix)

    def _receive_beacons(
        self, tower: str, socket: zmq.Socket[bytes], now_ms: int
    ) -> Iterator[PeerLeft | Notice]:
        reach = Reach.of_tower(tower)
        for _ in range(MESSAGES_PER_TURN_MAX):
            frames = receive_frames(socket)
            if frames is None:
                return
            try:
                beacon = decode_tower_beacon(frames)
            except WireError as error:
                yield Dropped(error.reason)
                continue
            if beacon is None:
                continue
            if Reach.of_node(beacon.endpoint) < reach:
                yield Dropped("beacon endpoint")
                continue
            endpoint, unknown = self._names.resolved(beacon.endpoint, now_ms)
            if unknown:
                yield Dropped("beacon host")
            if endpoint is not None:
                if endpoint != beacon.endpoint:
                    beacon = dataclasses.replace(beacon, endpoint=endpoint)
                heard = Heard(beacon, tower, self._is_of_key(beacon))
                yield from self._perform(self._presence.handle(heard, now_ms), now_ms)

    def _is_of_key(self, beacon: TowerBeacon) -> bool:
        access = None if self._credentials is None else self._credentials.access
        return access is None or access.is_of(beacon.key, beacon.address)

    def _perform(self, effects: list[PresenceEffect], now_ms: int) -> list[PeerLeft | Notice]:
        """Do what presence asks for; returns what others have to know."""
        notices: list[PeerLeft | Notice] = []
        for effect in effects:
            match effect:
                case Announce():
                    self._announce(effect.beacon)
                case Connect() | ConnectAgain():
                    reason = self._connect(effect)
                    if reason is not None:
                        notices.append(Dropped(reason))
                    if reason == "too many peers":
                        lacking = ConnectionLacking(effect.endpoint)
                        effects += self._presence.handle(lacking, now_ms)  # done here, too
                case Disconnect():
                    self._subscribers.disconnect(effect.endpoint)
                    notices.append(effect)
                case TowerAway():
                    if effect.tower.startswith("inproc:"):
                        # There ZeroMQ does not look for it by itself.
                        self._connect_tower_again(effect.tower)
                    notices.append(effect)
                case PeerLeft() | TowerBack() | Refused() | TwinHeard() | Dropped():
                    notices.append(effect)
        return notices

    def _connect(self, to: Connect | ConnectAgain) -> Reason | None:
        if isinstance(to, ConnectAgain):
            if to.endpoint in self._beacons_in:
                self._connect_tower_again(to.endpoint)
                return None
            self._subscribers.disconnect(to.endpoint)
        return self._subscribers.connect(to.endpoint, to.key)

    def _connect_tower_again(self, name: str) -> None:
        tower = TowerEndpoints.parse(name)
        _disconnect(self._beacons_out[name], tower.inbound)
        _disconnect(self._beacons_in[name], tower.outbound)
        self._connect_tower(tower)

    def _announce(self, beacon: NodeBeacon) -> None:
        for kind in self._kinds:
            frames = encode_node_beacon(dataclasses.replace(beacon, kind=kind))
            for socket in self._beacons_out.values():
                send_frames(socket, frames)


def _weight(frames: Sequence[bytes], messages: Sequence[Message]) -> int:
    """How many messages one counts for."""
    if messages and messages[0].id in WITH_CONTENT:
        return 1
    octets = sum(map(len, frames))
    return max(1, len(messages), octets // FIELDS_OF_ONE_BYTES)


def _disconnect(socket: zmq.Socket[bytes], endpoint: str) -> None:
    try:
        socket.disconnect(endpoint)
    except zmq.ZMQError as error:
        # A connection of inproc ends with the other end, and is forgotten.
        if error.errno != errno.ENOENT:
            raise


def _doors(
    *ways: Mapping[str, zmq.Socket[bytes]],
) -> dict[zmq.Socket[bytes], tuple[str, Connections]]:
    doors = [(name, Connections(socket)) for way in ways for name, socket in way.items()]
    return {door.socket: (name, door) for name, door in doors}


def _checked_places(cluster: Cluster) -> tuple[Binding, list[TowerEndpoints]]:
    """Where a node is bound, and the towers: who hears of it there can reach it."""
    place = Binding.parse(cluster.host)
    if place.scheme == "tcp":
        checked_binding(place.host, cluster.credentials, insecure=cluster.insecure)
    towers = [TowerEndpoints.parse(tower) for tower in cluster.towers]
    place.check([tower.inbound for tower in towers], cluster.advertise)
    for endpoint in (place.scheme + ":", *(tower.inbound for tower in towers)):
        refuse_keys_within(endpoint, cluster.credentials)
    return place, towers


def _presence(cluster: Cluster, *, store: bool) -> PresenceSettings:
    """A store connects to all guests, who may be many, if nothing else is said."""
    told = cluster.presence
    if not store or told.peers_max is not None:
        return told
    return replace(told, peers_max=max(PEERS_MAX, sockets.store_peers_max()))


def _kinds(cluster: Cluster, *, store: bool) -> tuple[bytes, ...]:
    """What a node's beacons begin with; a store's second one is for guests, if any may be there."""
    if store:
        return (BEACON, OF_STORE) if cluster.may_have_guests else (BEACON,)
    return (OF_GUEST,) if cluster.is_guest else (BEACON,)


def _watch_of(cluster: Cluster) -> DialectWatch | None:
    """What a node begins with; None where nobody can be in the cluster who would break at it."""
    open_to_all = cluster.credentials is None and cluster.wire == DEFAULT_DIALECT
    return DialectWatch() if open_to_all else None
