"""Whose subscriptions a publisher heeds, where keys say who may read what.

ZeroMQ tells such a publisher of a subscription and, apart from that, keeps a queue of whose they
are (`ZMQ_XPUB_MANUAL`). Anything else that a peer sends takes the next one off that queue, too:
until all that came is read, a subscription would be given to another peer than its own. So nobody
is subscribed in that time. Who sent it is cut and shut out; who subscribed meanwhile is cut as
well, since a peer that connects again subscribes again, and would wait for ever otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from dafka.transport.access import may_subscribe
from dafka.transport.curve import authenticator, user_of
from dafka.transport.shedder import shedder

if TYPE_CHECKING:
    from dafka.transport.keys import Credentials
    from dafka.wire.messages import MessageId

DISORDER_SHUT_MS = 10_000
"""So long who sends a publisher what is no subscription is not let in: others have what he did
once in that time at most, and who shares his key waits no longer."""


class Admission:
    """To one publisher.

    Args:
        publisher: It.
        credentials: Of its node; None for none, where ZeroMQ subscribes everybody by itself.
    """

    def __init__(self, publisher: zmq.Socket[bytes], credentials: Credentials | None) -> None:
        self._publisher, self._credentials = publisher, credentials
        if credentials is not None:
            publisher.set(zmq.XPUB_MANUAL, 1)
        self._disordered = False
        """Whether ZeroMQ may take one peer's subscription for another's."""

    def all_read(self) -> None:
        """Nothing is left that has come: what comes now can be told apart again."""
        self._disordered = False

    def disorder(self, frame: zmq.Frame) -> None:
        """Something is no subscription."""
        if self._credentials is None:
            return
        self._disordered = True
        authenticator.shut_out(user_of(frame), DISORDER_SHUT_MS)
        shedder.cut(frame, "no subscription")

    def subscribe(
        self, frame: zmq.Frame, prefix: bytes, subscription: tuple[MessageId, str] | None
    ) -> bool:
        """Subscribe whose subscription was read last, if that may be.

        Args:
            frame: In which it came.
            prefix: Of messages.
            subscription: What that means; None for nothing that there is.

        Returns:
            Whether it is done.
        """
        if self._credentials is None:
            return True
        key = user_of(frame)
        rights = self._credentials.access.of(key)
        permitted = (
            rights is not None
            and subscription is not None
            and may_subscribe(rights, key, *subscription)
        )
        if not permitted:
            if shedder.watching and shedder.refused(frame, key):
                authenticator.shut_out(key)
            return False
        if self._disordered:
            shedder.cut(frame, "subscribes again")
            return False
        self._publisher.set(zmq.SUBSCRIBE, prefix)
        return True

    def unsubscribe(self, prefix: bytes) -> None:
        """Take back a subscription of whom the last message read is of."""
        if self._credentials is not None and not self._disordered:
            self._publisher.set(zmq.UNSUBSCRIBE, prefix)
