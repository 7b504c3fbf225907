"""Messages as Protobuf: what is written is read (I19), and what is not understood is told."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.limits import HOLES_PASSED_MAX, PARTITIONS_MAX, TOPIC_BYTES_MAX
from dafka.model import Partition
from distributor.control import control_pb2 as pb
from distributor.control import messages, wire
from distributor.control.messages import (
    FlowKind,
    FlowStatus,
    Frontiers,
    Peek,
    PeekError,
    PeekResponse,
    Ping,
    Pong,
    UnknownMessage,
)
from distributor.control.wire import (
    AT_ONCE_BYTES,
    AT_ONCE_MAX,
    ENDS_AT_ONCE_MAX,
    decode_commands,
    decode_responses,
    decode_wishes,
    encode_commands,
    encode_responses,
    encode_wishes,
)
from tests.support.control_commands import create
from tests.support.control_messages import commands, responses, wishes


def encode_command(command):
    """A message of one command."""
    (octets,) = encode_commands([command])
    return octets


def decode_command(octets):
    """The command of a message that has one."""
    (command,) = decode_commands(octets)
    return command


def encode_response(response):
    return encode_responses([response])


def decode_response(octets):
    (response,) = decode_responses(octets)
    return response


ROOT = Path(__file__).parents[3]
GENERATED = ROOT / "distributor/control"

FIELDS = """
AllowCompaction: flow=1 before=2
AllowWrites: flow=1 epoch=2
CancelPeek: peek=1
Canceled:
Commands: commands=1
Command: hello=1 create_instance=2 update_configuration=3 create_flow=4 schedule=5 allow_writes=6 \
allow_compaction=7 peek=8 cancel_peek=9 initialization_complete=10 ping=11
CreateFlow: number=1 flow=2 start=3
CreateInstance: cluster=1 number=2
Flow: link=1 kind=2 share=3 shares=4 passes=5
FlowDropped: flow=1
FlowState: flow=1 status=2 epoch=3 reason=4
Frontier: topics=1
Frontiers: flow=1 input=2 write=3 output=4
Hello: controller=1 epoch=2 oldest=3 newest=4 replica=5
HelloOk: version=1 replica=2
Hole: topic=1 address=2 first=3 end=4
InitializationComplete:
Link: source=1 level=2 branch=3 targets=4 beyond=5 span=6 topics=7
PartitionEnd: address=1 end=2
Peek: number=1 flow=2 at_least=3
PeekResponse: peek=1 positions=2 error=3 canceled=4
Ping: number=1
Pong: number=1 progress=2
Responses: responses=1
Response: hello_ok=1 frontiers=2 flow_state=3 flow_dropped=4 peek_response=5 pong=6
Schedule: flow=1
TopicFrontier: topic=1 ends=2
UpdateConfiguration: values=1
Wished: number=1 flow=2 writer=3 epoch=4
Aim: level=1 branch=2 topics=3 target=4
LinkHoles: level=1 branch=2 topics=3 holes=4
Wishes: epoch=1 version=2 flows=3 place=4 aims=5 paused=6 levels_epoch=7 passed=8
FlowKind: FLOW_KIND_UNSPECIFIED=0 FLOW_KIND_RECORDS=1 FLOW_KIND_OFFSETS=2 FLOW_KIND_SCHEMAS=3
FlowStatus: FLOW_STATUS_UNSPECIFIED=0 FLOW_STATUS_SUSPENDED=1 FLOW_STATUS_WARM=2 \
FLOW_STATUS_WRITING=3 FLOW_STATUS_DRAINING=4 FLOW_STATUS_FAILED=5
"""
"""As they were published; there may be more, but what is here keeps its number."""


def test_what_protoc_writes_is_what_is_there(tmp_path):
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, str(GENERATED / "control.proto")], check=True, timeout=60)
    made = tmp_path / "distributor/control"
    for name in ("control_pb2.py", "control_pb2.pyi"):
        assert (made / name).read_text() == (GENERATED / name).read_text(), name


def numbered():
    """Each message and enumeration, with the numbers of what it has."""
    for name, message in sorted(pb.DESCRIPTOR.message_types_by_name.items()):
        yield name, {field.name: field.number for field in message.fields}
    for name, enum in sorted(pb.DESCRIPTOR.enum_types_by_name.items()):
        yield name, {value.name: value.number for value in enum.values}


def test_what_has_a_number_keeps_it():
    found = dict(numbered())
    for line in FIELDS.strip().splitlines():
        name, _, fields = line.partition(":")
        published = {field: int(number) for field, number in (f.split("=") for f in fields.split())}
        assert published.items() <= found[name].items(), name


def test_every_kind_can_be_written():
    kinds = {field.message_type.name for field in pb.Command.DESCRIPTOR.fields}
    kinds |= {field.message_type.name for field in pb.Response.DESCRIPTOR.fields}
    values = chain.from_iterable(map(get_args, (messages.Command, messages.Response)))
    assert kinds == {value.__name__ for value in values} - {"UnknownMessage"}
    assert len(pb.FlowKind.keys()) == len(FlowKind) + 1
    assert len(pb.FlowStatus.keys()) == len(FlowStatus) + 1


@given(commands)
def test_commands_are_read_as_they_were_written(command):
    assert decode_command(encode_command(command)) == command


@given(responses)
def test_responses_are_read_as_they_were_written(response):
    assert [decode_response(one) for one in encode_response(response)] == [response]


@given(st.binary(max_size=60))
def test_no_octets_raise_anything(octets):
    for decode in (decode_commands, decode_responses):
        assert isinstance(decode(octets), list)


@given(commands, st.data())
def test_no_damage_raises_anything(command, data):
    octets = bytearray(encode_command(command))
    if octets:
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    decode_commands(bytes(octets))


def test_how_far_very_many_partitions_are_takes_several_messages():
    ends = {Partition("orders", f"{one:032X}"): one for one in range(ENDS_AT_ONCE_MAX + 1)}
    behind = dict(list(ends.items())[:-3])
    sent = [*encode_response(Frontiers(1, ends, behind, behind))]
    parts = [one for octets in sent for one in decode_responses(octets)]
    assert [len(part.input) for part in parts] == [ENDS_AT_ONCE_MAX, 1]
    for part in parts:
        assert part.output.items() <= part.input.items()
    assert parts[0].write | parts[1].write == behind


def written(kind, **fields):
    """A command of a kind with these fields, as nobody here would write it."""
    return pb.Commands(commands=[{kind: fields}]).SerializeToString()


LINK = {"source": "north", "level": 1, "targets": ["south"]}
FLOW = {"link": LINK, "kind": 1, "share": 0, "shares": 1}
LATER_FIELD = bytes([15 << 3 | 2, 0])
"""An empty message under number 15."""


def one(command):
    """A message with one command, or response, of these octets."""
    return bytes([1 << 3 | 2, len(command)]) + command


@pytest.mark.parametrize(
    ("octets", "kind"),
    [
        (one(b""), "none"),
        (b"\xff", "of octets that are no message"),
        (one(LATER_FIELD), "number 15"),
        (written("create_flow", number=1), "create_flow with flow kind 0"),
        (written("create_flow", flow={**FLOW, "kind": 9}), "create_flow with flow kind 9"),
        (written("create_flow", flow={**FLOW, "shares": 0}), "create_flow with share 0 of 0"),
        (written("create_flow", flow={**FLOW, "share": 1}), "create_flow with share 1 of 1"),
        (written("create_flow", flow={**FLOW, "shares": 4097}), "create_flow with share 0 of 4097"),
        (
            written("create_flow", flow={**FLOW, "link": {"source": "a"}}),
            "create_flow with a link without targets",
        ),
        (
            written("peek", at_least={"topics": [{"topic": b"", "ends": [{"address": b"A"}]}]}),
            "peek with a name of 0 octets",
        ),
        (
            written("peek", at_least={"topics": [{"topic": b"t" * (TOPIC_BYTES_MAX + 1)}]}),
            "peek with a name of 250 octets",
        ),
    ],
)
def test_what_is_not_understood_is_told(octets, kind):
    assert decode_command(octets) == UnknownMessage(kind)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (pb.Response(flow_state=pb.FlowState(flow=1)), "flow_state with flow status 0"),
        (
            pb.Response(peek_response=pb.PeekResponse()),
            "peek_response with an unknown answer",
        ),
    ],
)
def test_so_is_what_is_not_understood_of_a_response(response, kind):
    octets = pb.Responses(responses=[response]).SerializeToString()
    assert decode_response(octets) == UnknownMessage(kind)
    assert decode_response(b"\xff") == UnknownMessage("of octets that are no message")


def test_what_a_later_version_adds_to_a_kind_is_passed_over():
    assert decode_command(encode_command(Ping(3)) + LATER_FIELD) == Ping(3)
    later = pb.Command(ping=pb.Ping(number=3)).SerializeToString()
    assert decode_command(one(later + LATER_FIELD)) == Ping(3)
    later = pb.Ping(number=3).SerializeToString() + LATER_FIELD
    assert decode_command(one(bytes([11 << 3 | 2, len(later)]) + later)) == Ping(3)


def test_what_is_said_at_once_is_bounded_and_in_order():
    pings = [Ping(number) for number in range(2 * AT_ONCE_MAX + 1)]
    sent = [decode_commands(octets) for octets in encode_commands(pings)]
    assert [len(some) for some in sent] == [AT_ONCE_MAX, AT_ONCE_MAX, 1]
    assert [one for some in sent for one in some] == pings
    assert [*encode_commands([])] == [*encode_responses([])] == decode_commands(b"") == []
    large = [PeekResponse(number, PeekError("x" * (AT_ONCE_BYTES // 3))) for number in range(5)]
    sent = [decode_responses(octets) for octets in encode_responses(large)]
    assert [len(some) for some in sent] == [2, 2, 1]
    assert [one for some in sent for one in some] == large
    many = pb.Commands(commands=[pb.Command()] * (AT_ONCE_MAX + 1)).SerializeToString()
    assert decode_commands(many) == [UnknownMessage("with 1001 at once")]
    many = pb.Responses(responses=[pb.Response()] * (AT_ONCE_MAX + 1)).SerializeToString()
    assert decode_responses(many) == [UnknownMessage("with 1001 at once")]


@pytest.mark.slow
def test_more_partitions_than_there_may_be_are_not_read():
    ends = [pb.PartitionEnd(address=b"A", end=3)] * PARTITIONS_MAX
    most = pb.TopicFrontier(topic=b"orders", ends=ends)
    told = written("peek", at_least=pb.Frontier(topics=[most]))
    assert decode_command(told) == Peek(0, 0, {Partition("orders", "A"): 3})
    more = pb.TopicFrontier(topic=b"invoices", ends=ends[:1])
    told = written("peek", at_least=pb.Frontier(topics=[most, more]))
    assert decode_command(told) == UnknownMessage("peek with more than 200000 partitions")


def test_what_nobody_understood_is_not_sent_on():
    for encode in (encode_commands, encode_responses):
        with pytest.raises(AssertionError):
            next(encode([UnknownMessage("hm")]))


@given(wishes)
def test_what_a_controller_keeps_is_read_as_it_was_written(wishes):
    assert decode_wishes(encode_wishes(wishes)) == wishes
    assert [*decode_wishes(encode_wishes(wishes)).flows] == sorted(wishes.flows)


def kept_with(*holes):
    return pb.Wishes(passed=[pb.LinkHoles(holes=holes)]).SerializeToString()


HOLE = pb.Hole(topic=b"orders", address=b"A", first=3, end=9)


def test_no_more_holes_than_there_may_be_are_read():
    assert decode_wishes(kept_with(*[HOLE] * HOLES_PASSED_MAX)) is not None
    assert decode_wishes(kept_with(*[HOLE] * (HOLES_PASSED_MAX + 1))) is None


@pytest.mark.parametrize(
    "octets",
    [
        b"\xff",
        pb.Wishes(flows=[pb.Wished()]).SerializeToString(),
        kept_with(pb.Hole(topic=b"orders", address=b"A", first=9, end=9)),
        kept_with(pb.Hole(address=b"A", first=3, end=9)),
    ],
    ids=range(4),
)
def test_what_is_kept_and_not_understood_is_nothing(octets):
    assert decode_wishes(octets) is None


def test_names_that_are_no_text_come_back():
    ends = {Partition("caf\udce9", "\udcff"): 1}
    command = create(1, ends)
    assert decode_command(encode_command(command)) == command
    assert (wire.SERVICE, wire.METHOD) == ("dafka.control.v1.Replica", "Control")
    assert decode_response(next(encode_response(Pong(1, 2)))) == Pong(1, 2)
