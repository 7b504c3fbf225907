"""Answers that were sent and not read yet: how much of them one peer, and all, may have kept here.

And whose somebody listens for at all.

ZeroMQ's high-water marks count messages, and an answer has up to 8 MiB. What is sent without a copy
it gives back once it is in the kernel's hands, or dropped; so what it holds is known.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from dafka.limits import REQUESTERS_MAX, UNREAD_BYTES_MAX, UNREAD_PEER_BYTES_MAX
from dafka.transport.sockets import send_at_once
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import zmq

COPIED_BYTES_MAX = 16 * 1024
"""Smaller answers are copied, which is faster than to watch them: of those the marks are enough."""

ROOM_PARTS = 8
"""Such a part of what is left of its room a peer is given at once."""


class Unread:
    """What one socket's peers have not read.

    Args:
        socket: Answers are sent through it.
        peer_bytes_max: For one peer; one that has so much gets no more until it reads.
        bytes_max: For all.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        peer_bytes_max: int = UNREAD_PEER_BYTES_MAX,
        bytes_max: int = UNREAD_BYTES_MAX,
    ) -> None:
        self._socket = socket
        socket.copy_threshold = COPIED_BYTES_MAX
        self._peer_bytes_max, self._bytes_max = peer_bytes_max, bytes_max
        self._sent: dict[str, deque[tuple[zmq.MessageTracker, int]]] = {}
        """By peer, in the order they were sent, with their bytes."""
        self._held: dict[str, int] = {}
        """The sum for each of them."""
        self._dropped_bytes = 0
        """The last answer that had no room."""

    @property
    def held_bytes(self) -> int:
        """What all have not read, as it was known last."""
        return sum(self._held.values())

    def room(self, peer: str) -> int:
        """Bytes that an answer to a peer should have at most.

        0 while one like the last that was dropped would be dropped, too: to make it is lost work.

        A part of what is left of its share: many nodes of one key that read slowly get little each,
        and not some all and others nothing.
        """
        if not self.has_room(peer, self._dropped_bytes):
            return 0
        own = self._peer_bytes_max - self._held.get(peer, 0)
        left = min(own, self._bytes_max - self.held_bytes)
        return max(COPIED_BYTES_MAX, left // ROOM_PARTS)

    def send(self, peer: str, frames: Sequence[bytes]) -> bool:
        """Send an answer; False if this peer, or all together, have too much of them.

        Raises:
            zmq.ZMQError: The socket does not take it.
        """
        size = len(frames[-1])
        if size < COPIED_BYTES_MAX:
            send_at_once(self._socket, frames)
            return True
        if not self.has_room(peer, size):
            self._dropped_bytes = size
            return False
        tracker = send_at_once(self._socket, frames, track=True)
        assert tracker is not None
        self._sent.setdefault(peer, deque()).append((tracker, size))
        self._held[peer] = self._held.get(peer, 0) + size
        return True

    def has_room(self, peer: str, size: int) -> bool:
        """Whether a peer would be sent an answer of so many bytes."""
        self._look(peer)
        held = self._held.get(peer, 0)
        if held and held + size > self._peer_bytes_max:
            return False
        if self.held_bytes + size > self._bytes_max:
            for other in list(self._sent):
                self._look(other)
        return not self._held or self.held_bytes + size <= self._bytes_max

    def _look(self, peer: str) -> None:
        """See what of it has gone: first in, first out, but for several connections of one peer."""
        waiting = self._sent.get(peer)
        if waiting is None:
            return
        left = deque(one for one in waiting if not one[0].done)
        if left:
            self._sent[peer], self._held[peer] = left, sum(size for _, size in left)
        else:
            del self._sent[peer], self._held[peer]


SUBSCRIPTIONS_MAX = 3 * REQUESTERS_MAX
"""Of each requester there are at most three: for records, for single ones, for heads."""


class Listening:
    """Requesters whose answers somebody listens for: what nobody would get need not be read.

    What is in it listens for records.

    Args:
        counted: Whether the end of each subscription is told, also of those that were refused, and
            not only of the last: so ZeroMQ does where there are keys. A peer that has connected
            again is subscribed twice until the end of the connection before is noticed.
        known_max: So many subscriptions are known; when there are more, anybody may listen.
    """

    def __init__(self, *, counted: bool = False, known_max: int = SUBSCRIPTIONS_MAX) -> None:
        self._counted = counted
        self._known_max = known_max
        self._known: Counter[tuple[MessageId, str]] = Counter()
        self._refused: set[tuple[MessageId, str]] = set()
        """Of these it is not told whose subscription ends."""

    def listened(self, message_id: MessageId, key: str) -> None:
        """A peer has subscribed."""
        if message_id in _ANSWERS and not self._full():
            self._known[message_id, key] += 1

    def refused(self, message_id: MessageId, key: str) -> None:
        """A peer has subscribed who may not."""
        if message_id in _ANSWERS and not self._full():
            self._refused.add((message_id, key))

    def left(self, message_id: MessageId, key: str) -> bool:
        """A subscription has ended; whether no peer is subscribed any more."""
        place = message_id, key
        if self._full():  # some are not known
            return not self._counted
        if place in self._refused:
            return False
        self._known[place] = self._known[place] - 1 if self._counted else 0
        if self._known[place] > 0:
            return False
        del self._known[place]
        return True

    def _full(self) -> bool:
        return len(self._known) + len(self._refused) >= self._known_max

    def for_heads(self, requester: str) -> bool:
        """Whether somebody listens for the heads that this one is told."""
        return self._for((MessageId.DIRECT_HEAD,), requester)

    def __contains__(self, requester: str) -> bool:
        return self._for(_RECORDS, requester)

    def _for(self, answers: Collection[MessageId], requester: str) -> bool:
        return self._full() or any(
            (one, key) in self._known for one in answers for key in (requester, "")
        )


_RECORDS = MessageId.DIRECT_RECORDS, MessageId.DIRECT_RECORD
_ANSWERS = *_RECORDS, MessageId.DIRECT_HEAD
