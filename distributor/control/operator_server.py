"""A controller's door for operators, over gRPC: a call for each question, in the controller's loop.

A client that goes away, or does not want to wait any longer, ends its call, and with it what was
asked of replicas for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from dafka.errors import QueryError
from dafka.limits import OPERATOR_CALLS_MAX, OPERATOR_MESSAGE_BYTES_MAX
from dafka.process.roles import roles_in
from dafka.transport.binding import EVERY_HOST
from distributor.control import operator_wire as wire
from distributor.control.certificates import bind
from distributor.control.demand_desk import DemandLostError
from distributor.control.operator_desk import NotInChargeError, OperatorDesk
from distributor.control.wait_desk import WaitFailedError
from distributor.control.wire_values import NotUnderstoodError
from distributor.errors import RefusedCommandError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from distributor.control.certificates import Certificates
    from distributor.control.operator_desk import AskedController
    from topology.model import ClusterSpec, Topology

COMMANDING = frozenset({"operator"})
"""The roles of who may command."""

LOOKING = COMMANDING | {"viewer"}
"""Those of who may look."""

_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", OPERATOR_MESSAGE_BYTES_MAX),
]


@dataclass(frozen=True, slots=True)
class Operators:
    """How operators are served.

    Attributes:
        listen: Where, `HOST:PORT`; port 0 is any.
        topology: What the file says.
        cluster: Whose controller it is.
        certificates: For TLS; None for none.
    """

    listen: str
    topology: Topology
    cluster: ClusterSpec
    certificates: Certificates | None = None

    @property
    def place(self) -> str:
        """Where others reach it; empty where that cannot be said."""
        return "" if self.listen.rpartition(":")[0] in EVERY_HOST else self.listen

    def server(self, controller: AskedController) -> OperatorServer:
        """Return what serves those of a controller."""
        desk = OperatorDesk(self.topology, self.cluster, controller)
        return OperatorServer(self.listen, desk, self.certificates)


class OperatorServer:
    """Serves operators of one controller. To be used in its loop.

    Args:
        listen: Where, `HOST:PORT`; port 0 is any.
        desk: Answers them.
        certificates: For TLS; None for none.
    """

    def __init__(
        self, listen: str, desk: OperatorDesk, certificates: Certificates | None = None
    ) -> None:
        self._listen, self._desk, self._certificates = listen, desk, certificates
        self._server: grpc.aio.Server | None = None
        self.port = 0
        """Where it listens."""

    async def start(self) -> None:
        """Listen.

        Raises:
            MisuseError: It cannot listen there.
        """
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=OPERATOR_CALLS_MAX)
        calls = {
            wire.WAIT: self._call(self._wait, LOOKING),
            wire.EXPLAIN: self._call(self._explain, LOOKING),
            wire.RETARGET: self._call(self._retarget, COMMANDING),
            wire.PAUSE: self._call(self._pause, COMMANDING),
            wire.RESUME: self._call(self._resume, COMMANDING),
        }
        handlers = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in calls.items()}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(wire.SERVICE, handlers),)
        )
        self.port = bind(server, self._listen, self._certificates, "operators")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """End all calls, and listen no more."""
        if self._server is not None:
            await self._server.stop(None)
        self._desk.close()

    def _call(
        self, answer: Callable[[bytes, str], Awaitable[bytes]], may: frozenset[str]
    ) -> Callable[[bytes, grpc.aio.ServicerContext], Awaitable[bytes]]:
        """What answers a call, for who may."""

        async def called(octets: bytes, context: grpc.aio.ServicerContext) -> bytes:
            shown = context.auth_context().get("x509_subject_alternative_name", ())
            roles = roles_in(name.decode(errors="replace") for name in shown)
            if roles and not roles & may:
                # Certificates of other authorities have no roles: these are for operators alone.
                said = f"a certificate of a {', '.join(sorted(roles))} may not ask this"
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, said)
            try:
                return await answer(octets, _asker(context.peer()))
            except NotInChargeError as error:
                code, said = grpc.StatusCode.FAILED_PRECONDITION, str(error)
                context.set_trailing_metadata(((wire.IN_CHARGE_KEY, error.place),))
            except WaitFailedError as error:
                busy, gone = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED
                code, said = busy if error.busy else gone, str(error)
            except DemandLostError as error:
                code, said = grpc.StatusCode.ABORTED, str(error)
            except RefusedCommandError as error:
                code, said = grpc.StatusCode.OUT_OF_RANGE, str(error)
            except NotUnderstoodError as error:
                code, said = grpc.StatusCode.INVALID_ARGUMENT, f"this was not understood: {error}"
            except QueryError as error:
                code, said = grpc.StatusCode.UNAVAILABLE, str(error)
            await context.abort(code, said)
            raise AssertionError(code)  # that has raised

        return called

    async def _wait(self, octets: bytes, asker: str) -> bytes:
        question = wire.decode_wait(octets)
        return wire.encode_waited(await self._desk.waited(asker, question.timeout_ms))

    async def _explain(self, octets: bytes, _asker: str) -> bytes:
        return wire.encode_routes(await self._desk.routes(wire.decode_route(octets)))

    async def _retarget(self, octets: bytes, _asker: str) -> bytes:
        return wire.encode_aimed(await self._desk.demanded(wire.decode_turn(octets)))

    async def _pause(self, octets: bytes, _asker: str) -> bytes:
        return wire.encode_aimed(await self._desk.demanded(wire.decode_pause(octets)))

    async def _resume(self, octets: bytes, _asker: str) -> bytes:
        return wire.encode_resumed(await self._desk.resumed(wire.decode_resume(octets)))


def _asker(peer: str) -> str:
    """The host of a client, which has a port for each of its connections."""
    return peer.rpartition(":")[0]
