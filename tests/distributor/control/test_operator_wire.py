"""What operators ask and are told, as it travels."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributor.control import operator_wire as wire
from distributor.control import operators_pb2 as pb
from distributor.control.aims import LinkTurn
from distributor.control.demands import LevelPause
from distributor.control.operator_wire import RouteQuestion, WaitQuestion
from distributor.control.protocol import PassedOver
from distributor.control.questions import AimedLinkRow, LeftFlowRow, RouteRow, Waited
from distributor.control.resuming import ResumeOrder
from distributor.control.wire_values import NotUnderstoodError

ROOT = Path(__file__).parents[3]
GENERATED = ROOT / "distributor/control"

FIELDS = """
ExplainAnswer: routes=1
ExplainRequest: what=1 sequence=2
AimedLink: target=1 level=2 topics=3
LeftFlow: flow=1 target=2 level=3 share=4 lacks=5 why=6
PauseRequest: level=1 paused=2
ResumeAnswer: partitions=1 records=2
ResumeRequest: level=1 topic=2
RetargetAnswer: links=1
RetargetRequest: level=1 to=2
Route: topic=1 partitions=2 flow=3 target=4 level=5 share=6 writer=7 state=8 carried=9 lacks=10 \
why=11
WaitAnswer: left=1 flows=2 partitions=3
WaitRequest: timeout_ms=1
"""
"""As they were published; there may be more, but what is here keeps its number."""

names = st.text(max_size=5)
counts = st.integers(0, 2**32 - 1)
lacks = st.none() | counts
lefts = st.builds(LeftFlowRow, counts, names, counts, names, lacks, names)
routes = st.builds(
    RouteRow,
    topic=names,
    partitions=counts,
    flow=counts,
    target=names,
    level=counts,
    share=names,
    writer=names,
    state=names,
    carried=st.booleans(),
    lacks=lacks,
    why=names,
)


@given(counts)
def test_a_wait_is_read_as_it_was_written(timeout_ms):
    question = WaitQuestion(timeout_ms)
    assert wire.decode_wait(wire.encode_wait(question)) == question


@given(st.lists(lefts, max_size=3).map(tuple), counts, counts)
def test_what_came_of_it_is_read_as_it_was_written(left, flows, partitions):
    waited = Waited(left, flows, partitions)
    assert wire.decode_waited(wire.encode_waited(waited)) == waited


@given(names, st.none() | counts)
def test_a_question_about_ways_is_read_as_it_was_written(what, sequence):
    question = RouteQuestion(what, sequence)
    assert wire.decode_route(wire.encode_route(question)) == question


@given(st.lists(routes, max_size=3))
def test_ways_are_read_as_they_were_written(rows):
    assert wire.decode_routes(wire.encode_routes(rows)) == rows


@given(counts, names)
def test_a_turn_is_read_as_it_was_written(level, to):
    assert wire.decode_turn(wire.encode_turn(LinkTurn(level, to))) == LinkTurn(level, to)


@given(st.lists(st.builds(AimedLinkRow, names, counts, names), max_size=3))
def test_where_links_aim_is_read_as_it_was_written(rows):
    assert wire.decode_aimed(wire.encode_aimed(rows)) == rows


@given(counts, st.booleans())
def test_a_pause_is_read_as_it_was_written(level, paused):
    pause = LevelPause(level, paused)
    assert wire.decode_pause(wire.encode_pause(pause)) == pause


@given(counts, names, counts)
def test_that_links_go_on_is_read_as_it_was_written(level, topic, records):
    asked = ResumeOrder(level, topic)
    assert wire.decode_resume(wire.encode_resume(asked)) == asked
    passed = PassedOver(level, records)
    assert wire.decode_resumed(wire.encode_resumed(passed)) == passed


DECODERS = (
    *(wire.decode_wait, wire.decode_waited, wire.decode_route, wire.decode_routes),
    *(wire.decode_turn, wire.decode_aimed, wire.decode_pause, wire.decode_resume),
    wire.decode_resumed,
)


@pytest.mark.parametrize("decode", DECODERS)
@given(octets=st.binary(max_size=40))
def test_whatever_comes_only_one_error_is_raised(decode, octets):
    with suppress(NotUnderstoodError):
        decode(octets)


def test_what_protoc_writes_is_what_is_there(tmp_path):
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, str(GENERATED / "operators.proto")], check=True, timeout=60)
    made = tmp_path / "distributor/control"
    for name in ("operators_pb2.py", "operators_pb2.pyi"):
        assert (made / name).read_text() == (GENERATED / name).read_text(), name


def test_what_has_a_number_keeps_it():
    messages = pb.DESCRIPTOR.message_types_by_name
    for line in FIELDS.strip().splitlines():
        name, _, fields = line.partition(":")
        found = {field.name: field.number for field in messages[name].fields}
        published = {field: int(number) for field, number in (f.split("=") for f in fields.split())}
        assert published.items() <= found.items(), name
