from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.testing.history import (
    Acknowledged,
    Began,
    Fault,
    History,
    Polled,
    ReadBack,
    Sent,
    Settled,
)

P = Partition("orders", "AA")


def test_sends_are_numbered_and_keep_their_order():
    history = History()
    first = history.sent("p", "orders", [b"0"], 1)
    second = history.sent("p", "orders", [b"1", b"2"], 2)
    history.acknowledged(second, "AA", 1, 3)
    history.record(Fault(4, "crash"))
    assert (first, second, len(history)) == (1, 2, 4)
    assert list(history)[:3] == [
        Sent(1, 1, "p", "orders", (b"0",)),
        Sent(2, 2, "p", "orders", (b"1", b"2")),
        Acknowledged(3, 2, "AA", 1, 1),
    ]


def test_what_is_saved_is_loaded_and_numbering_goes_on(tmp_path):
    events = [
        Began(0, "c", ("orders", "\udcff"), True),
        Sent(1, 1, "p", "orders", (b"\x00\xff\n", b"")),
        Polled(2, "c", P, 0, (b"\x00\xff\n", b"")),
        Settled(3, ("s1",)),
        ReadBack(3, "s1", P, 0, (b"x",)),
    ]
    History(events).save(tmp_path / "history.jsonl")
    loaded = History.load(tmp_path / "history.jsonl")
    assert list(loaded) == events
    assert loaded.sent("p", "orders", [b"y"], 4) == 2


@pytest.mark.parametrize(
    "line", ["no json", "[]", "{}", '{"event": "Nothing"}', '{"event": "Fault"}', '{"event": []}']
)
def test_a_line_that_is_no_event_is_refused_by_number(tmp_path, line):
    file = tmp_path / "history.jsonl"
    file.write_text('{"event": "Fault", "at_ms": 1, "name": "x"}\n' + line + "\n")
    with pytest.raises(MisuseError, match="line 2 is not an event"):
        History.load(file)
