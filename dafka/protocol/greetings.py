"""What a store listens for, and what it tells whoever listens for its STORE-HELLO.

Source: 46/DAFKA, The STORE-HELLO Command, Store Subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import STORE_PEERS_MAX
from dafka.protocol.effects import Effect, Listen, Publish, Unlisten
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from dafka.protocol.keeping import Keeping

_EVERYTHING = MessageId.RECORD, MessageId.HEAD, MessageId.FETCH, MessageId.GET_HEADS
"""Single records, where anybody publishes such, have no slots to listen for, nor have HEADs."""

_OWN = (
    MessageId.DIRECT_RECORDS,
    MessageId.DIRECT_RECORD,
    MessageId.DIRECT_HEAD,
    MessageId.LOG_START,
    MessageId.CONSUMER_HELLO,
    MessageId.STORE_HELLO,
)


class Greetings:
    """Those of one store.

    Args:
        address: Its.
        greeted_max: So many are greeted anew when slots have moved: all that may be connected.
    """

    def __init__(self, address: str, greeted_max: int = STORE_PEERS_MAX) -> None:
        self._address, self._greeted_max = address, greeted_max
        self._greeted: dict[str, None] = {}
        """In the order in which they came. One that has left costs a message that nobody hears."""
        self._says_again = False
        """Whether others are kept since `ask`."""

    def begin(self, keeping: Keeping) -> list[Effect]:
        """Listen for all that a store takes in, or is asked."""
        return [
            *(Listen(*one) for one in keeping.heard_live()),
            *(Listen(message_id, "") for message_id in _EVERYTHING),
            *(Listen(message_id, self._address) for message_id in _OWN),
        ]

    def met(self, peer: str, keeping: Keeping) -> list[Effect]:
        """Greet somebody who listens for it."""
        self._greeted.pop(peer, None)
        self._greeted[peer] = None
        if len(self._greeted) > self._greeted_max:
            del self._greeted[next(iter(self._greeted))]
        return [self._hello(peer, keeping)]

    def moved(self, before: Keeping, now: Keeping) -> list[Effect]:
        """Listen for other slots, and tell everybody if others are kept."""
        # Dicts: there are thousands where ranges are small, and their order is to stay.
        heard, now_heard = map(dict.fromkeys, (before.heard_live(), now.heard_live()))
        effects: list[Effect] = [Listen(*one) for one in now_heard if one not in heard]
        effects += [Unlisten(*one) for one in heard if one not in now_heard]
        if before.kept != now.kept:
            effects += self._greet_all(now)
            self._says_again = True
        return effects

    def ask(self, keeping: Keeping) -> list[Effect]:
        """Ask for heads; say what is kept once more, if that has changed since.

        A peer whose queue was full would take the store for one that keeps what it did before.
        """
        again = self._greet_all(keeping) if self._says_again else []
        self._says_again = False
        return [Publish(messages.GetHeads("", self._address, keeping.held)), *again]

    def _greet_all(self, keeping: Keeping) -> list[Effect]:
        return [self._hello(peer, keeping) for peer in self._greeted]

    def _hello(self, peer: str, keeping: Keeping) -> Publish:
        return Publish(messages.StoreHello(peer, self._address, keeping.kept))
