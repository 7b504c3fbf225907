"""A replica that controllers reach over gRPC: its machine, its flows, and a stream each session.

All of it is in one thread with one loop, in which nothing waits; flows have threads of their own.
Frozen processes and blocked loops are found by the pings of the
protocol, as gRPC's own do not see them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import grpc

from dafka.errors import DafkaError
from dafka.limits import CONTROL_SESSIONS_MAX
from dafka.process.clock import now_ms
from dafka.process.roles import roles_in
from dafka.process.threads import wait_for_end
from dafka.protocol.events import Woke
from distributor.control import wire
from distributor.control.certificates import bind
from distributor.control.events import (
    CommandCame,
    EndProcess,
    EndStream,
    FlowStopped,
    FlowsTurned,
    SendResponses,
    SessionEnd,
    SessionSettings,
    StreamEnded,
    StreamOpened,
    Writable,
)
from distributor.control.flow_thread import FlowThreads
from distributor.control.messages import Ping
from distributor.control.meter import ReplicaMeter
from distributor.control.replica import ReplicaMachine
from distributor.control.wire import END_KEY, EPOCH_KEY, STREAM_OPTIONS
from distributor.errors import CommandError

if TYPE_CHECKING:
    from distributor.control.certificates import Certificates
    from distributor.control.events import ReplicaEffect, ReplicaEvent
    from distributor.control.flow_thread import Opener, Stand
    from distributor.control.messages import CreateInstance, Response

log = logging.getLogger(__name__)

TURN_MS = 500
"""How often it is seen whether all flows have turned."""

LAST_WORDS_S = 1.0
"""How long what is under way to a controller may take before its session is ended."""

_CODES = {
    SessionEnd.CLOSED: grpc.StatusCode.UNAVAILABLE,
    SessionEnd.SILENT: grpc.StatusCode.DEADLINE_EXCEEDED,
    SessionEnd.STALLED: grpc.StatusCode.DEADLINE_EXCEEDED,
    SessionEnd.BEHIND: grpc.StatusCode.RESOURCE_EXHAUSTED,
    SessionEnd.VIOLATION: grpc.StatusCode.INVALID_ARGUMENT,
    SessionEnd.WRONG_REPLICA: grpc.StatusCode.NOT_FOUND,
    SessionEnd.STALE: grpc.StatusCode.FAILED_PRECONDITION,
    SessionEnd.VERSION: grpc.StatusCode.UNIMPLEMENTED,
    SessionEnd.SUPERSEDED: grpc.StatusCode.ABORTED,
    SessionEnd.INCOMPATIBLE: grpc.StatusCode.FAILED_PRECONDITION,
}

_OPTIONS = [
    *STREAM_OPTIONS,
    ("grpc.so_reuseport", 0),  # two processes at one port would each hear some of what is said
]


COMMANDING = "controller"
"""The role of who may command replicas."""


@dataclass(slots=True)
class _Stream:
    """One session's stream."""

    batches: asyncio.Queue[tuple[Response, ...] | None] = field(default_factory=asyncio.Queue)
    """What is to be sent, one batch at a time; None: nothing more is."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    why: EndStream | None = None


class ReplicaServer:
    """One replica, running.

    Args:
        name: Its name at controllers.
        instance: What it is for.
        listen: Where controllers reach it, `HOST:PORT`; port 0 is any.
        opened: Opens a flow.
        certificates: For TLS; None for none.
        settings: Times.
        stand: See `FlowThread`.

    Raises:
        MisuseError: It cannot listen there.
    """

    def __init__(
        self,
        name: str,
        instance: CreateInstance,
        listen: str,
        opened: Opener,
        certificates: Certificates | None = None,
        settings: SessionSettings | None = None,
        stand: Stand | None = None,
    ) -> None:
        self._name = name
        self._listen, self._certificates = listen, certificates
        self._machine = ReplicaMachine(name, settings or SessionSettings(), instance)
        self._meter = ReplicaMeter()
        self._flows = FlowThreads(opened, self._post, stand)
        self._streams: dict[int, _Stream] = {}
        self._numbers = count()
        self._loop = asyncio.new_event_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._turned_ms = now_ms()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self._started = threading.Event()
        self.port = 0
        """Where it listens."""
        self._thread = threading.Thread(target=self._main, name="dafka-replica", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure
        self._flows.check()
        return not self._thread.is_alive()

    def unwell(self) -> str:
        """See `LongRunning`."""
        return str(self._failure or self._flows.unwell())

    def unready(self) -> str:
        """See `LongRunning`."""
        if not self._machine.epoch:
            return "no controller has come yet"
        return self._flows.unready()

    def close(self) -> None:
        """End all flows, and hear no controller any more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        wait_for_end(self._thread, "sessions with controllers")
        self._flows.close()

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
            if not isinstance(error, DafkaError | CommandError):
                log.critical("replica failed", exc_info=True)
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=CONTROL_SESSIONS_MAX)
        handler = grpc.stream_stream_rpc_method_handler(
            self._session, request_deserializer=wire.decode_commands
        )
        handlers = grpc.method_handlers_generic_handler(wire.SERVICE, {wire.METHOD: handler})
        server.add_generic_rpc_handlers((handlers,))
        self.port = bind(server, self._listen, self._certificates, "controllers")
        await server.start()
        self._started.set()
        try:
            while not self._stopping.is_set():
                self._look_at_flows()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), TURN_MS / 1_000)
        finally:
            for stream in self._streams.values():
                stream.ended.set()
            await server.stop(LAST_WORDS_S)
        if self._failure is not None:
            raise self._failure

    def _post(self, event: ReplicaEvent) -> None:
        """Take in what a flow tells, which has a thread of its own."""
        with suppress(RuntimeError):  # the loop has ended: nobody is told of anything any more
            self._loop.call_soon_threadsafe(self._handle, event)

    def _look_at_flows(self) -> None:
        self._notice_turns()
        self._meter.tell(self._machine)

    def _notice_turns(self) -> None:
        if self._flows.turned_since(self._turned_ms):
            self._turned_ms = now_ms()
            self._handle(FlowsTurned())

    def _handle(self, event: ReplicaEvent) -> None:
        """Let the machine take an event in; what must not be ends the process."""
        try:
            self._take(event)
        except BaseException as error:
            self._failure = error
            self._stopping.set()
            raise

    def _take(self, event: ReplicaEvent) -> None:
        """Let the machine take an event in, do what it says, and wake it when it is due."""
        if isinstance(event, FlowStopped):
            self._flows.ended(event.run)
        for effect in self._machine.handle(event, now_ms()):
            self._perform(effect)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self._machine.wakeup_ms()
        if due_ms is not None:
            wait_s = max(0, due_ms - now_ms()) / 1_000
            self._timer = self._loop.call_later(wait_s, self._handle, Woke())

    def _perform(self, effect: ReplicaEffect) -> None:
        match effect:
            case SendResponses():
                self._streams[effect.stream].batches.put_nowait(effect.responses)
            case EndStream():
                self._end(effect)
            case EndProcess():
                self._failure = CommandError(
                    f"replica {self._name} ends: a controller wants another instance of it"
                )
                self._stopping.set()
            case _:
                self._flows.perform(effect)

    def _end(self, effect: EndStream) -> None:
        facts = {"why": effect.why.value, "detail": effect.detail, "epoch": effect.epoch}
        log.warning("session with a controller is ended", extra=facts)
        self._meter.ended(effect.why)
        stream = self._streams[effect.stream]
        stream.why = effect
        stream.ended.set()

    async def _session(self, _commands: object, context: grpc.aio.ServicerContext) -> None:
        roles = _roles_of(context)
        if roles and COMMANDING not in roles:
            # In certificates of other authorities there are none: these are for controllers alone.
            said = f"a certificate of a {', '.join(sorted(roles))} commands no replica"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, said)
        number, stream = next(self._numbers), _Stream()
        self._streams[number] = stream
        self._handle(StreamOpened(number))
        reader = asyncio.create_task(self._read(number, context))
        writer = asyncio.create_task(self._write(number, stream, context))
        ended = asyncio.create_task(stream.ended.wait())
        try:
            await asyncio.wait({reader, writer, ended}, return_when=asyncio.FIRST_COMPLETED)
            stream.batches.put_nowait(None)
            # To cancel it would end the call without a word.
            await asyncio.wait({writer}, timeout=LAST_WORDS_S)
            await self._say_why(stream, context)
        finally:
            del self._streams[number]
            for task in (reader, writer, ended):
                task.cancel()
            if stream.why is None:
                self._handle(StreamEnded(number))

    async def _say_why(self, stream: _Stream, context: grpc.aio.ServicerContext) -> None:
        if stream.why is None:
            return
        why = stream.why.why
        said = (END_KEY, why.value), (EPOCH_KEY, str(stream.why.epoch))
        await context.abort(_CODES[why], stream.why.detail, said)

    async def _read(self, number: int, context: grpc.aio.ServicerContext) -> None:
        with suppress(grpc.RpcError, asyncio.CancelledError):
            while (commands := await context.read()) is not grpc.aio.EOF:
                for command in commands:
                    if isinstance(command, Ping):
                        self._notice_turns()  # on a busy machine the last look is long ago
                    self._handle(CommandCame(number, command))

    async def _write(self, number: int, stream: _Stream, context: grpc.aio.ServicerContext) -> None:
        with suppress(grpc.RpcError, asyncio.CancelledError):
            while (batch := await stream.batches.get()) is not None:
                for octets in wire.encode_responses(batch):
                    await context.write(octets)
                self._handle(Writable(number))


def _roles_of(context: grpc.aio.ServicerContext) -> frozenset[str]:
    """What the peer's certificate says that it is; nothing if it shows none."""
    shown = context.auth_context().get("x509_subject_alternative_name", ())
    return roles_in(name.decode(errors="replace") for name in shown)
