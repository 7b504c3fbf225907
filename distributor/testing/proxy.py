"""A proxy between the processes of a tree, by which a way between two of them can be hindered.

It listens at one address of loopback for each address it stands before, at every port that is
listened at there, and forwards. Processes bind the one and tell others the other (`advertise`), so
all that they say to each other comes through here. It knows whose each connection is, so ways can
be stopped or slowed down by who sends and who receives, each direction by itself.

A stopped direction is like packets that are lost: what was sent waits, the connection stays, and
that it has ended is not heard of either. A new connection is made with nobody's answer.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING

from distributor.testing.socket_owners import SocketOwners, inode_of, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from distributor.local.supervisor import Child
    from distributor.testing.socket_owners import Place
    from topology.processes import Process

LOOK_S = 0.05
"""How often it is looked who listens."""

TICK_S = 0.05
"""A slow way is given its bytes in such steps."""

BUFFER_BYTES = 64 * 1024
"""What waits in here of each direction, beside the same again in the kernel: little, so that who
sends notices soon."""

_BINDS = ("--endpoint", "--query")
"""What the places follow, in commands, that a process binds and the file names for all."""


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What is wrong with some ways.

    Attributes:
        hits: Whether it is wrong with the way from one process to another; what is none of the
            processes known is named by an empty text.
        bytes_per_s: What a connection carries that way; 0 if nothing.
    """

    hits: Callable[[str, str], bool]
    bytes_per_s: int = 0


def unheard(whom: Collection[str], home: Collection[str]) -> Hindrance:
    """What some processes say is heard by the processes of their home only."""
    return Hindrance(lambda sender, receiver: sender in whom and receiver not in home)


def deaf(whom: Collection[str], home: Collection[str]) -> Hindrance:
    """Some processes hear those of their home only."""
    return Hindrance(lambda sender, receiver: receiver in whom and sender not in home)


def slow(whom: Collection[str], bytes_per_s: int) -> Hindrance:
    """All that some processes say and hear is slow."""
    return Hindrance(lambda sender, receiver: sender in whom or receiver in whom, bytes_per_s)


class Proxy:
    """Forwards, from now on.

    Args:
        fronts: The address behind, by the one that others are told.
        processes: Tells who is who: names by process id.
    """

    def __init__(
        self, fronts: Mapping[str, str], processes: Callable[[], Mapping[int, str]]
    ) -> None:
        self._fronts = {behind: front for front, behind in fronts.items()}
        self._owners = SocketOwners(lambda: {os.getpid(): "", **processes()})
        self._hindrances: tuple[Hindrance, ...] = ()
        self._servers: dict[Place, tuple[int, asyncio.Server]] = {}
        """By the place behind: the inode that listens there, and what listens before it."""
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        """Set, and replaced, when hindrances come or go."""
        self._carrying: set[asyncio.Task[None] | None] = set()
        """By connection; asyncio itself would forget one that waits."""
        self._followed: asyncio.Task[None] | None = None
        self._begun = Event()
        self._thread = Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        self._begun.wait()

    @contextmanager
    def hindered(self, hindrance: Hindrance) -> Iterator[None]:
        """Hinder ways for a while, on connections there are and on new ones."""
        self._change((*self._hindrances, hindrance))
        try:
            yield
        finally:
            self._change(tuple(one for one in self._hindrances if one is not hindrance))

    def close(self) -> None:
        """End, and every connection with it."""
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    def _change(self, hindrances: tuple[Hindrance, ...]) -> None:
        self._hindrances = hindrances
        self._loop.call_soon_threadsafe(self._tell_of_change)

    def _tell_of_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _run(self) -> None:
        with (
            asyncio.Runner(loop_factory=lambda: self._loop) as runner,
            suppress(asyncio.CancelledError),
        ):
            runner.run(self._follow())

    def _stop(self) -> None:
        assert self._followed is not None
        self._followed.cancel()

    async def _follow(self) -> None:
        """Listen before whoever listens behind."""
        self._followed = asyncio.current_task()
        try:
            while True:
                await self._look()
                self._begun.set()
                await asyncio.sleep(LOOK_S)
        finally:
            for _, server in self._servers.values():
                server.close()
            await asyncio.sleep(LOOK_S)  # what was accepted just now is ended with the rest

    async def _look(self) -> None:
        found = listening()
        for place, (inode, server) in list(self._servers.items()):
            if found.get(place) != inode:
                server.close()
                del self._servers[place]
        new = {
            place: inode
            for place, inode in found.items()
            if place[0] in self._fronts and place not in self._servers
        }
        # Another proxy may stand before the same address, and what is its own is not ours to carry.
        owners = self._owners.among(new.values())
        for place, inode in new.items():
            if inode in owners:
                await self._serve(place, inode, owners[inode])

    async def _serve(self, behind: Place, inode: int, owner: str) -> None:
        front = socket.socket()
        front.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        front.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        try:
            front.bind((self._fronts[behind[0]], behind[1]))
            front.listen()  # where somebody else has bound it, too, that is noticed only here
        except OSError:  # not given up yet by whoever had it: it is tried again
            front.close()
            return
        accept = partial(self._accept, behind, owner)
        server = await asyncio.start_server(accept, sock=front, limit=BUFFER_BYTES)
        self._servers[behind] = inode, server

    async def _accept(
        self,
        behind: Place,
        server: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        client, here = self._client(writer), asyncio.current_task()
        self._carrying.add(here)
        # Nobody may listen any more, or all of it ends.
        with suppress(OSError, asyncio.CancelledError):
            there = await self._connected(behind)
            try:
                await asyncio.gather(
                    self._carry(client, server, reader, there[1]),
                    self._carry(server, client, there[0], writer),
                )
            finally:
                there[1].transport.abort()
        writer.transport.abort()
        self._carrying.discard(here)

    def _client(self, writer: asyncio.StreamWriter) -> str:
        """Who has connected."""
        inode = inode_of(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
        return self._owners.of(inode) if inode else ""

    async def _connected(self, behind: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        there = socket.socket()
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        there.setblocking(False)
        try:
            await self._loop.sock_connect(there, behind)
        except OSError:
            there.close()
            raise
        return await asyncio.open_connection(sock=there, limit=BUFFER_BYTES)

    async def _carry(
        self,
        sender: str,
        receiver: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Carry one direction to its end; that it has ended is carried, too."""
        with suppress(OSError):
            while piece := await reader.read(BUFFER_BYTES):
                await self._send(sender, receiver, piece, writer)
        await self._opened(sender, receiver)
        with suppress(OSError):
            writer.write_eof()

    async def _send(
        self, sender: str, receiver: str, piece: bytes, writer: asyncio.StreamWriter
    ) -> None:
        while piece:
            pace = await self._opened(sender, receiver)
            size = len(piece) if pace is None else max(1, round(pace * TICK_S))
            writer.write(piece[:size])
            await writer.drain()
            piece = piece[size:]
            if pace is not None:
                await asyncio.sleep(TICK_S)

    async def _opened(self, sender: str, receiver: str) -> int | None:
        """Wait until a way carries something; bytes a second, or None if as many as there are."""
        while (pace := self._pace(sender, receiver)) == 0:
            await self._changed.wait()
        return pace

    def _pace(self, sender: str, receiver: str) -> int | None:
        hit = [one.bytes_per_s for one in self._hindrances if one.hits(sender, receiver)]
        return min(hit, default=None)


def processes_running(children: Iterable[Child]) -> dict[int, str]:
    """Return the names of a supervisor's processes by process id, for a proxy."""
    return {
        running.pid: child.process.name
        for child in list(children)
        if (running := child.running) is not None
    }


def behind_proxy(process: Process, fronts: Mapping[str, str]) -> Process:
    """Return a process that binds behind a proxy what its topology names before it.

    Args:
        process: As the topology has it.
        fronts: See `Proxy`.
    """
    command = list(process.command)
    for place, word in enumerate(process.command[:-1], 1):
        if word in _BINDS:
            scheme, _, rest = command[place].partition("://")
            host, _, port = rest.rpartition(":")
            command[place] = f"{scheme}://{fronts.get(host, host)}:{port}"
    return replace(process, command=tuple(command))
