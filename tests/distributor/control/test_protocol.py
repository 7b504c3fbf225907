from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import WireError
from dafka.limits import QUERY_BYTES_MAX
from distributor.control import protocol
from distributor.control.protocol import decode_answer, decode_command, encode

ROW = protocol.LinkRow("c1", 3, 1, "c3", "draining", "c4", "c4 does not answer", 2, -1)


@pytest.mark.parametrize(
    "command",
    [
        protocol.LinksCommand(),
        protocol.RetargetCommand("c4"),
        protocol.PauseCommand(),
        protocol.LostCommand("c3"),
        protocol.RecallCommand("c3", (b"t", b"A")),
    ],
)
def test_commands_come_back_as_they_were(command):
    assert decode_command(encode(command)) == command


@pytest.mark.parametrize(
    "answer",
    [
        protocol.LinkRows((ROW,)),
        protocol.Remembered(12, ((b"orders", b"AA", 4),)),
        protocol.Remembered(12, ((b"orders", b"AA", 4),), more=True),
        protocol.CommandRefused("no such target"),
    ],
)
def test_answers_come_back_as_they_were(answer):
    assert decode_answer(encode(answer)) == answer


@given(st.binary(max_size=60))
def test_whatever_comes_it_is_read_or_refused(frame):
    for decode in (decode_command, decode_answer):
        with suppress(WireError):
            decode(frame)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "control version"),
        (b"\x02" + encode(protocol.LinksCommand())[1:], "control version"),
        (b"\x01\xc1", "control message"),
        (encode(protocol.RetargetCommand("x" * 64)), "control message"),
        (b"\x01" * (QUERY_BYTES_MAX + 1), "control size"),
    ],
    ids=["nothing", "version", "garbage", "long name", "size"],
)
def test_refusals_say_why(frame, reason):
    with pytest.raises(WireError) as told:
        decode_command(frame)
    assert told.value.reason == reason
