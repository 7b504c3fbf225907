"""Commands and responses as Protobuf, by `control.proto`: the only place that knows both.

Reading never raises. What cannot be understood becomes an `UnknownMessage`, on which both sides
hang up: a kind of a later version, a value that is out of range, octets that are no message.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, assert_never

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from dafka.limits import (
    ADDRESS_BYTES_MAX,
    CONTROL_MESSAGE_BYTES_MAX,
    PARTITIONS_MAX,
    TOPIC_BYTES_MAX,
)
from dafka.model import SLOTS, Partition
from dafka.wire.primitives import octets_of, text
from distributor.control import control_pb2 as pb
from distributor.control.grants import Wished, Wishes
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    Canceled,
    CancelPeek,
    Command,
    CreateFlow,
    CreateInstance,
    Flow,
    FlowDropped,
    FlowKind,
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
from topology.model import ClusterName
from topology.plan import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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


@dataclass(frozen=True, slots=True)
class Certificates:
    """What TLS needs, PEM each.

    Attributes:
        certificate: One's own, with those of its authorities behind it.
        key: Its key.
        authority: Who has a certificate that this one's has signed is whom one speaks to.
    """

    certificate: bytes
    key: bytes
    authority: bytes


ENDS_AT_ONCE_MAX = 10_000
"""Partitions of which one message says how far a flow is: with the longest names half of what a
message may have."""

_KINDS = {
    FlowKind.RECORDS: pb.FLOW_KIND_RECORDS,
    FlowKind.OFFSETS: pb.FLOW_KIND_OFFSETS,
    FlowKind.SCHEMAS: pb.FLOW_KIND_SCHEMAS,
}
_STATUSES = {
    FlowStatus.SUSPENDED: pb.FLOW_STATUS_SUSPENDED,
    FlowStatus.WARM: pb.FLOW_STATUS_WARM,
    FlowStatus.WRITING: pb.FLOW_STATUS_WRITING,
    FlowStatus.DRAINING: pb.FLOW_STATUS_DRAINING,
    FlowStatus.FAILED: pb.FLOW_STATUS_FAILED,
}


def encode_command(command: Command) -> bytes:
    """Return a command as it is sent."""
    match command:
        case Hello():
            message = pb.Command(
                hello=pb.Hello(
                    controller=command.controller,
                    epoch=command.epoch,
                    oldest=command.oldest,
                    newest=command.newest,
                    replica=command.replica,
                )
            )
        case Ping():
            message = pb.Command(ping=pb.Ping(number=command.number))
        case UnknownMessage():
            raise AssertionError(command)
        case _:
            message = _wanted(command)
    return message.SerializeToString()


def decode_command(octets: bytes) -> Command:
    """Return the command that came."""
    return _decoded(octets, pb.Command, _COMMANDS)


def encode_response(response: Response) -> Iterator[bytes]:
    """Return a response as it is sent: how far very many partitions are in several messages."""
    match response:
        case HelloOk():
            ok = pb.HelloOk(version=response.version, replica=response.replica)
            messages = [pb.Response(hello_ok=ok)]
        case Frontiers():
            messages = [pb.Response(frontiers=_frontiers(part)) for part in _parts(response)]
        case FlowState():
            state = pb.FlowState(
                flow=response.flow,
                status=_STATUSES[response.status],
                epoch=response.epoch,
                reason=response.reason,
            )
            messages = [pb.Response(flow_state=state)]
        case FlowDropped():
            messages = [pb.Response(flow_dropped=pb.FlowDropped(flow=response.flow))]
        case PeekResponse():
            messages = [pb.Response(peek_response=_peek_response(response))]
        case Pong():
            pong = pb.Pong(number=response.number, progress=response.progress)
            messages = [pb.Response(pong=pong)]
        case UnknownMessage():
            raise AssertionError(response)
        case _:
            assert_never(response)
    return (message.SerializeToString() for message in messages)


def encode_wishes(wishes: Wishes) -> bytes:
    """Return what a controller keeps, as it is kept."""
    flows = [
        pb.Wished(number=number, flow=_flow(wished.flow), writer=wished.writer, epoch=wished.epoch)
        for number, wished in wishes.flows.items()
    ]
    return pb.Wishes(epoch=wishes.epoch, version=wishes.version, flows=flows).SerializeToString()


def decode_wishes(octets: bytes) -> Wishes | None:
    """Return what a controller has kept; None if this build does not understand it."""
    try:
        message = pb.Wishes.FromString(octets)
        flows = {
            one.number: Wished(_read_flow(one.flow), one.writer, one.epoch)
            for one in sorted(message.flows, key=lambda one: one.number)
        }
    except (DecodeError, _NotUnderstoodError):
        return None
    return Wishes(message.epoch, message.version, flows)


def decode_response(octets: bytes) -> Response:
    """Return the response that came."""
    return _decoded(octets, pb.Response, _RESPONSES)


class _NotUnderstoodError(Exception):
    """Of a message of a known kind; what is wrong with it."""


_P = TypeVar("_P", pb.Command, pb.Response)
_M = TypeVar("_M")


def _decoded(
    octets: bytes, form: Callable[[], _P], readers: Mapping[str, Callable[[_P], _M]]
) -> _M | UnknownMessage:
    message = form()
    try:
        message.ParseFromString(octets)
    except DecodeError:
        return UnknownMessage("of octets that are no message")
    kind = message.WhichOneof("kind")
    if kind is None:
        unknown = UnknownFieldSet(message)
        return UnknownMessage(f"number {unknown[0].field_number}" if len(unknown) else "none")
    try:
        return readers[kind](message)
    except _NotUnderstoodError as error:
        return UnknownMessage(f"{kind} with {error}")


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
                number=command.number, flow=_flow(command.flow), start=_frontier(command.start)
            )
            return pb.Command(create_flow=create)
        case AllowCompaction():
            before = None if command.before is None else _frontier(command.before)
            compaction = pb.AllowCompaction(flow=command.flow, before=before)
            return pb.Command(allow_compaction=compaction)
        case Peek():
            peek = pb.Peek(
                number=command.number, flow=command.flow, at_least=_frontier(command.at_least)
            )
            return pb.Command(peek=peek)
        case _:
            assert_never(command)


def _peek_response(response: PeekResponse) -> pb.PeekResponse:
    match response.answer:
        case Positions():
            positions = _frontier(response.answer.write)
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
        input=_frontier(response.input),
        write=_frontier(response.write),
        output=_frontier(response.output),
    )


def _frontier(frontier: Frontier) -> pb.Frontier:
    ends: dict[str, list[pb.PartitionEnd]] = {}
    for partition, end in frontier.items():
        one = pb.PartitionEnd(address=octets_of(partition.address), end=end)
        ends.setdefault(partition.topic, []).append(one)
    topics = [pb.TopicFrontier(topic=octets_of(topic), ends=of) for topic, of in ends.items()]
    return pb.Frontier(topics=topics)


def _flow(flow: Flow) -> pb.Flow:
    link = pb.Link(
        source=flow.link.source,
        level=flow.link.level,
        branch=flow.link.branch,
        targets=flow.link.targets,
        beyond=flow.link.beyond,
        span=flow.link.span,
        topics=flow.link.topics,
    )
    return pb.Flow(link=link, kind=_KINDS[flow.kind], share=flow.share, shares=flow.shares)


def _read_frontier(message: pb.Frontier) -> dict[Partition, int]:
    if sum(len(of_topic.ends) for of_topic in message.topics) > PARTITIONS_MAX:
        raise _NotUnderstoodError(f"more than {PARTITIONS_MAX} partitions")
    frontier: dict[Partition, int] = {}
    for of_topic in message.topics:
        topic = _name(of_topic.topic, TOPIC_BYTES_MAX)
        for one in of_topic.ends:
            frontier[Partition(topic, _name(one.address, ADDRESS_BYTES_MAX))] = one.end
    return frontier


def _name(octets: bytes, most: int) -> str:
    if not 0 < len(octets) <= most:
        raise _NotUnderstoodError(f"a name of {len(octets)} octets")
    return text(octets)


def _read_flow(message: pb.Flow) -> Flow:
    kinds = {number: kind for kind, number in _KINDS.items()}
    if message.kind not in kinds:
        raise _NotUnderstoodError(f"flow kind {int(message.kind)}")
    if not message.share < message.shares <= SLOTS:
        raise _NotUnderstoodError(f"share {message.share} of {message.shares}")
    if not message.link.targets:
        raise _NotUnderstoodError("a link without targets")
    link = Link(
        source=ClusterName(message.link.source),
        level=message.link.level,
        branch=message.link.branch,
        targets=_clusters(message.link.targets),
        beyond=_clusters(message.link.beyond),
        span=_clusters(message.link.span),
        topics=message.link.topics,
    )
    return Flow(link, kinds[message.kind], message.share, message.shares)


def _clusters(names: Iterable[str]) -> tuple[ClusterName, ...]:
    return tuple(map(ClusterName, names))


def _read_hello(message: pb.Hello) -> Hello:
    return Hello(message.controller, message.epoch, message.oldest, message.newest, message.replica)


def _read_compaction(message: pb.AllowCompaction) -> AllowCompaction:
    before = _read_frontier(message.before) if message.HasField("before") else None
    return AllowCompaction(message.flow, before)


def _read_frontiers(message: pb.Frontiers) -> Frontiers:
    return Frontiers(
        message.flow,
        _read_frontier(message.input),
        _read_frontier(message.write),
        _read_frontier(message.output),
    )


def _read_state(message: pb.FlowState) -> FlowState:
    statuses = {number: status for status, number in _STATUSES.items()}
    if message.status not in statuses:
        raise _NotUnderstoodError(f"flow status {int(message.status)}")
    return FlowState(message.flow, statuses[message.status], message.epoch, message.reason)


def _read_peek_response(message: pb.PeekResponse) -> PeekResponse:
    match message.WhichOneof("answer"):
        case "positions":
            return PeekResponse(message.peek, Positions(_read_frontier(message.positions)))
        case "error":
            return PeekResponse(message.peek, PeekError(message.error))
        case "canceled":
            return PeekResponse(message.peek, Canceled())
        case _:
            raise _NotUnderstoodError("an unknown answer")


_COMMANDS: Mapping[str, Callable[[pb.Command], Command]] = {
    "hello": lambda one: _read_hello(one.hello),
    "create_instance": lambda one: CreateInstance(
        one.create_instance.cluster, one.create_instance.number
    ),
    "update_configuration": lambda one: UpdateConfiguration(dict(one.update_configuration.values)),
    "create_flow": lambda one: CreateFlow(
        one.create_flow.number,
        _read_flow(one.create_flow.flow),
        _read_frontier(one.create_flow.start),
    ),
    "schedule": lambda one: Schedule(one.schedule.flow),
    "allow_writes": lambda one: AllowWrites(one.allow_writes.flow, one.allow_writes.epoch),
    "allow_compaction": lambda one: _read_compaction(one.allow_compaction),
    "peek": lambda one: Peek(one.peek.number, one.peek.flow, _read_frontier(one.peek.at_least)),
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
