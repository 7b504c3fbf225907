"""Questions and answers over ROUTER and DEALER, as bytes.

A question travels with a number that its answer repeats, so an answer that comes after its question
was given up is never taken for the answer to the next one.

| frame | bytes |
|---|---|
| 0 number | u64, big-endian, drawn by the asker |
| 1 | the question, or the answer |
"""

from __future__ import annotations

import errno
import logging
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import zmq

from dafka.errors import MisuseError, QueryError, WireError
from dafka.limits import FRAME_BYTES_MAX, QUESTION_BYTES_MAX
from dafka.model import LocalEndpoint
from dafka.transport import sockets
from dafka.transport.curve import guard, prove, refuse_keys_within, user_of
from dafka.transport.shedder import shedder
from dafka.transport.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from dafka.transport.keys import Credentials
    from dafka.transport.sockets import Pollable

    ConnectClient = Callable[[str, Credentials | None], "QueryClientPort"]
    ConnectLine = Callable[[str, Credentials | None], "QueryLinePort"]

log = logging.getLogger(__name__)

_NUMBER_BYTES = 8

SILENT_S = 2.0
"""After so long it is said, once, that a server has not answered yet."""


class Client(NamedTuple):
    """Who asked, and which of its questions it was.

    Attributes:
        connection: Where the answer goes.
        number: Repeated in it.
        key: The public key that was proved; empty in a cluster without keys.
    """

    connection: bytes
    number: bytes
    key: str = ""


class QueryServerPort(Protocol):
    """Where questions come from: `QueryServer`."""

    @property
    def socket(self) -> Pollable:
        """To be polled; when it is readable, call `receive`."""

    def receive(self) -> tuple[Client, bytes] | None:
        """Return the next question; None if there is none."""

    def room(self, client: Client) -> int:
        """Bytes that an answer should have at most."""

    def reply(self, client: Client, answer: bytes) -> bool:
        """Answer a question."""

    def close(self) -> None:
        """Take no more questions."""


class QueryClientPort(Protocol):
    """What puts questions to one server and waits: `QueryClient`."""

    def ask(self, question: bytes, timeout_ms: int) -> bytes:
        """Return the answer; raises `QueryError` if there is none in time."""

    def close(self) -> None:
        """Release the connection."""


class QueryLinePort(Protocol):
    """What puts questions to one server and does not wait: `QueryClient`."""

    @property
    def socket(self) -> Pollable:
        """To be polled; when it is readable, call `receive`."""

    def send(self, question: bytes) -> int:
        """Ask without waiting; returns the number that the answer will carry."""

    def receive(self) -> tuple[int, bytes] | None:
        """Return the next answer and its question's number; None if there is none."""

    def close(self) -> None:
        """Release the connection; what is on its way is lost."""


class QueryServer:
    """Answers questions. Used by one thread at a time; nothing here blocks.

    Args:
        endpoint: `tcp://host:port`, or of ipc or inproc; the port `*` takes a free one.
        credentials: The cluster's own, if it has keys.
        name: What users call it.

    Raises:
        MisuseError: The endpoint cannot be bound.
    """

    def __init__(
        self, endpoint: str, credentials: Credentials | None = None, name: str = "query port"
    ) -> None:
        if endpoint.startswith(("ipc:", "inproc:")):
            LocalEndpoint.parse(endpoint)
        refuse_keys_within(endpoint, credentials)
        self.socket = sockets.router()
        """To be polled; when it is readable, call `receive`."""
        self._unread = Unread(self.socket)
        guard(self.socket, credentials)
        try:
            sockets.bind(self.socket, endpoint, message_max=2 * QUESTION_BYTES_MAX)
        except zmq.ZMQError as error:
            self.socket.close(0)
            raise MisuseError(f"cannot open {name} at {endpoint!r}: {error}") from error
        self.endpoint = endpoint
        """Where it listens: the endpoint given, with the port it got."""
        if endpoint.startswith("tcp:"):
            host, _, _ = endpoint.rpartition(":")
            _, _, port = self.socket.get_string(zmq.LAST_ENDPOINT).rpartition(":")
            self.endpoint = f"{host}:{port}"

    def receive(self) -> tuple[Client, bytes] | None:
        """Return the next question; None if there is none.

        Raises:
            WireError: What came is none.
        """
        try:
            frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        if shedder.watching:
            shedder.took(frames[-1])
        if len(frames) != 3 or len(frames[1].bytes) != _NUMBER_BYTES:
            raise WireError("question frames")
        connection, number, question = (frame.bytes for frame in frames)
        return Client(connection, number, user_of(frames[2])), question

    def room(self, client: Client) -> int:
        """Bytes that an answer should have at most: the fewer, the more the client has not read.

        0 if it is to read first.
        """
        return self._unread.room(_peer(client))

    def reply(self, client: Client, answer: bytes) -> bool:
        """Answer a question; False if the client has gone, or does not take its answers."""
        if len(answer) > FRAME_BYTES_MAX:
            # The other side would end the connection, and nobody would know why.
            log.error("an answer of %d bytes is more than a frame may have", len(answer))
            return False
        try:
            return self._unread.send(_peer(client), (client.connection, client.number, answer))
        except zmq.ZMQError as error:
            if error.errno in (errno.EAGAIN, errno.EHOSTUNREACH):
                return False
            raise

    def close(self) -> None:
        """Release the endpoint."""
        self.socket.close(0)


def _peer(client: Client) -> str:
    """Whose share its answers are counted to."""
    return client.key or client.connection.hex()


class QueryClient:
    """Asks one server. Used by one thread at a time.

    Args:
        endpoint: `tcp://host:port`; it is connected to in the background, for as long as it takes.
        credentials: Whose to use, in a cluster with keys.
        reach_ms: How long a question waits for the connection, if not as long as for its answer.

    Raises:
        MisuseError: The endpoint cannot be used.
    """

    def __init__(
        self,
        endpoint: str,
        credentials: Credentials | None = None,
        reach_ms: int | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._reach_ms = reach_ms
        self.socket = sockets.dealer()
        prove(self.socket, credentials)
        """To be polled; when it is readable, call `receive`."""
        self._asked = 0
        self._asked_s = 0.0
        self._known = False
        """Whether it has answered, or was said to be silent."""
        try:
            sockets.connect(self.socket, endpoint)
        except zmq.ZMQError as error:
            self.socket.close(0)
            raise MisuseError(f"cannot ask at {endpoint!r}: {error}") from error

    def ask(self, question: bytes, timeout_ms: int) -> bytes:
        """Return the answer to `question`; answers to earlier ones are thrown away.

        Raises:
            QueryError: There is none in time.
        """
        self._asked_s = time.monotonic()
        deadline = self._asked_s + timeout_ms / 1_000
        reach_ms = timeout_ms if self._reach_ms is None else min(self._reach_ms, timeout_ms)
        if not self._ready(zmq.POLLOUT, self._asked_s + reach_ms / 1_000):
            raise QueryError(f"cannot reach {self.endpoint} within {reach_ms} ms")
        number = self.send(question)
        while self._ready(zmq.POLLIN, deadline):
            received = self.receive()
            if received is not None and received[0] == number:
                self._known = True
                return received[1]
        raise QueryError(f"no answer from {self.endpoint} within {timeout_ms} ms")

    def send(self, question: bytes) -> int:
        """Ask without waiting; returns the number that the answer will carry.

        Raises:
            QueryError: The question is too large, there is no connection at present, or too many
                questions are on their way.
        """
        if len(question) > QUESTION_BYTES_MAX:
            # The other side would end the connection without a word.
            raise QueryError(
                f"cannot ask {self.endpoint} a question of {len(question):,} bytes: it takes "
                f"{QUESTION_BYTES_MAX:,}; ask for less at once"
            )
        self._asked += 1
        number = self._asked.to_bytes(_NUMBER_BYTES, "big")
        try:
            sockets.send_at_once(self.socket, (number, question))
        except zmq.Again as error:
            raise QueryError(f"cannot ask {self.endpoint} at present") from error
        return self._asked

    def receive(self) -> tuple[int, bytes] | None:
        """Return the next answer and its question's number; None if nothing usable has come."""
        try:
            frames = self.socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        if len(frames) != 2 or len(frames[0]) != _NUMBER_BYTES:
            return None
        return int.from_bytes(frames[0], "big"), frames[1]

    def close(self) -> None:
        """Release the connection; what is on its way is lost."""
        self.socket.close(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ready(self, event: int, deadline: float) -> bool:
        said_s = self._asked_s + SILENT_S
        if not self._known and said_s < deadline:
            if self._within(event, said_s):
                return True
            self._known = True
            text = "no answer from %s for %d s: it is waited for, %d s in all"
            log.warning(text, self.endpoint, SILENT_S, deadline - self._asked_s)
        return self._within(event, deadline)

    def _within(self, event: int, deadline: float) -> bool:
        left_ms = max(0, round((deadline - time.monotonic()) * 1_000))
        return bool(self.socket.poll(left_ms, event))
