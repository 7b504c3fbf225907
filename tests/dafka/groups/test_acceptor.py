"""Many stores and members together are in tests/dafka/testing/test_membership.py."""

from __future__ import annotations

import pytest

from dafka.errors import StorageError, WireError
from dafka.groups.acceptor import Registers
from dafka.groups.commit_table import fold
from dafka.groups.membership import (
    NO_BALLOT,
    Accept,
    Ballot,
    Beat,
    Member,
    Membership,
    Prepare,
    Pulse,
    encode,
)
from dafka.limits import GROUP_NUMBERS_AHEAD_MAX
from dafka.model import Partition
from dafka.storage.memory import MemoryLog

ABOUT = Member((b"orders",), 1_000)
LONG_AGO_MS = 1_001
"""More than a session."""

FIRST, SECOND, THIRD = Ballot(1, "A"), Ballot(2, "B"), Ballot(3, "A")


@pytest.fixture
def log():
    return MemoryLog("AB" * 16)


@pytest.fixture
def registers(log):
    return Registers(log, -LONG_AGO_MS)


def of(generation, *names):
    return encode(Membership(generation, 1, dict.fromkeys(names, ABOUT)))


def take(registers, ballot, membership, now_ms):
    return registers.accept(Accept("g", ballot, membership), now_ms).granted


def propose(registers, ballot, membership, now_ms):
    registers.prepare(Prepare("g", ballot), now_ms)
    return take(registers, ballot, membership, now_ms)


def test_an_empty_register(registers):
    promise = registers.prepare(Prepare("g", FIRST), 0)
    assert promise == (FIRST, NO_BALLOT, b"", 0, ())
    assert registers.roster("g", 0) == (NO_BALLOT, b"", 0, False, ())


def test_a_ballot_far_ahead_is_refused_and_leaves_nothing(registers):
    # Whoever may have the last number leaves none to the members.
    far = Ballot(GROUP_NUMBERS_AHEAD_MAX + 1, "Z")
    for ask in (
        lambda: registers.prepare(Prepare("g", far), 0),
        lambda: take(registers, far, of(1, "Z"), 0),
    ):
        with pytest.raises(WireError, match="membership"):
            ask()
    assert registers.roster("g", 0) == (NO_BALLOT, b"", 0, False, ())
    near = Ballot(GROUP_NUMBERS_AHEAD_MAX, "Z")
    assert registers.prepare(Prepare("g", near), 0).promised == near


def test_nothing_of_a_lower_ballot_is_taken(registers):
    assert registers.prepare(Prepare("g", SECOND), 0).promised == SECOND
    assert registers.prepare(Prepare("g", FIRST), 0).promised == SECOND
    assert not take(registers, FIRST, of(1, "A"), 0)
    assert take(registers, SECOND, of(1, "B"), 0)
    assert take(registers, SECOND, of(1, "B"), 0)
    assert take(registers, THIRD, of(2, "A", "B"), 0)
    assert registers.prepare(Prepare("g", Ballot(4, "B")), 0)[1:3] == (THIRD, of(2, "A", "B"))


def test_groups_have_nothing_to_do_with_one_another(registers):
    assert propose(registers, SECOND, of(1, "B"), 0)
    registers.prepare(Prepare("h", FIRST), 0)
    assert registers.accept(Accept("h", FIRST, of(1, "A")), 0).granted
    assert registers.roster("h", 0).membership == of(1, "A")


def test_a_store_on_a_new_disk_waits_for_the_session_of_whom_the_old_one_may_have_heard(log):
    registers = Registers(log, 500)
    assert not propose(registers, FIRST, of(1, "A"), 1_500)
    assert propose(registers, FIRST, of(1, "A"), 1_501)
    assert take(registers, SECOND, of(2, "A", "B"), 1_501), "it knows now whom it hears"
    again = Registers(log, 1_600)
    assert take(again, THIRD, of(3, "A", "B", "C"), 1_600), "it has its membership from the disk"


def test_a_store_on_a_new_disk_takes_only_what_it_has_promised_since(log, registers):
    assert not take(registers, SECOND, of(1, "B"), 0), "it may have been agreed on long ago"
    registers.prepare(Prepare("g", THIRD), 0)
    assert not take(registers, SECOND, of(1, "B"), 0)
    again = Registers(log, 0)
    assert take(again, THIRD, of(2, "A", "B"), LONG_AGO_MS), "promised on this disk"
    assert take(again, Ballot(4, "B"), of(3, "B", "A"), LONG_AGO_MS), "it is no blank any more"


def test_what_was_promised_and_taken_is_on_disk(log, registers):
    assert propose(registers, FIRST, of(1, "A"), 0)
    registers.prepare(Prepare("g", THIRD), 0)
    again = Registers(log, 0)
    assert again.prepare(Prepare("g", SECOND), 0)[:3] == (THIRD, FIRST, of(1, "A"))
    assert not take(again, SECOND, of(2, "A"), 0)


def test_a_promise_that_the_disk_refuses_is_none(registers, log, monkeypatch):
    def broken(*_, **__):
        raise StorageError("disk full")

    assert propose(registers, FIRST, of(1, "A"), 0)
    with monkeypatch.context() as patched:
        patched.setattr(log, "append", broken)
        with pytest.raises(StorageError):
            registers.prepare(Prepare("g", SECOND), 0)
        with pytest.raises(StorageError):
            take(registers, SECOND, of(2, "A", "B"), 0)
    assert take(registers, FIRST, of(1, "A"), 0)


def test_a_membership_that_lacks_somebody_who_is_heard_is_not_taken(registers):
    assert propose(registers, FIRST, of(1, "A", "B"), 0)
    assert registers.beat(Beat("g", "B", 0), 900).renewed
    assert not take(registers, THIRD, of(2, "A"), 1_900)
    assert take(registers, THIRD, of(2, "A"), 1_901)


def test_who_was_dropped_is_not_heard_any_more(registers):
    assert propose(registers, FIRST, of(1, "A", "B"), 0)
    assert take(registers, THIRD, of(2, "A"), 1_001)
    assert not registers.beat(Beat("g", "B", 1), 1_002).renewed
    assert [pulse.member for pulse in registers.roster("g", 1_002).pulses] == ["A"]


def test_who_says_goodbye_is_not_waited_for(registers):
    assert propose(registers, FIRST, of(1, "A", "B"), 0)
    assert not registers.beat(Beat("g", "B", 1, leaving=True), 10).renewed
    assert not registers.beat(Beat("g", "B", 1), 20).renewed
    assert registers.roster("g", 30).pulses[1] == Pulse("B", 20, False, 1)
    assert take(registers, THIRD, of(2, "A"), 40)


def test_a_store_that_has_just_started_takes_everybody_for_alive(log, registers):
    assert propose(registers, FIRST, of(1, "A", "B"), 0)
    again = Registers(log, 0)
    assert [name for name, _ in again.prepare(Prepare("g", SECOND), 50_000).alive] == ["A", "B"]
    assert not take(again, THIRD, of(2, "A"), 51_000)
    assert take(again, THIRD, of(2, "A"), 51_001)


def test_whoever_proposes_is_alive(registers):
    assert propose(registers, FIRST, of(1, "A"), 0)
    assert take(registers, THIRD, of(1, "A"), 5_000)
    assert registers.prepare(Prepare("g", Ballot(4, "B")), 6_000).alive == (("A", ABOUT),)


def test_the_last_generation_that_was_taken_is_known_after_a_restart(log, registers):
    assert registers.generation("g", 0) == 0
    propose(registers, FIRST, of(3, "A"), 0)
    registers.prepare(Prepare("g", THIRD), 0)
    assert registers.generation("g", 0) == Registers(log, 0).generation("g", 0) == 3
    assert registers.generation("other", 0) == 0


def test_what_members_have_released_is_told(registers):
    assert propose(registers, FIRST, of(5, "A", "B"), 0)
    registers.beat(Beat("g", "A", 5), 100)
    registers.beat(Beat("g", "A", 4), 200)  # overtaken on the way
    assert registers.roster("g", 300).pulses == (Pulse("A", 100, True, 5), Pulse("B", 300, True, 0))


def test_the_epoch_of_commits_is_told(registers, log, committed):
    batch = committed(0, ("g", Partition("orders", "A1"), 3, 41, 1))
    log.append([batch], entries=fold(log, [batch]).entries)
    assert registers.prepare(Prepare("g", FIRST), 0).epoch == 41
    assert registers.roster("g", 0).epoch == 41


def test_no_more_groups_than_there_is_room_for(log):
    registers = Registers(log, -LONG_AGO_MS, groups_max=2)
    for group in ("a", "b"):
        registers.prepare(Prepare(group, FIRST), 0)
        assert registers.accept(Accept(group, FIRST, of(1, "A")), 0).granted
    with pytest.raises(WireError, match="membership"):
        registers.roster("c", 500)
    assert registers.roster("c", 1_001).membership == b""
    assert registers.roster("b", 1_001).membership == of(1, "A")


def test_what_is_no_membership_is_not_taken(registers):
    with pytest.raises(WireError, match="membership"):
        take(registers, FIRST, b"[]", 0)
