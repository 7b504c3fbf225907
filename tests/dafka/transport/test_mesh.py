from __future__ import annotations

import random
import subprocess
import sys
from contextlib import suppress

import pytest
import zmq

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.model import SLOTS, Endpoint, Slots, TowerEndpoints
from dafka.process.clock import now_ms
from dafka.protocol.effects import Dropped
from dafka.protocol.events import PeerLeft, PeerListened, Received, ReceivedTogether
from dafka.protocol.presence import Disconnect, Heard, PresenceSettings, Refused
from dafka.transport import sockets
from dafka.transport.access import Access, Rights, fingerprint
from dafka.transport.curve import guard
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.mesh import STARTING_MS, Mesh
from dafka.transport.tower import TowerSockets
from dafka.wire import messages, rfc46
from dafka.wire.beacon import TowerBeacon
from dafka.wire.dialect import SETTLING_MS, Company
from dafka.wire.messages import MessageId

pytestmark = pytest.mark.net

WAIT_MS = 60_000
CALL = messages.DirectHead("me", "orders", "AB" * 16, 7)


class World:
    """A tower and meshes, all turned by the test's own thread."""

    def __init__(self, endpoints, opened):
        self.endpoints = endpoints
        self.tower = opened(TowerSockets(endpoints))
        self._opened = opened
        self.meshes = []

    def mesh(self, address, **settings):
        settings = PresenceSettings(beacon_interval_ms=50, **settings)
        mesh = Mesh(Cluster(self.endpoints.inbound, presence=settings), address)
        self.meshes.append(self._opened(mesh))
        return mesh

    def turn(self):
        """Relay beacons, and return what each mesh has received."""
        self.tower.relay()
        found = []
        for mesh in self.meshes:
            mesh.flush()
            if (mesh.wakeup_ms() or 0) <= now_ms():
                mesh.wake(now_ms())
            found.append(
                [event for socket in mesh.pollable for event in mesh.receive(socket, now_ms())]
            )
        return found


def messages_in(events):
    """What has arrived, by itself or together."""
    inside = {Received: lambda e: (e.message,), ReceivedTogether: lambda e: e.messages}
    return [one for e in events if type(e) in inside for one in inside[type(e)](e)]


@pytest.fixture
def world(free_ports, opened):
    return World(TowerEndpoints.parse(f"tcp://127.0.0.1:{free_ports(2)}"), opened)


@pytest.fixture
def pair(world, until):
    """A mesh that speaks, and one that listens to what is called "me"."""
    speaker, listener = world.mesh("AA"), world.mesh("BB")
    listener.listen(MessageId.DIRECT_HEAD, "me")
    until(lambda: PeerListened(MessageId.DIRECT_HEAD, "me") in world.turn()[0])
    until(lambda: world.turn() and all(mesh._watch is None for mesh in world.meshes))
    return speaker, listener


def test_nodes_find_each_other_through_the_tower(world, until):
    for address in ("AA", "BB", "CC"):
        world.mesh(address)
    until(lambda: world.turn() and [mesh.peers for mesh in world.meshes] == [2, 2, 2])


def test_what_is_published_arrives_where_it_is_listened_to(world, pair, until):
    speaker, _ = pair
    speaker.publish(CALL)
    until(lambda: Received(CALL) in world.turn()[1])


def test_what_is_not_listened_to_any_more_does_not_arrive(world, pair, until):
    speaker, listener = pair
    heard = []

    def said(topic, sequence):
        speaker.publish(messages.Head(topic, "AA", sequence))
        heard.extend(messages_in(world.turn()[1]))
        return messages.Head(topic, "AA", sequence) in heard

    listener.listen(MessageId.HEAD, "orders")
    until(lambda: said("orders", 1))
    listener.unlisten(MessageId.HEAD, "orders")
    listener.listen(MessageId.HEAD, "other")
    until(lambda: said("other", 2))
    said("orders", 3)
    until(lambda: said("other", 4))
    assert messages.Head("orders", "AA", 3) not in heard


def test_what_only_begins_alike_arrives_under_its_own_name(world, pair, until):
    # ZeroMQ compares beginnings; the machines compare names, so they must arrive whole.
    speaker, _ = pair
    for requester in ("m", "you", "Me", "mee", "me"):
        speaker.publish(messages.DirectHead(requester, "orders", "AB" * 16, 7))
    found = []

    def arrived():
        found.extend(message.requester for message in messages_in(world.turn()[1]))
        return "me" in found

    until(arrived)
    assert found == ["mee", "me"]


def test_what_is_published_together_travels_together(world, pair, until):
    sent = [messages.DirectHead("me", "orders", "AB" * 16, number) for number in range(5)]
    for message in sent:
        pair[0].publish(message)
    assert until(lambda: world.turn()[1]) == [ReceivedTogether(tuple(sent))]


def test_of_what_takes_long_to_read_less_is_taken_in_at_once(world, pair, until):
    speaker, listener = pair
    listener.listen(MessageId.GET_HEADS, "")
    until(lambda: PeerListened(MessageId.GET_HEADS, "") in world.turn()[0])
    every_other = Slots.of(range(slot, slot + 1) for slot in range(0, SLOTS, 2))
    question, others = messages.GetHeads("orders", "AA", every_other), 20
    speaker.publish(question)
    until(lambda: Received(question) in world.turn()[1])
    for _ in range(others):
        speaker.publish(question)
    came = []

    def all_came():
        arrived = (listener.receive(socket, now_ms()) for socket in listener.pollable)
        came.extend(len(messages_in(events)) for events in arrived)
        return sum(came) == others

    until(all_came)
    assert max(came) <= 8


def test_heads_reach_who_listens_for_a_topic_and_who_listens_for_all(world, pair, until):
    speaker, listener = pair
    listener.listen(MessageId.HEAD, "orders")
    world.mesh("CC").listen(MessageId.HEAD, "")
    known, heard = set(), {1: [], 2: []}
    until(lambda: known.update(world.turn()[0]) or {"orders", ""} <= {one.key for one in known})
    sent = [messages.Head(topic, "AA", 1) for topic in ("orders", "other", "payments")]
    for head in sent:
        speaker.publish(head)

    def arrived():
        found = world.turn()
        for number, so_far in heard.items():
            so_far += messages_in(found[number])
        return heard[1] and len(heard[2]) == 3

    until(arrived)
    assert heard[1] == sent[:1]
    assert sorted(heard[2], key=str) == sent


def test_messages_of_one_peer_arrive_in_order(world, pair, until):
    speaker, _ = pair
    sent = [messages.DirectHead("me", "orders", "AB" * 16, number) for number in range(600)]
    for message in sent:
        speaker.publish(message)
    found = []

    def arrived():
        found.extend(messages_in(world.turn()[1]))
        return len(found) == 600

    until(arrived)
    assert found == sent


@pytest.mark.parametrize(
    "change",
    [
        lambda frames: [*frames, b"2", b"3", b"4", b"5"],
        lambda frames: [frames[0], b"\xff" * 5],
        lambda frames: frames[:1],
    ],
    ids=["four frames more", "another header", "a topic alone"],
)
def test_garbage_is_dropped_and_what_follows_it_is_not(world, pair, until, change):
    speaker, _ = pair
    good = rfc46.encode(CALL)
    speaker._publisher.send_multipart(change(good))
    speaker._publisher.send_multipart(good)
    found = []

    def arrived():
        found.extend(world.turn()[1])
        return Received(CALL) in found

    until(arrived)
    assert [type(event) for event in found] == [Dropped, Received]


@pytest.mark.parametrize(
    "frames",
    [[b""], [b"\0\0\0\0\0"], [b"", b"", b"", b"", b""], [b"not a message"]],
    ids=repr,
)
def test_what_has_no_signature_is_dropped(world, opened, frames):
    stranger = opened(zmq.Context.instance().socket(zmq.PUB))
    port = stranger.bind_to_random_port("tcp://127.0.0.1")
    mesh = world.mesh("AA")
    # No node listens to everything; one that did would not fall over either.
    mesh._subscribers.subscribe(b"")
    mesh._subscribers.connect(f"tcp://127.0.0.1:{port}", "")
    found = []
    while not found:
        stranger.send_multipart(frames)
        mesh._subscribers.sockets[0].poll(20)
        found = world.turn()[0]
    assert all(isinstance(event, Dropped) for event in found)


def test_bad_beacons_of_a_tower_are_ignored(world, until):
    for address in ("AA", "BB"):
        world.mesh(address)
    evil = [[b"B"], [b"B", b"EE", b"nowhere"], [b"B", b"", b"tcp://h:1"], [b"W", b""], [b"W"] * 9]
    # Not even ZeroMQ would try the first, and with the others it would wait for a name server.
    hosts = b"-", b"...", b"_", b"no-such-host.invalid", b"300.0.0.1", b"[:::]"
    evil += [[b"B", b"EE", b"tcp://%b:1" % host] for host in hosts]

    def shouts():
        for frames in evil:
            world.tower._outbound.send_multipart(frames)
        world.turn()
        return all(mesh.peers == 1 for mesh in world.meshes)

    until(shouts)
    world.turn()
    assert [mesh.peers for mesh in world.meshes] == [1, 1]


CONNECT_TO_EACH = """
import os, sys
from dafka.transport import sockets
subscriber = sockets.subscriber()
for endpoint in sys.argv[1:]:
    sockets.connect(subscriber, endpoint)
    subscriber.disconnect(endpoint)
print(len(sys.argv) - 1, flush=True)
os._exit(0)  # not waiting for the name server
"""


def test_whatever_is_an_endpoint_can_be_connected_to():
    chance = random.Random(3)
    endpoints = []
    while len(endpoints) < 300:
        host = "".join(chance.choices("aZ09.-_", k=chance.randint(1, 12)))
        if chance.random() < 0.3:
            host = "[" + "".join(chance.choices("aF09:.", k=chance.randint(1, 30))) + "]"
        with suppress(MisuseError):
            endpoints.append(str(Endpoint.parse(f"tcp://{host}:{chance.randint(1, 65_535)}")))
    command = [sys.executable, "-c", CONNECT_TO_EACH, *endpoints]
    assert subprocess.run(command, capture_output=True, check=False).stdout == b"300\n"


def test_one_peer_too_many_is_not_connected_to(world, until):
    for address in ("AA", "BB", "CC"):
        world.mesh(address, peers_max=1)
    found = []

    def refused():
        found.extend(event for events in world.turn() for event in events)
        return Dropped("too many peers") in found

    until(refused)
    assert all(mesh.peers <= 1 for mesh in world.meshes)


@pytest.mark.parametrize("endpoint", ["inproc://AB.1", "ipc://nowhere"])
def test_of_what_it_could_not_reach_it_takes_no_notice(world, until, endpoint):
    mesh = world.mesh("AA")
    found = []

    def told():
        world.tower._outbound.send_multipart([b"B", b"BB", endpoint.encode()])
        found.extend(world.turn()[0])
        return found

    until(told)
    assert set(found) == {Dropped("beacon endpoint")}
    assert mesh.peers == 0


def test_a_peer_that_is_announced_by_a_name_is_connected_to_when_that_is_known(world, until):
    mesh, other = world.mesh("AA"), world.mesh("BB")
    port = other._endpoint.rpartition(":")[2].encode()

    def connected():
        world.tower._outbound.send_multipart([b"B", b"CC", b"tcp://localhost:" + port])
        world.turn()
        return f"tcp://127.0.0.1:{port.decode()}" in mesh._presence._peers

    mesh._presence._peers.clear()
    until(connected)


@pytest.fixture
def among_others(world):
    """Makes a mesh that has been woken first so long ago, and heard of none but another's."""

    def made(since_ms, **settings):
        there = Cluster(world.endpoints.inbound, presence=PresenceSettings(beacon_interval_ms=50))
        mesh = Mesh(there, "AA", **settings)
        world.meshes.append(world._opened(mesh))
        assert Company.OTHER not in mesh.wake(now_ms() - since_ms)
        mesh.publish(CALL)
        mesh._watch.subscribed(b"HBB\0")
        mesh.wake(now_ms() - SETTLING_MS)
        return mesh

    return made


@pytest.mark.parametrize(
    ("since_ms", "refuses_others"), [(2 * SETTLING_MS, False), (2 * STARTING_MS, True)]
)
def test_a_node_among_others_says_nothing_and_goes_on(
    world, among_others, until, since_ms, refuses_others
):
    mesh = among_others(since_ms, refuses_others=refuses_others)
    assert Company.OTHER in mesh.wake(now_ms())
    assert Company.OTHER not in mesh.wake(now_ms()), "once"
    assert mesh._watch.held
    late = world.mesh("CC")
    late.listen(MessageId.DIRECT_HEAD, "me")
    until(lambda: world.turn() and mesh._watch is None)


def test_what_an_application_opens_among_others_ends_with_what_to_say(among_others):
    mesh = among_others(2 * SETTLING_MS, refuses_others=True)
    with pytest.raises(MisuseError, match="say wire libdafka"):
        mesh.wake(now_ms())


def test_a_host_of_another_machine_is_refused(world):
    with pytest.raises(MisuseError, match="cannot bind a node at"):
        Mesh(Cluster(world.endpoints.inbound, host="192.0.2.1", insecure=True), "AA")


def test_for_who_is_no_guest_guests_leave_sockets_and_for_an_unknown_key_nobody(world, opened):
    """Who had found no socket was never tried again, as long as it was heard."""
    cluster, *writers, unknown = (new_keys() for _ in range(5))
    access = Access(cluster[0], {public: Rights(write=("orders",)) for public, _ in writers})
    credentials = Credentials(access, *cluster)
    mesh = opened(Mesh(Cluster(world.endpoints.inbound, credentials=credentials), "AA"))
    mesh._subscribers._senders_max = 3  # one is the cluster's

    def hears(number, key, *, guest=False):
        beacon = TowerBeacon(f"P{number}", f"tcp://127.0.0.1:{number}", key, guest)
        told = mesh._presence.handle(Heard(beacon, world.endpoints.inbound), 0)
        return mesh._perform(told, 0)

    assert hears(1, writers[0][0], guest=True) == hears(2, writers[1][0], guest=True) == []
    assert hears(3, unknown[0]) == [Dropped("beacon key")]
    left = [Disconnect("tcp://127.0.0.1:2"), PeerLeft("P2")]
    assert hears(4, writers[2][0]) == [Dropped("too many peers"), *left]
    assert mesh._subscribers._connected.keys() == {f"tcp://127.0.0.1:{port}" for port in (1, 4)}


def test_a_tower_that_refuses_only_what_announces_is_tried_again(free_ports, opened, until):
    """It ended between the two, and knew the key when it was back; nobody looked at this one."""
    endpoints = TowerEndpoints.parse(f"tcp://127.0.0.1:{free_ports(2)}")
    cluster, me = new_keys(), new_keys()
    knows, knew = Access(cluster[0], {me[0]: Rights()}), Access(cluster[0], {})
    settings = PresenceSettings(beacon_interval_ms=50, refused_ms=100)
    own = Credentials(knows, *me)
    mesh = opened(Mesh(Cluster(endpoints.inbound, credentials=own, presence=settings), "N"))
    before = opened(sockets.beacon_subscriber())
    guard(before, Credentials(knew, *cluster))
    sockets.bind(before, endpoints.inbound)

    def turn():
        return [
            *(mesh.wake(now_ms()) if (mesh.wakeup_ms() or 0) <= now_ms() else ()),
            *(one for socket in mesh.pollable for one in mesh.receive(socket, now_ms())),
        ]

    until(lambda: Refused(endpoints.inbound, 100) in turn())
    before.close(0)

    def started():
        with suppress(MisuseError):  # what was closed may take its time
            return opened(TowerSockets(endpoints, Credentials(knows, *cluster)))

    tower = until(started)
    until(lambda: [turn()] and tower.relay()[0])


def test_with_keys_nobody_leaves_under_the_address_of_another_key(free_ports, opened, until):
    endpoints = TowerEndpoints.parse(f"tcp://127.0.0.1:{free_ports(2)}")
    cluster, mirror = new_keys(), new_keys()
    credentials = Credentials(Access(cluster[0], {mirror[0]: Rights(mirror=("",))}), *cluster)
    tower = opened(TowerSockets(endpoints, credentials))
    mesh = opened(Mesh(Cluster(endpoints.inbound, credentials=credentials), "AA"))
    own = fingerprint(mirror[0])
    said = [(name, b"tcp://127.0.0.1:9", mirror[0]) for name in ("F1", "F2", own + "1", own + "2")]
    said += [(name, b"tcp://127.0.0.1:10", cluster[0]) for name in ("S1", "S2")]
    left = []

    def turn():
        tower.relay()
        for name, endpoint, key in said:
            tower._outbound.send_multipart([b"B", name.encode(), endpoint, key.encode()])
        found = [one for socket in mesh.pollable for one in mesh.receive(socket, now_ms())]
        left.extend(one.address for one in found if isinstance(one, PeerLeft))
        return left.count("S1") > 1  # so all that is said was heard before

    until(turn)
    assert set(left) == {own + "1", own + "2", "S1", "S2"}


def test_who_ends_has_left_behind_the_last_that_it_has_said(world, pair, until):
    speaker, _ = pair
    said = [messages.DirectHead("me", "orders", "AB" * 16, number) for number in range(100)]
    for message in said:
        speaker.publish(message)
    speaker.flush()
    world.meshes.remove(speaker)
    speaker.close(WAIT_MS)
    found = []
    until(lambda: found.extend(world.turn()[0]) or PeerLeft("AA") in found)
    before = found[: found.index(PeerLeft("AA"))]
    assert messages_in(before) == said
