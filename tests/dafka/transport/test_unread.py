"""What peers do not read is bounded, for each and for all, and comes back when they read or go."""

from __future__ import annotations

import pytest
import zmq

from dafka.transport import sockets
from dafka.transport.unread import COPIED_BYTES_MAX, Listening, Unread
from dafka.wire.messages import MessageId

pytestmark = pytest.mark.net

MIB = b"x" * (1 << 20)


@pytest.fixture
def bound():
    socket = sockets.router()
    socket.set(zmq.SNDHWM, 1_000)  # the bytes are to be the bound here
    socket.bind("tcp://127.0.0.1:*")
    yield socket
    socket.close(0)


@pytest.fixture
def peer(bound):
    """A function that connects a peer which reads nothing by itself."""
    dealers = []

    def peer(name):
        dealer = sockets.dealer()
        dealers.append(dealer)
        dealer.set(zmq.IDENTITY, name)
        dealer.connect(bound.get_string(zmq.LAST_ENDPOINT))
        dealer.send(b"here")
        assert bound.recv_multipart() == [name, b"here"]
        return dealer

    yield peer
    for dealer in dealers:
        dealer.close(0)


def sent(unread, name, most=200):
    """How many answers of 1 MiB it takes for a peer."""
    for number in range(most):
        if not unread.send(name.decode(), (name, MIB)):
            return number
    return most


def test_a_peer_that_reads_nothing_gets_its_share_and_others_theirs(bound, peer):
    unread = Unread(bound, peer_bytes_max=8 << 20, bytes_max=64 << 20)
    one, _ = peer(b"one"), peer(b"two")
    # What is in the kernel's hands and in the peer's is not ours any more.
    assert 8 <= sent(unread, b"one") < 40
    assert unread.held_bytes <= 8 << 20
    assert 8 <= sent(unread, b"two") < 40
    assert 8 << 20 < unread.held_bytes <= 16 << 20
    for _ in range(8):
        assert one.poll(5_000)
        one.recv()
    assert sent(unread, b"one", most=1) == 1


def test_all_together_have_a_bound(bound, peer):
    unread = Unread(bound, peer_bytes_max=8 << 20, bytes_max=20 << 20)
    peers = [peer(name) for name in (b"one", b"two", b"three", b"four")]
    for name in (b"one", b"two", b"three", b"four"):
        sent(unread, name)
    assert unread.held_bytes <= 20 << 20
    assert not unread.send("four", (b"four", MIB))
    for gone in peers[:3]:
        gone.close(0)
    deadline = 100
    while not unread.send("four", (b"four", b"x" * COPIED_BYTES_MAX)) and deadline:
        deadline -= 1
        bound.poll(50)
    assert deadline, "what was for those who have gone is still counted"


def test_after_an_answer_was_dropped_no_other_like_it_is_made_in_vain(bound, peer):
    unread = Unread(bound, peer_bytes_max=8 << 20, bytes_max=64 << 20)
    one = peer(b"one")
    while unread.room("one"):
        assert unread.held_bytes <= 8 << 20
        unread.send("one", (b"one", MIB))
    assert unread.room("other") >= 1 << 20
    assert unread.send("one", (b"one", b"small"))
    deadline = 100
    while not unread.room("one") and deadline:
        deadline -= 1
        if one.poll(50):  # what was read last may be given back a moment later
            one.recv()
    assert deadline, "it has read all, and there is room"


def test_small_answers_are_not_counted(bound, peer):
    unread = Unread(bound, peer_bytes_max=0, bytes_max=0)
    dealer = peer(b"one")
    assert unread.send("one", (b"one", b"small"))
    assert dealer.recv() == b"small"
    assert unread.held_bytes == 0


def test_the_first_may_be_larger_than_the_share(bound, peer):
    unread = Unread(bound, peer_bytes_max=1_000, bytes_max=1_000)
    dealer = peer(b"one")
    assert unread.send("one", (b"one", MIB))
    assert dealer.recv() == MIB


def test_who_listens_for_answers_is_known_until_nobody_does():
    listening = Listening()
    assert "A" not in listening
    listening.listened(MessageId.HEAD, "A")
    assert "A" not in listening
    for message_id in (MessageId.DIRECT_RECORDS, MessageId.DIRECT_RECORD):
        listening.listened(message_id, "A")
        assert "A" in listening
        assert "B" not in listening
        listening.left(message_id, "A")
        assert "A" not in listening


def test_who_has_connected_twice_listens_until_both_have_ended():
    """With keys the end of the first one was taken for that of the last, and no FETCH answered."""
    listening = Listening(counted=True)
    for _ in range(2):
        listening.listened(MessageId.DIRECT_RECORDS, "A")
    assert not listening.left(MessageId.DIRECT_RECORDS, "A")
    assert "A" in listening
    assert listening.left(MessageId.DIRECT_RECORDS, "A")
    assert "A" not in listening
    assert listening.left(MessageId.HEAD, "orders")


@pytest.mark.parametrize("first", ["listened", "refused"])
def test_the_end_of_what_was_refused_is_nobodys(first):
    listening = Listening(counted=True)
    place = MessageId.DIRECT_RECORDS, "A"
    for name in (first, "refused", "listened"):
        getattr(listening, name)(*place)
    for _ in range(3):
        assert not listening.left(*place)
        assert "A" in listening


def test_what_is_refused_fills_no_memory():
    listening = Listening(counted=True, known_max=2)
    for key in "ABC":
        listening.refused(MessageId.DIRECT_RECORDS, key)
    listening.listened(MessageId.DIRECT_RECORDS, "D")
    assert "D" in listening
    assert not listening.left(MessageId.DIRECT_RECORDS, "D")
    assert "D" in listening


def test_who_listens_for_heads_is_known_apart():
    listening = Listening()
    listening.listened(MessageId.DIRECT_HEAD, "A")
    assert "A" not in listening
    assert listening.for_heads("A")
    assert not listening.for_heads("B")
    listening.left(MessageId.DIRECT_HEAD, "A")
    assert not listening.for_heads("A")


def test_who_listens_for_all_answers_gets_those_of_each():
    listening = Listening()
    listening.listened(MessageId.DIRECT_RECORDS, "")
    assert "A" in listening


def test_of_very_many_anybody_may_listen():
    listening = Listening(known_max=2)
    for key in "AB":
        listening.listened(MessageId.DIRECT_RECORDS, key)
    assert "C" in listening
    listening.left(MessageId.DIRECT_RECORDS, "A")
    assert "C" in listening
