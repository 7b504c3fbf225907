"""The table of messages in docs/security.md: complete, with the rights that the code asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from dafka.transport.access import ANYBODY, EVERYTHING, Rights, Sender, taken
from dafka.wire import messages, rfc46
from dafka.wire.messages import MessageId

TESTS = Path(__file__).parent
SECTION = (
    (TESTS.parent / "docs" / "security.md").read_text().split("\n## What a message can do\n")[1]
)
ROWS = {
    cells[0]: (cells[1], cells[-1].replace("`", "").split())
    for line in SECTION.split("\n## ")[0].splitlines()
    if line.startswith("|")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
    if cells[0] not in ("message", "---")
}

MESSAGES = {
    "RECORD": messages.RecordMessage("t", "P", 0, b""),
    "RECORDS": messages.Records("t", "P", 0, 1, b""),
    "SLOT_RECORDS": messages.SlotRecords("t", "P", 0, 1, b""),
    "STORED_RECORDS": messages.StoredRecords("S", "t", "P", 0, 1, b""),
    "HEAD": messages.Head("t", "P", 0),
    "DIRECT_RECORD": messages.DirectRecord("C", "t", "P", 0, b""),
    "DIRECT_RECORDS": messages.DirectRecords("C", "t", "P", 0, 1, b""),
    "DIRECT_HEAD": messages.DirectHead("C", "t", "P", 0),
    "DIRECT_HEAD of a store": messages.DirectHead("C", "t", "P", 0, "S"),
    "LOG_START": messages.LogStart("C", "t", "P", 0, "S"),
    "ACK": messages.Ack("t", "P", "S", 0),
    "STORE_HELLO": messages.StoreHello("C", "S"),
    "FETCH": messages.Fetch("t", "P", "C", 0, 1),
    "FETCH of a store": messages.Fetch("t", "P", "C", 0, 1, by_store=True),
    "GET_HEADS": messages.GetHeads("t", "C"),
    "CONSUMER_HELLO": messages.ConsumerHello("S", "C", ("t",)),
}

HOLDERS = {
    "read": Sender(Rights(read=EVERYTHING)),
    "write": Sender(Rights(write=EVERYTHING), "P"),
    "mirror": Sender(Rights(mirror=EVERYTHING)),
}
"""Who has just one right; the address in question is of the second's key."""

ENOUGH = {"read": {"read"}, "write": {"write", "mirror"}, "mirror": {"mirror"}, "cluster": set()}


def is_taken(sender, name):
    """Whether a message is taken for what it is when it comes from this sender."""
    message = rfc46.decode(rfc46.encode(MESSAGES[name]))
    return MESSAGES[name] in taken(sender, [message])


def test_every_message_has_its_row():
    assert ROWS.keys() == MESSAGES.keys()
    assert {name.partition(" ")[0] for name in ROWS} == {one.name for one in MessageId}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_right_is_the_one_that_the_code_asks_for(name):
    right, _ = ROWS[name]
    assert {who for who, sender in HOLDERS.items() if is_taken(sender, name)} == ENOUGH[right]
    if right == "cluster":
        assert is_taken(Sender(ANYBODY), name)
    if right == "write":
        assert not is_taken(Sender(Rights(write=EVERYTHING), "Q"), name)


@pytest.mark.parametrize("name", MESSAGES)
def test_its_tests_are_there(name):
    _, tests = ROWS[name]
    assert tests
    assert all((TESTS / test).exists() for test in tests)
