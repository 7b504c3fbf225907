"""A controller towards one replica, over gRPC: its machine, and a stream each session.

All of it is in its owner's loop, in which nothing waits. Each session has a connection of its own,
as it is the machine that knows when to try again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import grpc

from dafka.process.clock import now_ms
from dafka.protocol.events import Woke
from distributor.control import wire
from distributor.control.controller import ControllerState
from distributor.control.events import (
    EndStream,
    OpenStream,
    ResponseCame,
    SendCommands,
    SessionEnd,
    StreamEnded,
    StreamReady,
    Want,
    Writable,
)
from distributor.control.wire import END_KEY, EPOCH_KEY, STREAM_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributor.control.certificates import Certificates
    from distributor.control.controller import ControllerMachine
    from distributor.control.events import (
        ControllerEffect,
        ControllerEvent,
        PeekAnswered,
        Superseded,
    )
    from distributor.control.messages import Command, StateCommand

log = logging.getLogger(__name__)


class ReplicaClient:
    """One replica, as long as it is driven. To be used in one loop.

    Args:
        machine: What is wanted of it, and what it says.
        address: Where it is reached, `HOST:PORT`.
        told: Called with what is for others than the replica.
        changed: Called whenever something has happened.
        certificates: For TLS; None for none.
    """

    def __init__(
        self,
        machine: ControllerMachine,
        address: str,
        told: Callable[[PeekAnswered | Superseded], None],
        changed: Callable[[], None],
        certificates: Certificates | None = None,
    ) -> None:
        self.machine = machine
        self.last_end = SessionEnd.CLOSED
        """Why its last session is over."""
        self.failure: BaseException | None = None
        """What must not have happened."""
        self._address, self._certificates = address, certificates
        self._told, self._changed = told, changed
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._complained: SessionEnd | None = None
        """Of what end of a session the log has been told, since it last was on."""
        self._timer: asyncio.TimerHandle | None = None
        self._session: asyncio.Task[None] | None = None
        self._batches: asyncio.Queue[tuple[Command, ...]] = asyncio.Queue()
        """What is to be sent in the session there is."""

    def want(self, *commands: StateCommand) -> None:
        """Want something of the replica, whether it is there or not."""
        for command in commands:
            self._handle(Want(command))

    def hang_up(self) -> None:
        """Say nothing more, and hear nothing more, from now on."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._session is not None:
            self._session.cancel()

    async def close(self) -> None:
        """Hang up, and wait until the connection is gone."""
        self.hang_up()
        if self._session is not None:
            await asyncio.wait({self._session})

    def _handle(self, event: ControllerEvent) -> None:
        """Let the machine take an event in; what must not be is kept for the owner, who is told."""
        if self._closed:
            return
        try:
            self._take(event)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self._changed()

    def _take(self, event: ControllerEvent) -> None:
        """Let the machine take an event in, do what it says, and wake it when it is due."""
        for effect in self.machine.handle(event, now_ms()):
            self._perform(effect)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.machine.state is ControllerState.ACTIVE:
            self._complained = None
        due_ms = self.machine.wakeup_ms()
        if due_ms is not None:
            wait_s = max(0, due_ms - now_ms()) / 1_000
            self._timer = self._loop.call_later(wait_s, self._handle, Woke())

    def _perform(self, effect: ControllerEffect) -> None:
        match effect:
            case OpenStream():
                self._batches = asyncio.Queue()
                self._session = asyncio.create_task(self._run(effect.stream, self._batches))
            case SendCommands():
                self._batches.put_nowait(effect.commands)
            case EndStream():
                self._complain("session with a replica is ended", effect.why, effect.detail)
                if self._session is not None:
                    self._session.cancel()
            case _:
                self._told(effect)

    async def _run(self, stream: int, batches: asyncio.Queue[tuple[Command, ...]]) -> None:
        """Carry one session, from its beginning to its end, which is told unless it is ours."""
        async with self._channel() as channel:
            if not await _connected(channel):
                self._complain("replica is not reached", SessionEnd.CLOSED, "")
                self._handle(StreamEnded(stream))
                return
            call = channel.stream_stream(
                f"/{wire.SERVICE}/{wire.METHOD}", response_deserializer=wire.decode_responses
            )()
            writer = asyncio.create_task(self._write(stream, batches, call))
            try:
                self._handle(StreamReady(stream))
                await self._read(stream, call)
                ended, detail = await _why(stream, call), await call.details()
            finally:
                writer.cancel()
        self._complain("replica has ended a session", ended.why, detail)
        self._handle(ended)

    def _complain(self, what: str, why: SessionEnd, detail: str) -> None:
        """Remember why a session is over, and say it, once if it is tried again in vain."""
        self.last_end = why
        if why is not self._complained:
            self._complained = why
            facts = {"replica": self._address, "why": why.value, "detail": detail}
            log.warning(what, extra=facts)

    def _channel(self) -> grpc.aio.Channel:
        if self._certificates is None:
            return grpc.aio.insecure_channel(self._address, STREAM_OPTIONS)
        credentials = self._certificates.of_client()
        return grpc.aio.secure_channel(self._address, credentials, STREAM_OPTIONS)

    async def _read(self, stream: int, call: grpc.aio.StreamStreamCall) -> None:
        with suppress(grpc.RpcError):
            while (responses := await call.read()) is not grpc.aio.EOF:
                for response in responses:
                    self._handle(ResponseCame(stream, response))

    async def _write(
        self,
        stream: int,
        batches: asyncio.Queue[tuple[Command, ...]],
        call: grpc.aio.StreamStreamCall,
    ) -> None:
        with suppress(grpc.RpcError, asyncio.InvalidStateError):  # it is over, and read as such
            while True:
                for octets in wire.encode_commands(await batches.get()):
                    await call.write(octets)
                self._handle(Writable(stream))


async def _connected(channel: grpc.aio.Channel) -> bool:
    """Whether there is a connection; for how long it is waited for the machine decides."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            return False
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
    return True


async def _why(stream: int, call: grpc.aio.StreamStreamCall) -> StreamEnded:
    """What the replica has said of the end of a session."""
    said = dict(await call.trailing_metadata() or ())
    words = {end.value: end for end in SessionEnd}
    epoch = str(said.get(EPOCH_KEY, ""))
    return StreamEnded(
        stream,
        words.get(str(said.get(END_KEY)), SessionEnd.CLOSED),
        int(epoch) if epoch.isdecimal() and len(epoch) <= EPOCH_DIGITS_MAX else 0,
    )


EPOCH_DIGITS_MAX = 20
"""Of a number of 64 bits."""
