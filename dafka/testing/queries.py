"""Query ports without sockets: a store's, which answers when it comes to it, and lines to it."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from dafka.errors import QueryError
from dafka.limits import READ_BYTES_MAX
from dafka.query.service import answer
from dafka.transport.request import Client

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dafka.storage.kept_slots import KeptSlots
    from dafka.storage.log import RecordLog
    from dafka.testing.world import SimNode, World
    from dafka.transport.sockets import Pollable


class SimQueryServer:
    """The port `QueryServerPort` of one life of a store."""

    def __init__(self, node: SimNode[Any, Any]) -> None:
        self._node = node
        self._asked: deque[tuple[Client, bytes]] = deque()
        self._answered: dict[bytes, Callable[[bytes], None]] = {}
        self._count = 0

    @property
    def socket(self) -> Pollable:
        """What the store polls: this."""
        return cast("Pollable", self)

    @property
    def readable(self) -> bool:
        """Whether there are questions."""
        return bool(self._asked)

    def put(self, question: bytes, answered: Callable[[bytes], None]) -> None:
        """Ask, and be called with the answer, when it leaves the store."""
        self._count += 1
        number = self._count.to_bytes(8, "big")
        self._asked.append((Client(b"", number), question))
        self._answered[number] = answered
        self._node.come_to_it()

    def receive(self) -> tuple[Client, bytes] | None:
        """Return the next question; None if there is none."""
        return self._asked.popleft() if self._asked else None

    def room(self, _client: Client) -> int:
        """Everybody reads."""
        return READ_BYTES_MAX

    def reply(self, client: Client, answer: bytes) -> bool:
        """Answer a question."""
        self._node.leave(partial(self._answered.pop(client.number), answer))
        return True

    def close(self) -> None:
        """Take no more questions."""
        self._asked.clear()


class QueriedStore(Protocol):
    """The store at the other end of a query port."""

    server: SimQueryServer

    @property
    def awake(self) -> bool:
        """Whether it answers at all."""

    @property
    def log(self) -> RecordLog:
        """What is on its disk."""

    @property
    def kept_slots(self) -> KeptSlots:
        """What of the ring it keeps."""


class SimQueryClient:
    """The port `QueryClientPort`: a store's answer at once, or none.

    It is that of the store's service about what is on its disk: while a write is under way a store
    answers nobody.

    Args:
        store: Who is asked.
        lost: Whether the question or the answer gets lost.
    """

    def __init__(self, store: QueriedStore, lost: Callable[[], bool]) -> None:
        self._store = store
        self._lost = lost

    def ask(self, question: bytes, _timeout_ms: int) -> bytes:
        """Return the answer.

        Raises:
            QueryError: There is none.
        """
        if not self._store.awake or self._lost():
            raise QueryError("no answer")
        return answer(question, self._store.log, kept_slots=self._store.kept_slots)

    def close(self) -> None:
        """Nothing is held outside this object."""


class LineOwner(Protocol):
    """Who has a line to a store."""

    world: World

    def come_to_it(self) -> None:
        """There is an answer: look at it soon."""


class SimQueryLine:
    """The port `QueryLinePort`: a node's line to a store, as unreliable as its meshes.

    Args:
        node: Who asks: a node, or a process that waits.
        store: Who is asked.
        is_cut: Whether the line is cut at present.
        lossy: Whether single messages get lost on it, too.
    """

    def __init__(
        self,
        node: LineOwner,
        store: QueriedStore,
        is_cut: Callable[[], bool],
        *,
        lossy: bool = True,
    ) -> None:
        self._node = node
        self._store = store
        self._is_cut = is_cut
        self._lossy = lossy
        self._received: deque[tuple[int, bytes]] = deque()
        self._asked = 0
        self._closed = False

    @property
    def socket(self) -> Pollable:
        """What the node polls: this."""
        return cast("Pollable", self)

    @property
    def readable(self) -> bool:
        """Whether there are answers."""
        return bool(self._received)

    def send(self, question: bytes) -> int:
        """Ask; returns the number that the answer will carry."""
        self._asked += 1
        number, world = self._asked, self._node.world
        if not self._lost():
            world.after(world.delay_ms(), partial(self._put, number, question))
        return number

    def receive(self) -> tuple[int, bytes] | None:
        """Return the next answer and its question's number; None if there is none."""
        return self._received.popleft() if self._received else None

    def close(self) -> None:
        """Nobody waits for answers any more."""
        self._closed = True

    def _put(self, number: int, question: bytes) -> None:
        if self._store.awake:
            self._store.server.put(question, partial(self._answered, number))

    def _answered(self, number: int, answer: bytes) -> None:
        world = self._node.world
        if not self._lost():
            world.after(world.delay_ms(), partial(self._arrive, number, answer))

    def _arrive(self, number: int, answer: bytes) -> None:
        if not self._closed:
            self._received.append((number, answer))
            self._node.come_to_it()

    def _lost(self) -> bool:
        chance, faults = self._node.world.random, self._node.world.faults
        return self._is_cut() or (self._lossy and chance.random() < faults.loss)
