"""One Kafka client's connection, on asyncio: requests come in, answers go out in their order.

Requests of Produce are taken in while those before them are under way, so that a producer need not
wait for a disk each time. All others begin when everything before them is answered, so a connection
holds one large answer at most.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dafka.errors import RequestError
from dafka.gateway.wire import HEADER_BYTES, SIZE_BYTES, Api, parse
from dafka.limits import REQUEST_BYTES_MAX
from dafka.process import metrics

if TYPE_CHECKING:
    import ssl
    from asyncio import StreamReader, StreamWriter, Task
    from collections.abc import Callable, Coroutine, Mapping

    from dafka.gateway.session import Session
    from dafka.gateway.wire import Request

log = logging.getLogger(__name__)

_WAIT_FOR_OTHERS = (Api.JOIN_GROUP, Api.SYNC_GROUP, Api.FETCH)
"""Requests that other members of a group, or producers, may keep for minutes. They take no room
meanwhile, which others would wait for; they have a bound of their own, `waiting_bytes_max`."""

FETCH_BYTES_MAX = 512 * 1024
"""Of a fetch: it names some ten thousand partitions."""

LARGE_BYTES = 32 * 1024
"""Of a request that is read in its turn: who sends many at once would hold up all others."""

BUFFER_BYTES = 32 * 1024
"""What is read ahead of a connection, twice."""

UNPROVEN_BYTES_MAX = 64 * 1024
"""Of a request of somebody who has not proven yet who it is."""

_ESTABLISHED = 1
"""A TCP connection that neither end has closed. Source: tcp_states.h of Linux."""

_GONE = (OSError, asyncio.IncompleteReadError)
"""How asyncio says that the client is not there any more, or speaks no TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Bounds on what clients make a gateway hold.

    Attributes:
        connections_max: Open at a time, those of a thousand clients and of who looks after them;
            more are closed at once.
        unproven_max: Of these, who has not proven who it is; of more, the first has to go.
        under_way_max: Requests of a connection that are not answered.
        requests_bytes_max: Requests of all connections that are not answered; who sends more waits.
        unread_bytes_max: Answers of all connections that are not read; when there are more, those
            are disconnected that have been reading for longest.
        waiting_bytes_max: What fetches and members hold that wait for others; when there is more,
            those are disconnected that hold most.
        idle_s: How long a connection may ask nothing.
        unproven_s: How long it may take to prove who it is, where it has to.
        stalled_s: How long a request may take to come, or an answer to be read,
        bytes_per_s_min: and for each so many bytes a second more.
        pressed_s: How long a request may take to come while others wait for the room that it has.
        stop_s: How long requests are waited for at the end.
    """

    connections_max: int = 1_200
    unproven_max: int = 200
    under_way_max: int = 32
    requests_bytes_max: int = 16 * REQUEST_BYTES_MAX
    unread_bytes_max: int = 16 * REQUEST_BYTES_MAX
    waiting_bytes_max: int = 8 * REQUEST_BYTES_MAX
    idle_s: float = 600
    unproven_s: float = 10
    stalled_s: float = 30
    bytes_per_s_min: float = 64 * 1024
    pressed_s: float = 2
    stop_s: float = 5


SERVER_SETTINGS = ServerSettings()


class ClientConnection(NamedTuple):
    """A connection, for people.

    Attributes:
        client: Where the client is.
        user: Whom it has proven to be; empty if nobody.
        client_id: What it calls itself.
        requests: How many it has sent.
        seconds: How long it has been open.
        unread_bytes: Of an answer that it has yet to read.
    """

    client: str
    user: str
    client_id: str
    requests: int
    seconds: float
    unread_bytes: int


class Room:
    """Bytes that connections share. Who finds too few of them waits until it is their turn."""

    def __init__(self, size: int) -> None:
        self.left = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._waiting)

    async def take(self, size: int) -> None:
        """Wait for room, and take it."""
        if not self._waiting and size <= self.left:
            self.left -= size
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            self.give(0 if turn.cancelled() else size)
            raise

    def give(self, size: int) -> None:
        """Give room back."""
        self.left += size
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.cancelled():
                if wanted > self.left:
                    return
                self.left -= wanted
                turn.set_result(None)
            self._waiting.popleft()


@dataclass(frozen=True, slots=True)
class SharedBounds:
    """What all connections of a gateway share.

    Attributes:
        room: For their requests.
        turn: For one large request to be read.
        sends: Called with how many bytes a client has yet to read, and, below zero, has read.
        waits: The same of the bytes of what waits for others.
    """

    room: Room
    turn: Room
    sends: Callable[[int], None]
    waits: Callable[[int], None]


class Connection:
    """One client.

    Args:
        reader: What it sends.
        writer: What it is sent.
        session: What answers it.
        settings: Its bounds.
        shared: Those of all clients together.
        context: For TLS, of which nothing has been said yet; None for none.
    """

    def __init__(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        session: Session,
        settings: ServerSettings,
        shared: SharedBounds,
        context: ssl.SSLContext | None = None,
    ) -> None:
        if context is not None:
            # What the client says first is for TLS to read.
            cast("asyncio.Transport", writer.transport).pause_reading()
        self._context = context
        self._plain: StreamWriter | None = None
        """What TLS is over: thrown away, it would close that."""
        self._reader, self._writer, self._session = reader, writer, session
        self._settings, self._room, self._turn = settings, shared.room, shared.turn
        self._sends, self._waits = shared.sends, shared.waits
        self._clock = asyncio.get_running_loop().time
        self._opened_s = self._clock()
        self._unproven_due_s = self._opened_s + settings.unproven_s
        self._requests = 0
        self._client_id = ""
        self._slots = asyncio.Semaphore(settings.under_way_max)
        self._under_way: set[Task[None]] = set()
        self._last: Task[None] | None = None
        """Answers the latest of those."""
        self._asks_nothing = False
        """Whether it is not read from, so that nobody would see that the client has gone."""
        self._ends = False
        self._read_due_s = self._sent_due_s = float("inf")
        self._pressed_due_s = float("inf")
        """When a request has to be there that keeps others waiting."""
        self.unread = 0
        """Bytes of the answer that is being sent."""
        self.since_s = 0.0
        """Since when it is."""
        self.held = 0
        """Bytes of a request that waits for others."""
        self._patience: asyncio.Timeout | None = None
        """How long a request may wait for others that does."""
        self._has_gone = False
        self.task = asyncio.create_task(self._run())

    def look(self) -> None:
        """Disconnect a client that is too slow; end what is done for one that has gone."""
        pressed_s = self._pressed_due_s if self._room.is_wanted else float("inf")
        unproven_s = float("inf") if self._session.proven else self._unproven_due_s
        if self._clock() >= min(self._read_due_s, self._sent_due_s, pressed_s, unproven_s):
            log.info("client is too slow", extra={"client": self._client})
            self.abort()
        elif self._asks_nothing and self._reader.at_eof():
            self.stop()
        elif self._patience is not None and not self._has_gone and self._is_left:
            # It is not waited with any more; what it has sent behind that is taken in.
            self._has_gone = True
            self._patience.reschedule(0)

    def describe(self) -> ClientConnection:
        """As people are shown it."""
        open_s = self._clock() - self._opened_s
        asked = self._client_id, self._requests
        return ClientConnection(self._client, self.user, *asked, open_s, self.unread)

    def stop(self) -> None:
        """Take nothing more in; what is under way is answered before it ends."""
        if not self._ends:
            self._ends = True
            self.task.cancel()

    def abort(self) -> None:
        """Disconnect the client; what it has sent is not forgotten."""
        self._writer.transport.abort()

    def cut(self) -> None:
        """Disconnect a client that waits; it is waited with no more."""
        self.abort()
        self.stop()

    def kill(self) -> None:
        """End at once."""
        self.abort()
        for task in self._under_way:
            task.cancel()

    @property
    def user(self) -> str:
        """Whom the client has proven to be; empty: nobody."""
        return self._session.user

    @property
    def _peer(self) -> tuple[Any, ...]:
        peer: tuple[Any, ...] | None = self._writer.get_extra_info("peername")
        return peer or ("?", 0)

    @property
    def is_unproven(self) -> bool:
        """Whether the client has yet to prove who it is, and has not been disconnected."""
        return not (self._session.proven or self.is_cut)

    @property
    def is_cut(self) -> bool:
        """Whether it has been disconnected."""
        return self._writer.transport.is_closing()

    @property
    def _is_left(self) -> bool:
        """Whether the client has closed the connection; where nothing is read nobody is told."""
        if self.is_cut:
            return False
        opened = self._writer.get_extra_info("socket")
        state: int = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        return state != _ESTABLISHED

    @property
    def _client(self) -> str:
        host, port, *_ = self._peer
        return f"{host}:{port}"

    async def _guarded(self, part: Coroutine[Any, Any, None]) -> bool:
        """Run a part of this connection; returns whether it came to its end.

        An error goes no further than here. What it passes through keeps its request, and leads back
        to this connection: with it in a task, all that would stay until garbage is collected.
        """
        try:
            await part
        except asyncio.CancelledError:
            if not self._ends:
                raise
            return False
        except RequestError as error:
            log.info("client is disconnected", extra={"client": self._client, "why": error.reason})
            return False
        except _GONE:
            return False
        except Exception:
            log.exception("a request cannot be answered")
            return False
        return True

    async def _run(self) -> None:
        await self._guarded(self._serve())
        self._ends, self._read_due_s = True, float("inf")
        await self._answered()
        if self._context is not None and self._plain is None:
            self.abort()  # of a handshake that has failed nobody is told when it is closed
            return
        self._sent_due_s = self._clock() + self._settings.stalled_s
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _serve(self) -> None:
        if self._context is not None:
            await self._secure(self._context)
        while True:
            await self._take()

    async def _secure(self, context: ssl.SSLContext) -> None:
        """Shake hands: from here on everything is TLS."""
        loop, plain = asyncio.get_running_loop(), self._writer
        reader = asyncio.StreamReader(BUFFER_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        within_s = self._settings.unproven_s
        transport = await loop.start_tls(
            plain.transport, protocol, context, server_side=True, ssl_handshake_timeout=within_s
        )
        if transport is None:
            raise ConnectionResetError("the client has gone in the middle of its handshake")
        protocol.connection_made(transport)
        self._reader = reader
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self._plain = plain
        certificate = self._writer.get_extra_info("peercert") or {}
        self._session.show_certificate(_common_name(certificate))

    async def _take(self) -> None:
        """Take one request in."""
        self._read_due_s = self._clock() + self._settings.idle_s
        size = int.from_bytes(await self._reader.readexactly(SIZE_BYTES), "big", signed=True)
        bound = REQUEST_BYTES_MAX if self._session.proven else UNPROVEN_BYTES_MAX
        if not HEADER_BYTES <= size <= bound:
            raise RequestError("size")
        self._read_due_s, self._asks_nothing = float("inf"), True
        while muted_s := self._session.muted_s:  # the client owes, by its quotas
            await asyncio.sleep(muted_s)
        await self._room.take(size)
        self._asks_nothing = False
        kept = False
        try:
            request = self._session.charged(await self._parsed(await self._body(size)))
            self._requests += 1
            self._client_id = request.client
            metrics.kafka_requests(request.api.name.lower()).received.inc(size)
            if request.api is Api.FETCH and size > FETCH_BYTES_MAX:
                raise RequestError("size")
            if request.api in _WAIT_FOR_OTHERS:
                self._room.give(size)
                size = 0
            if request.api is Api.PRODUCE:
                await self._slots.acquire()
                kept = True
                self._begin(request, size)
            else:
                self._asks_nothing = True
                await self._answered()
                await self._reply_alone(request)
                self._asks_nothing = False
        finally:
            if not kept:
                self._room.give(size)

    async def _body(self, size: int) -> bytes:
        now_s = self._clock()
        self._read_due_s = now_s + self._time_for(size)
        self._pressed_due_s = now_s + self._settings.pressed_s
        try:
            return await self._reader.readexactly(size)
        finally:
            self._read_due_s = self._pressed_due_s = float("inf")

    async def _parsed(self, frame: bytes) -> Request:
        """Read a request; of large ones, which take tens of milliseconds, one in each turn."""
        if len(frame) <= LARGE_BYTES:
            return parse(frame)._replace(host=self._peer[0])
        await self._turn.take(1)
        try:
            found = parse(frame)._replace(host=self._peer[0])
            await asyncio.sleep(0)  # others are served before the next
            return found
        finally:
            self._turn.give(1)

    def _begin(self, request: Request, size: int) -> None:
        """Tasks begin in the order in which they are made, so records keep theirs."""
        self._last = asyncio.create_task(self._answer(request, size, self._last))
        self._under_way.add(self._last)
        self._last.add_done_callback(self._under_way.discard)

    async def _answer(self, request: Request, size: int, before: Task[None] | None) -> None:
        """Answer one request when those before it are answered."""
        try:
            if not await self._guarded(self._reply(request, before)):
                self.abort()
        finally:
            self._slots.release()
            self._room.give(size)

    async def _reply_alone(self, request: Request) -> None:
        """Answer a request before the next is taken in; others may let it wait."""
        self.held = request.held_bytes if request.api in _WAIT_FOR_OTHERS else 0
        self._waits(self.held)
        try:
            await self._reply(request, None)
        finally:
            self._waits(-self.held)
            self.held = 0

    async def _waited(self, request: Request) -> list[bytes] | None:
        """Wait for others with a request, unless the client has gone."""
        try:
            async with asyncio.timeout(0 if self._has_gone else None) as self._patience:
                return await self._session.answer(request)
        except TimeoutError:
            if not self._has_gone:
                raise
            return None
        finally:
            self._patience = None

    async def _reply(self, request: Request, before: Task[None] | None) -> None:
        began_s = self._clock()
        waits = request.api in _WAIT_FOR_OTHERS
        pieces = await (self._waited(request) if waits else self._session.answer(request))
        if before is not None and not before.done():
            await asyncio.wait({before})
        series = metrics.kafka_requests(request.api.name.lower())
        series.seconds.observe(self._clock() - began_s)
        if pieces is not None:
            series.sent.inc(sum(map(len, pieces)))
            await self._send(pieces)

    async def _answered(self) -> None:
        """Wait until nothing is under way."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _send(self, pieces: list[bytes]) -> None:
        self.since_s, self.unread = self._clock(), sum(map(len, pieces))
        self._sent_due_s = self.since_s + self._time_for(self.unread)
        self._sends(self.unread)
        try:
            self._writer.writelines(pieces)
            await self._writer.drain()
        finally:
            self._sends(-self.unread)
            self.unread, self._sent_due_s = 0, float("inf")

    def _time_for(self, size: int) -> float:
        return self._settings.stalled_s + size / self._settings.bytes_per_s_min


def _common_name(certificate: Mapping[str, Any]) -> str:
    """Whom a certificate names; empty if nobody, or if none was shown."""
    for name in certificate.get("subject", ()):
        for what, value in name:
            if what == "commonName":
                return str(value)
    return ""
