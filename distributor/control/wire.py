"""Commands and responses as Protobuf, by `control.proto`: the only place that knows both.

Reading never raises. What cannot be understood becomes an `UnknownMessage`, on which both sides
hang up: a kind of a later version, a value that is out of range, octets that are no message.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar, assert_never

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from dafka.limits import CONTROL_MESSAGE_BYTES_MAX
from distributor.control import control_pb2 as pb
from distributor.control.aims import LinkPlace
from distributor.control.demands import Demands
from distributor.control.grants import Wished, Wishes
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    Canceled,
    CancelPeek,
    Command,
    CreateFlow,
    CreateInstance,
    FlowDropped,
    FlowState,
    FlowStatus,
    Frontiers,
    Hello,
    HelloOk,
    InitializationComplete,
    Peek,
    PeekError,
    PeekResponse,
    Ping,
    Pong,
    Positions,
    Response,
    Schedule,
    UnknownMessage,
    UpdateConfiguration,
)
from distributor.control.wire_values import (
    NotUnderstoodError,
    flow_message,
    flow_of,
    frontier_message,
    frontier_of,
    hole_message,
    holes_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dafka.model import Partition
    from distributor.control.frontiers import Frontier
    from distributor.control.messages import StateCommand

SERVICE = pb.DESCRIPTOR.services_by_name["Replica"].full_name
"""What a replica serves."""

METHOD = "Control"
"""Its one call."""

END_KEY, EPOCH_KEY = "dafka-session-end", "dafka-controller-epoch"
"""Under which a controller is told why a session is over, and the highest epoch."""

STREAM_OPTIONS = [
    ("grpc.max_receive_message_length", CONTROL_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", CONTROL_MESSAGE_BYTES_MAX),
]
"""Of both sides."""


ENDS_AT_ONCE_MAX = 10_000
"""Partitions of which one message says how far a flow is: with the longest names half of what a
message may have."""

AT_ONCE_MAX = 1_000
"""Commands or responses in one message: each costs some 50 bytes and as many microseconds."""

AT_ONCE_BYTES = 1024 * 1024
"""So much, or one that is larger by itself, is sent at once."""

_STATUSES = {
    FlowStatus.SUSPENDED: pb.FLOW_STATUS_SUSPENDED,
    FlowStatus.WARM: pb.FLOW_STATUS_WARM,
    FlowStatus.WRITING: pb.FLOW_STATUS_WRITING,
    FlowStatus.DRAINING: pb.FLOW_STATUS_DRAINING,
    FlowStatus.FAILED: pb.FLOW_STATUS_FAILED,
}


def encode_commands(commands: Iterable[Command]) -> Iterator[bytes]:
    """Return commands as they are sent, in a message or several."""
    for some in _at_once(map(_command, commands)):
        yield pb.Commands(commands=some).SerializeToString()


def decode_commands(octets: bytes) -> list[Command]:
    """Return the commands that came in a message."""
    message = pb.Commands()
    try:
        message.ParseFromString(octets)
    except DecodeError:
        return [UnknownMessage("of octets that are no message")]
    if len(message.commands) > AT_ONCE_MAX:
        return [UnknownMessage(f"with {len(message.commands)} at once")]
    return [_decoded(one, _COMMANDS) for one in message.commands]


def encode_responses(responses: Iterable[Response]) -> Iterator[bytes]:
    """Return responses as they are sent, in a message or several."""
    for some in _at_once(chain.from_iterable(map(_responses, responses))):
        yield pb.Responses(responses=some).SerializeToString()


def decode_responses(octets: bytes) -> list[Response]:
    """Return the responses that came in a message."""
    message = pb.Responses()
    try:
        message.ParseFromString(octets)
    except DecodeError:
        return [UnknownMessage("of octets that are no message")]
    if len(message.responses) > AT_ONCE_MAX:
        return [UnknownMessage(f"with {len(message.responses)} at once")]
    return [_decoded(one, _RESPONSES) for one in message.responses]


def encode_wishes(wishes: Wishes) -> bytes:
    """Return what a controller keeps, as it is kept."""
    flows = [
        pb.Wished(
            number=number, flow=flow_message(wished.flow), writer=wished.writer, epoch=wished.epoch
        )
        for number, wished in wishes.flows.items()
    ]
    demands = wishes.demands
    aims = [
        pb.Aim(level=link.level, branch=link.branch, topics=link.topics, target=target)
        for link, target in demands.aims.items()
    ]
    passed = [
        pb.LinkHoles(
            level=link.level,
            branch=link.branch,
            topics=link.topics,
            holes=map(hole_message, holes),
        )
        for link, holes in demands.passed.items()
    ]
    kept = pb.Wishes(
        epoch=wishes.epoch,
        version=wishes.version,
        flows=flows,
        place=wishes.place,
        aims=aims,
        paused=sorted(demands.paused),
        levels_epoch=demands.levels_epoch,
        passed=passed,
    )
    return kept.SerializeToString()


def decode_wishes(octets: bytes) -> Wishes | None:
    """Return what a controller has kept; None if this build does not understand it."""
    try:
        message = pb.Wishes.FromString(octets)
        flows = {
            one.number: Wished(flow_of(one.flow), one.writer, one.epoch)
            for one in sorted(message.flows, key=lambda one: one.number)
        }
        demands = _demands(message)
    except (DecodeError, NotUnderstoodError):
        return None
    return Wishes(message.epoch, message.version, flows, message.place, demands)


def _demands(message: pb.Wishes) -> Demands:
    """What operators want, of what a controller has kept."""
    passed = {
        LinkPlace(one.level, one.branch, one.topics): holes_of(one.holes) for one in message.passed
    }
    aims = {LinkPlace(one.level, one.branch, one.topics): one.target for one in message.aims}
    return Demands(aims, frozenset(message.paused), message.levels_epoch, passed)


_P = TypeVar("_P", pb.Command, pb.Response)
_M = TypeVar("_M")


def _decoded(message: _P, readers: Mapping[str, Callable[[_P], _M]]) -> _M | UnknownMessage:
    kind = message.WhichOneof("kind")
    if kind is None:
        unknown = UnknownFieldSet(message)
        return UnknownMessage(f"number {unknown[0].field_number}" if len(unknown) else "none")
    try:
        return readers[kind](message)
    except NotUnderstoodError as error:
        return UnknownMessage(f"{kind} with {error}")


def _at_once(messages: Iterable[_P]) -> Iterator[list[_P]]:
    """What is sent together: not too much of it."""
    some: list[_P] = []
    size = 0
    for message in messages:
        octets = message.ByteSize()
        if some and (len(some) >= AT_ONCE_MAX or size + octets > AT_ONCE_BYTES):
            yield some
            some, size = [], 0
        some.append(message)
        size += octets
    if some:
        yield some


def _command(command: Command) -> pb.Command:
    match command:
        case Hello():
            return pb.Command(
                hello=pb.Hello(
                    controller=command.controller,
                    epoch=command.epoch,
                    oldest=command.oldest,
                    newest=command.newest,
                    replica=command.replica,
                )
            )
        case Ping():
            return pb.Command(ping=pb.Ping(number=command.number))
        case UnknownMessage():
            raise AssertionError(command)
        case _:
            return _wanted(command)


def _responses(response: Response) -> list[pb.Response]:
    """A response; how far very many partitions are is several."""
    match response:
        case HelloOk():
            ok = pb.HelloOk(version=response.version, replica=response.replica)
            return [pb.Response(hello_ok=ok)]
        case Frontiers():
            return [pb.Response(frontiers=_frontiers(part)) for part in _parts(response)]
        case FlowState():
            state = pb.FlowState(
                flow=response.flow,
                status=_STATUSES[response.status],
                epoch=response.epoch,
                reason=response.reason,
            )
            return [pb.Response(flow_state=state)]
        case FlowDropped():
            return [pb.Response(flow_dropped=pb.FlowDropped(flow=response.flow))]
        case PeekResponse():
            return [pb.Response(peek_response=_peek_response(response))]
        case Pong():
            pong = pb.Pong(number=response.number, progress=response.progress)
            return [pb.Response(pong=pong)]
        case UnknownMessage():
            raise AssertionError(response)
        case _:
            assert_never(response)


def _wanted(command: StateCommand) -> pb.Command:
    match command:
        case CreateInstance():
            instance = pb.CreateInstance(cluster=command.cluster, number=command.number)
            return pb.Command(create_instance=instance)
        case UpdateConfiguration():
            values = pb.UpdateConfiguration(values=command.values)
            return pb.Command(update_configuration=values)
        case CreateFlow() | AllowCompaction() | Peek():
            return _with_frontier(command)
        case Schedule():
            return pb.Command(schedule=pb.Schedule(flow=command.flow))
        case AllowWrites():
            writes = pb.AllowWrites(flow=command.flow, epoch=command.epoch)
            return pb.Command(allow_writes=writes)
        case CancelPeek():
            return pb.Command(cancel_peek=pb.CancelPeek(peek=command.peek))
        case InitializationComplete():
            return pb.Command(initialization_complete=pb.InitializationComplete())
        case _:
            assert_never(command)


def _with_frontier(command: CreateFlow | AllowCompaction | Peek) -> pb.Command:
    match command:
        case CreateFlow():
            create = pb.CreateFlow(
                number=command.number,
                flow=flow_message(command.flow),
                start=frontier_message(command.start),
            )
            return pb.Command(create_flow=create)
        case AllowCompaction():
            before = None if command.before is None else frontier_message(command.before)
            compaction = pb.AllowCompaction(flow=command.flow, before=before)
            return pb.Command(allow_compaction=compaction)
        case Peek():
            peek = pb.Peek(
                number=command.number,
                flow=command.flow,
                at_least=frontier_message(command.at_least),
            )
            return pb.Command(peek=peek)
        case _:
            assert_never(command)


def _peek_response(response: PeekResponse) -> pb.PeekResponse:
    match response.answer:
        case Positions():
            positions = frontier_message(response.answer.write)
            return pb.PeekResponse(peek=response.peek, positions=positions)
        case PeekError():
            return pb.PeekResponse(peek=response.peek, error=response.answer.detail)
        case Canceled():
            return pb.PeekResponse(peek=response.peek, canceled=pb.Canceled())
        case _:
            assert_never(response.answer)


def _parts(response: Frontiers) -> Iterator[Frontiers]:
    """The same in parts. All of one partition is in one: output is not to be ahead of input."""
    named = iter(dict.fromkeys([*response.input, *response.write, *response.output]))
    first = True
    while (some := [*islice(named, ENDS_AT_ONCE_MAX)]) or first:
        first = False
        yield Frontiers(
            response.flow,
            _of(response.input, some),
            _of(response.write, some),
            _of(response.output, some),
        )


def _of(frontier: Frontier, partitions: list[Partition]) -> Frontier:
    return {one: frontier[one] for one in partitions if one in frontier}


def _frontiers(response: Frontiers) -> pb.Frontiers:
    return pb.Frontiers(
        flow=response.flow,
        input=frontier_message(response.input),
        write=frontier_message(response.write),
        output=frontier_message(response.output),
    )


def _read_hello(message: pb.Hello) -> Hello:
    return Hello(message.controller, message.epoch, message.oldest, message.newest, message.replica)


def _read_compaction(message: pb.AllowCompaction) -> AllowCompaction:
    before = frontier_of(message.before) if message.HasField("before") else None
    return AllowCompaction(message.flow, before)


def _read_frontiers(message: pb.Frontiers) -> Frontiers:
    return Frontiers(
        message.flow,
        frontier_of(message.input),
        frontier_of(message.write),
        frontier_of(message.output),
    )


def _read_state(message: pb.FlowState) -> FlowState:
    statuses = {number: status for status, number in _STATUSES.items()}
    if message.status not in statuses:
        raise NotUnderstoodError(f"flow status {int(message.status)}")
    return FlowState(message.flow, statuses[message.status], message.epoch, message.reason)


def _read_peek_response(message: pb.PeekResponse) -> PeekResponse:
    match message.WhichOneof("answer"):
        case "positions":
            return PeekResponse(message.peek, Positions(frontier_of(message.positions)))
        case "error":
            return PeekResponse(message.peek, PeekError(message.error))
        case "canceled":
            return PeekResponse(message.peek, Canceled())
        case _:
            raise NotUnderstoodError("an unknown answer")


_COMMANDS: Mapping[str, Callable[[pb.Command], Command]] = {
    "hello": lambda one: _read_hello(one.hello),
    "create_instance": lambda one: CreateInstance(
        one.create_instance.cluster, one.create_instance.number
    ),
    "update_configuration": lambda one: UpdateConfiguration(dict(one.update_configuration.values)),
    "create_flow": lambda one: CreateFlow(
        one.create_flow.number,
        flow_of(one.create_flow.flow),
        frontier_of(one.create_flow.start),
    ),
    "schedule": lambda one: Schedule(one.schedule.flow),
    "allow_writes": lambda one: AllowWrites(one.allow_writes.flow, one.allow_writes.epoch),
    "allow_compaction": lambda one: _read_compaction(one.allow_compaction),
    "peek": lambda one: Peek(one.peek.number, one.peek.flow, frontier_of(one.peek.at_least)),
    "cancel_peek": lambda one: CancelPeek(one.cancel_peek.peek),
    "initialization_complete": lambda _: InitializationComplete(),
    "ping": lambda one: Ping(one.ping.number),
}

_RESPONSES: Mapping[str, Callable[[pb.Response], Response]] = {
    "hello_ok": lambda one: HelloOk(one.hello_ok.version, one.hello_ok.replica),
    "frontiers": lambda one: _read_frontiers(one.frontiers),
    "flow_state": lambda one: _read_state(one.flow_state),
    "flow_dropped": lambda one: FlowDropped(one.flow_dropped.flow),
    "peek_response": lambda one: _read_peek_response(one.peek_response),
    "pong": lambda one: Pong(one.pong.number, one.pong.progress),
}
