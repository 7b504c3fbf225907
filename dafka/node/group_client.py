"""A consumer's lines to the stores of its group: questions out, events in, nothing waits."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from dafka.errors import CommitError, QueryError, WireError
from dafka.groups.commit import decode
from dafka.groups.events import Answered, Ask, OffsetsAnswered
from dafka.groups.link_sync import SYNC_MS_MAX
from dafka.groups.membership import Accept, Beat, Prepare
from dafka.process.clock import CLOCK
from dafka.query import messages
from dafka.transport.request import QueryClient
from dafka.wire.primitives import octets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.cluster import Cluster
    from dafka.groups.events import AskOffsets
    from dafka.groups.membership import Request
    from dafka.process.clock import Clock
    from dafka.transport.request import ConnectLine, QueryLinePort
    from dafka.transport.sockets import Pollable

log = logging.getLogger(__name__)

ASKED_MAX = 1_000
"""Questions to one store whose answers are still waited for; it may be away for ever."""

SILENCE_MS_MAX = 4_000
"""How long a store may leave questions unanswered before that is said; as long as a tower."""


class StoreLines:
    """One line to each store. Used by one thread.

    Args:
        group: What is asked about.
        cluster: Whose; events number its stores in their order.
        connect: Makes a line to a store.
        clock: The node's.

    Raises:
        MisuseError: An endpoint cannot be used.
    """

    def __init__(
        self,
        group: str,
        cluster: Cluster,
        connect: ConnectLine = QueryClient,
        clock: Clock = CLOCK,
    ) -> None:
        self._group = octets_of(group)
        self._stores = stores = cluster.stores
        self._now_ms = clock.now_ms
        self._asked: list[dict[int, int]] = [{} for _ in stores]
        """For each store, the token by the number of the question."""
        self._silent_since_ms: dict[int, int] = {}
        """When each store was first asked since its last answer."""
        self._away: set[int] = set()
        """The stores that were said not to answer."""
        self._behind: set[int] = set()
        """The stores that were said to wait for links."""
        with ExitStack() as opened:
            self._clients: list[QueryLinePort] = []
            for endpoint in stores:
                self._clients.append(connect(endpoint, cluster.credentials))
                opened.callback(self._clients[-1].close)
            opened.pop_all()

    def ask(self, effect: Ask | AskOffsets) -> None:
        """Put a question, if the store can be reached at all."""
        self._note_question(effect.store)
        client, asked = self._clients[effect.store], self._asked[effect.store]
        try:
            number = client.send(messages.encode(self._question(effect)))
        except QueryError:
            return  # asked again later, as if the question had been lost
        asked[number] = effect.token
        if len(asked) > ASKED_MAX:
            del asked[next(iter(asked))]

    def pollable(
        self,
    ) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, Answered | OffsetsAnswered]]]]:
        """The sockets, and what makes events of them when they are readable."""
        return {
            client.socket: partial(self._receive, store)
            for store, client in enumerate(self._clients)
        }

    def close(self) -> None:
        """Release the connections."""
        for client in self._clients:
            client.close()

    def _receive(self, store: int) -> Iterable[tuple[None, Answered | OffsetsAnswered]]:
        while (received := self._clients[store].receive()) is not None:
            self._note_answer(store)
            number, octets = received
            token = self._asked[store].pop(number, None)
            event = None if token is None else self._event(store, token, octets)
            if event is not None:
                yield None, event

    def _note_question(self, store: int) -> None:
        """Say once that a store is away. Every store is asked every second or more often."""
        now_ms = self._now_ms()
        silent_ms = now_ms - self._silent_since_ms.setdefault(store, now_ms)
        if silent_ms < SILENCE_MS_MAX or store in self._away:
            return
        self._away.add(store)
        there = len(self._stores) - len(self._away)
        log.warning(
            "store does not answer: %s; start it or correct the endpoint, this member keeps asking",
            "the group goes on with the others"
            if 2 * there > len(self._stores)
            else "the group stands still until more than half of its stores do",
            extra={"store": self._stores[store], "stores": len(self._stores)},
        )

    def _note_answer(self, store: int) -> None:
        self._silent_since_ms.pop(store, None)
        if store in self._away:
            self._away.remove(store)
            log.warning("store answers", extra={"store": self._stores[store]})

    def _note_sync(self, store: int, *, in_sync: bool) -> None:
        if in_sync:
            self._behind.discard(store)
        elif store not in self._behind:
            self._behind.add(store)
            log.info(
                "store has just started: waits for what the group did on other clusters",
                extra={"store": self._stores[store], "seconds_max": SYNC_MS_MAX // 1_000},
            )

    def _event(self, store: int, token: int, octets: bytes) -> Answered | OffsetsAnswered | None:
        try:
            match messages.decode_answer(octets):
                case messages.MembersResponse(roster):
                    return Answered(store, token, roster)
                case messages.PrepareResponse(promise):
                    return Answered(store, token, promise)
                case messages.AcceptResponse(accepted):
                    return Answered(store, token, accepted)
                case messages.CommitsResponse(commits, more, in_sync):
                    found = tuple(decode(*record) for record in commits)
                    self._note_sync(store, in_sync=in_sync)
                    return OffsetsAnswered(store, token, found, more, in_sync)
                case answer:
                    complaint = str(answer)
        except (WireError, CommitError) as error:
            complaint = str(error)
        log.warning("store does not help", extra={"store": self._stores[store], "says": complaint})
        return None

    def _question(self, effect: Ask | AskOffsets) -> messages.Question:
        if isinstance(effect, Ask):
            return _request(effect.request)
        if effect.after is None:
            return messages.CommitsRequest(self._group)
        topic, address = effect.after
        return messages.CommitsRequest(self._group, (octets_of(topic), octets_of(address)))


def _request(request: Request) -> messages.Question:
    match request:
        case Beat():
            return messages.HeartbeatRequest(request)
        case Prepare():
            return messages.PrepareRequest(request)
        case Accept():
            return messages.AcceptRequest(request)
