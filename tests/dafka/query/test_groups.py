from __future__ import annotations

import pytest

from dafka.errors import WireError
from dafka.groups import membership
from dafka.groups.commit import Commit, CommitKey, encode
from dafka.groups.fold import fold
from dafka.groups.membership import Ballot, Beat, Member, Membership, Prepare
from dafka.groups.registers import Registers
from dafka.model import Partition
from dafka.query import groups, messages
from dafka.query.groups import answered
from dafka.storage.memory import MemoryLog

A1, B2 = Partition("orders", "A1"), Partition("orders", "B2")


@pytest.fixture
def log(committed):
    log = MemoryLog("AB" * 16)
    rows = [("billing", A1, 3, 1, 10), ("billing", B2, None, 1, 10), ("audit", A1, 7, 1, 10)]
    batch = committed(0, *rows)
    log.append([batch], entries=fold(log, [batch]).entries)
    return log


def ask(log, question):
    return answered(question, log, Registers(log), 0)


def test_groups(log):
    assert ask(log, messages.Groups()) == messages.GroupPage((b"audit", b"billing"), False)
    assert ask(log, messages.Groups(b"audit")) == messages.GroupPage((b"billing",), False)


def test_commits_of_a_group_as_they_were_made(log):
    page = ask(log, messages.Offsets(b"billing"))
    first = encode(CommitKey("billing", A1), Commit(3, 1, 10))
    second = encode(CommitKey("billing", B2), Commit(None, 1, 10))
    assert set(page.commits) == {first, second}
    assert not page.more
    assert ask(log, messages.Offsets(b"nobody")) == messages.OffsetPage((), False)


def test_a_page_has_so_many_rows_and_says_whether_there_are_more(log, monkeypatch):
    monkeypatch.setattr(groups, "ROWS_MAX", 1)
    assert ask(log, messages.Groups()) == messages.GroupPage((b"audit",), True)
    assert ask(log, messages.Groups(b"billing")) == messages.GroupPage((), False)
    assert len(ask(log, messages.Offsets(b"billing")).commits) == 1


FIRST = Ballot(1, "A")
TAKEN = membership.encode(Membership(1, 1, {"A": Member((b"orders",), 1_000)}))


def test_agreeing_on_members(log):
    registers = Registers(log)

    def asked(question, now_ms=0):
        return answered(question, log, registers, now_ms).reply

    assert asked(messages.Prepare(Prepare("billing", FIRST))).promised == FIRST
    accept = messages.Accept(membership.Accept("billing", FIRST, TAKEN))
    assert asked(accept) == membership.Accepted(True, FIRST)
    assert asked(messages.Beat(Beat("billing", "A", 1)), 500).renewed
    roster = asked(messages.Members(b"billing"), 700)
    assert (roster.accepted, roster.membership, roster.renewed) == (FIRST, TAKEN, False)
    assert roster.pulses == (membership.Pulse("A", 200, True, 1),)


@pytest.mark.parametrize(
    "question",
    [
        messages.Members(b""),
        messages.Prepare(Prepare("g" * 250, FIRST)),
        messages.Accept(membership.Accept("a\0b", FIRST, b"")),
        messages.Accept(membership.Accept("billing", FIRST, b"[]")),
    ],
    ids=repr,
)
def test_groups_and_members_that_cannot_be(log, question):
    with pytest.raises(WireError, match="membership"):
        ask(log, question)
