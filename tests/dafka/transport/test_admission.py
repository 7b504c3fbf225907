"""Whose subscriptions a publisher heeds where there are keys, over real sockets."""

from __future__ import annotations

import threading

import pytest
import zmq
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.model import TowerEndpoints
from dafka.protocol.effects import Dropped
from dafka.protocol.events import PeerListened
from dafka.transport.access import Access, Rights, fingerprint
from dafka.transport.curve import authenticator, prove
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.mesh import Mesh
from dafka.wire import messages, rfc46
from dafka.wire.messages import MessageId

pytestmark = pytest.mark.net

WAIT_MS = 60_000
ORDERS = rfc46.prefix(MessageId.HEAD, "orders")


class Keyed:
    """A mesh in a cluster with keys, whose publisher is read only when the test says so."""

    def __init__(self, endpoints, opened):
        cluster, reader, nobody = new_keys(), new_keys(), new_keys()
        access = Access(cluster[0], {reader[0]: Rights(read=("orders",)), nobody[0]: Rights()})
        self._keys = Credentials(access, *cluster)
        self.mesh = opened(Mesh(Cluster(endpoints.inbound, credentials=self._keys), "AA"))
        self._publisher = self.mesh._publisher
        self._asked = 0
        self._opened = opened
        holders = [Credentials(access, *one) for one in (reader, nobody)]
        self.reader, self.nobody = (self._peer(opened, one) for one in holders)
        self._holders = dict(zip((self.reader, self.nobody), holders, strict=True))

    def _peer(self, opened, credentials):
        """A peer that has been heard of, so that it is connected."""
        peer = opened(zmq.Context.instance().socket(zmq.XSUB))
        prove(peer, credentials, self._keys.public)
        peer.connect(self._publisher.last_endpoint.decode())
        peer.send(b"\1L")
        self._arrived(peer)
        self.read()
        return peer

    def _arrived(self, peer):
        """Wait for something, also where the peer has to connect again: its thread looks here."""
        for _ in range(WAIT_MS // 100):
            peer.poll(0)
            if self._publisher.poll(100):
                return
        raise AssertionError("nothing has arrived")

    def queue(self, peer, frame):
        """Have it arrive behind what has, unread: ZeroMQ takes it in when it is asked for news."""
        peer.send(frame)
        for _ in range(20):  # a busy machine takes its time
            self._arrived(peer)
            threading.Event().wait(0.01)

    def read(self):
        return list(self.mesh.receive(self._publisher, 0))

    def hears(self, peer):
        """Whether a head of orders is sent to a peer, and nothing else."""
        self._asked += 1
        end = f"S{self._asked}"
        for topic in ("orders", "audit"):
            self.mesh.publish(messages.Head(topic, "AA", 7))
        self.mesh.publish(messages.StoreHello(end, "S1"))
        found = []
        while f"L{end}".encode() not in found:
            assert peer.poll(WAIT_MS)
            found.append(peer.recv_multipart()[0])
        own = found[-2:-1] if found[-2:-1] == [b"Horders"] else []
        assert b"Haudit" not in found
        return own != []

    def sent_to(self, peer):
        """What a peer has been sent so far."""
        found = []
        while peer.poll(0):
            found.append(peer.recv_multipart()[0])
        return found

    def again(self, peer):
        """Another connection of the reader, or of who has a right to nothing."""
        return self._peer(self._opened, self._holders[peer])

    def is_shut_out(self, peer):
        """Whether who has the key of a peer is not let in."""
        return authenticator.is_shut_out(self._holders[peer].public)

    def mark(self, peer):
        """What the addresses begin with of who has the key of this one."""
        return fingerprint(self._holders[peer].public)


@pytest.fixture
def keyed(free_ports, opened):
    return Keyed(TowerEndpoints.parse(f"tcp://127.0.0.1:{free_ports(2)}"), opened)


def cut(reason):
    return REGISTRY.get_sample_value("dafka_connections_cut_total", {"reason": reason}) or 0


def test_who_has_connected_again_is_answered_when_the_end_before_is_noticed(keyed):
    """Such a requester was not answered any more, as long as its new connection lived."""
    address = keyed.mark(keyed.reader) + "A" * 16
    subscription = b"\1" + rfc46.prefix(MessageId.DIRECT_RECORDS, address)
    other = keyed.again(keyed.reader)
    for peer in (keyed.reader, other):
        keyed.queue(peer, subscription)
        keyed.read()
    keyed.reader.close(0)
    assert keyed._publisher.poll(WAIT_MS)
    keyed.read()
    assert keyed.mesh.takes(address)
    other.close(0)
    assert keyed._publisher.poll(WAIT_MS)
    keyed.read()
    assert not keyed.mesh.takes(address)


def test_who_may_not_listen_for_answers_ends_nobodys(keyed):
    address = keyed.mark(keyed.reader) + "A" * 16
    prefix = rfc46.prefix(MessageId.DIRECT_RECORDS, address)
    for peer in (keyed.reader, keyed.nobody):
        keyed.queue(peer, b"\1" + prefix)
        keyed.read()
    keyed.queue(keyed.nobody, b"\0" + prefix)
    keyed.read()
    assert keyed.mesh.takes(address)


def test_who_may_read_is_subscribed_and_nobody_else(keyed):
    keyed.queue(keyed.nobody, b"\1" + ORDERS)
    keyed.queue(keyed.reader, b"\1" + ORDERS)
    listened = PeerListened(MessageId.HEAD, "orders")
    assert keyed.read() == [Dropped("subscription not permitted"), listened]
    assert (keyed.hears(keyed.reader), keyed.hears(keyed.nobody)) == (True, False)


@pytest.mark.parametrize("garbage", [b"", b"\2" + ORDERS, b"hello"], ids=repr)
def test_garbage_does_not_give_one_peers_subscription_to_another(keyed, garbage, until):
    """And who subscribed meanwhile is subscribed in the end; he stayed deaf for ever."""
    keyed.queue(keyed.nobody, garbage)
    keyed.queue(keyed.reader, b"\1" + ORDERS)
    keyed.queue(keyed.nobody, b"\1" + ORDERS)
    unclear = Dropped("subscription not permitted")
    assert keyed.read() == [Dropped("no subscription"), unclear, unclear]
    # He connects again by himself, as his connection is cut, and says what he listens for as soon
    # as his thread looks.
    listened = PeerListened(MessageId.HEAD, "orders")
    until(lambda: [keyed.reader.poll(10)] and listened in keyed.read())
    assert keyed.hears(keyed.reader)
    assert b"Horders" not in keyed.sent_to(keyed.nobody)


def test_who_sends_garbage_is_cut_and_not_let_in_at_once(keyed, until):
    before = cut("no subscription")
    keyed.queue(keyed.nobody, b"hello")
    assert keyed.read() == [Dropped("no subscription")]
    assert (keyed.is_shut_out(keyed.nobody), keyed.is_shut_out(keyed.reader)) == (True, False)
    until(lambda: cut("no subscription") == before + 1)


@pytest.mark.parametrize("verb", [b"\0", b"\2"], ids=repr)
def test_nobody_unsubscribes_another_peer(keyed, verb):
    keyed.queue(keyed.reader, b"\1" + ORDERS)
    keyed.queue(keyed.nobody, verb + ORDERS)
    keyed.read()
    if not keyed.is_shut_out(keyed.nobody):  # who has sent garbage says nothing more
        keyed.queue(keyed.nobody, b"hello")
        keyed.queue(keyed.nobody, b"\0" + ORDERS)
        keyed.read()
    assert keyed.is_shut_out(keyed.nobody)
    assert keyed.hears(keyed.reader)
