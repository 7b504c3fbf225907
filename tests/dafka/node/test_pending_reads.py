from __future__ import annotations

from dafka.model import MARK_CHARACTERS, Partition
from dafka.node.pending_reads import PendingReads
from dafka.protocol.effects import ReadRange

P, Q = Partition("flights", "AA"), Partition("weather", "BB")


def asked(requester, partition=P, sequence=0):
    return ReadRange(requester.ljust(32, "0"), partition, sequence, 10, 1_000)


def drained(reads):
    return list(iter(reads.pop, None))


def test_each_peer_has_its_turn():
    reads = PendingReads()
    of_one = [asked("A", Partition("flights", str(number))) for number in range(3)]
    others = [asked("B"), asked("C"), asked("C", Q)]
    assert all(map(reads.add, [*of_one, *others]))
    assert len(reads) == 6
    assert drained(reads) == [of_one[0], others[0], others[1], of_one[1], others[2], of_one[2]]
    assert len(reads) == 0


def test_nodes_of_one_key_have_their_turns_together():
    reads = PendingReads()
    mark = "A" * MARK_CHARACTERS
    assert all(map(reads.add, [asked(mark + "1"), asked(mark + "2"), asked("B")]))
    assert drained(reads) == [asked(mark + "1"), asked("B"), asked(mark + "2")]


def test_what_is_asked_for_again_is_read_once():
    reads = PendingReads()
    assert all(map(reads.add, [asked("A"), asked("A", Q), asked("A", sequence=7)]))
    assert drained(reads) == [asked("A", sequence=7), asked("A", Q)]


def test_one_peer_has_a_part_of_the_room():
    reads = PendingReads(peer_max=2, all_max=3)
    assert [*map(reads.add, [asked("A"), asked("A", Q)])] == [True, True]
    assert not reads.add(asked("A", Partition("orders", "CC")))
    assert reads.add(asked("A", sequence=3)), "in place of what it asked for before"
    assert [*map(reads.add, [asked("B"), asked("C")])] == [True, False]
    assert reads.pop() == asked("A", sequence=3)
    assert reads.add(asked("C"))
