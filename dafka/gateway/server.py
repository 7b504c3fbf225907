"""Listens for Kafka clients, on asyncio, and bounds what all of them together make it hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dafka.gateway.connection import BUFFER_BYTES, SERVER_SETTINGS, Connection, Room, SharedBounds
from dafka.gateway.session import Session
from dafka.process import metrics

if TYPE_CHECKING:
    import ssl
    from asyncio import StreamReader, StreamWriter, Task

    from dafka.gateway.connection import ClientConnection, ServerSettings
    from dafka.gateway.handlers import Handlers
    from dafka.gateway.users import KafkaUsers

_WAITING_MAX = 512
"""Connections that the kernel has accepted and we have not."""

_ACCEPT_TURNS = 3
"""Turns of the loop after which whoever asyncio has accepted has been handed to us."""

_LOOK_S = 0.25
"""How often it is looked who is too slow, or has gone."""


class GatewayServer:
    """A port for Kafka clients.

    Args:
        handlers: What answers them.
        settings: What they may make it hold.
        users: Who may log in; None: everybody may do everything.
    """

    def __init__(
        self,
        handlers: Handlers,
        settings: ServerSettings = SERVER_SETTINGS,
        users: KafkaUsers | None = None,
    ) -> None:
        self._users = users
        self._handlers, self._settings = handlers, settings
        room = Room(settings.requests_bytes_max)
        self._shared = SharedBounds(room, Room(1), self._sends, self._waits)
        self._context: ssl.SSLContext | None = None
        self._unread = self._waiting = 0
        self._connections: dict[Task[None], Connection] = {}
        self._server: asyncio.Server | None = None
        self._stopped = False
        self._looking: Task[None] | None = None

    @property
    def connections(self) -> int:
        """How many are open, those among them that have not shaken hands yet."""
        return len(self._connections)

    def describe(self) -> list[ClientConnection]:
        """All of them, as people are shown them."""
        return [connection.describe() for connection in self._connections.values()]

    async def start(self, host: str, port: int) -> int:
        """Take the port, which may be given as 0 for any; returns it. Nobody is let in yet.

        Raises:
            OSError: Nobody can listen there.
        """
        self._context = None if self._users is None else self._users.context()
        self._server = await asyncio.start_server(
            self._accept,
            host,
            port,
            limit=BUFFER_BYTES,
            backlog=_WAITING_MAX,
            start_serving=False,
        )
        self._looking = asyncio.create_task(self._look())
        return int(self._server.sockets[0].getsockname()[1])

    async def listen(self) -> None:
        """Let clients in; until then who connects is refused, and tries another gateway.

        Raises:
            OSError: Another process has begun to listen there.
        """
        assert self._server is not None
        await self._server.start_serving()

    def use(self, users: KafkaUsers) -> None:
        """Let these log in from now on, where somebody had to before.

        Connections end of whose user something has changed, or that have yet to prove who they are:
        clients come again, and are then who they are by now.
        """
        assert self._users is not None
        before, self._users = self._users.users, users
        self._context = users.context()
        for connection in self._connections.values():
            user = connection.user
            if not user or before.get(user) != users.users.get(user):
                connection.stop()

    async def stop(self) -> None:
        """Take nothing more in, answer what is under way, and close."""
        if self._server is None or self._looking is None:
            return
        self._stopped = True
        await self._accepted(self._server)
        self._server.close()
        self._looking.cancel()
        for connection in self._connections.values():
            connection.stop()
        await self._ended(self._settings.stop_s)
        for connection in self._connections.values():
            connection.kill()
        await self._ended(None)

    @staticmethod
    async def _accepted(server: asyncio.Server) -> None:
        """Accept nobody more. Of whom it accepts when it is closed, asyncio forgets the socket."""
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening)
        for _ in range(_ACCEPT_TURNS):
            await asyncio.sleep(0)

    async def _ended(self, timeout_s: float | None) -> None:
        if self._connections:
            await asyncio.wait(self._connections, timeout=timeout_s)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._stopped or len(self._connections) >= self._settings.connections_max:
            writer.transport.abort()
            return
        unproven = [one for one in self._connections.values() if one.is_unproven]
        if len(unproven) >= self._settings.unproven_max:
            unproven[0].abort()
        session = Session(self._handlers, self._users)
        connection = Connection(
            reader, writer, session, self._settings, self._shared, self._context
        )
        self._connections[connection.task] = connection
        metrics.KAFKA_CONNECTIONS.inc()
        connection.task.add_done_callback(self._left)

    def _left(self, task: Task[None]) -> None:
        # One that was stopped before it had begun has closed nothing.
        self._connections.pop(task).abort()
        metrics.KAFKA_CONNECTIONS.dec()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for connection in list(self._connections.values()):
                connection.look()

    def _sends(self, size: int) -> None:
        """So many bytes more are to be read; beyond the bound who has read for longest must go."""
        self._unread += size
        if self._unread <= self._settings.unread_bytes_max:
            return
        reading = [one for one in self._connections.values() if one.unread]
        reading.sort(key=lambda one: one.since_s, reverse=True)
        left = self._unread
        while left > self._settings.unread_bytes_max:
            slowest = reading.pop()
            slowest.abort()
            left -= slowest.unread

    def _waits(self, size: int) -> None:
        """So many bytes more wait for others; beyond the bound who holds most must go."""
        self._waiting += size
        if self._waiting <= self._settings.waiting_bytes_max:
            return
        holding = [one for one in self._connections.values() if one.held and not one.is_cut]
        holding.sort(key=lambda one: one.held)
        left = sum(one.held for one in holding)
        while left > self._settings.waiting_bytes_max:
            largest = holding.pop()
            largest.cut()
            left -= largest.held
