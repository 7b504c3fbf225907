from __future__ import annotations

from dafka.model import MARK_CHARACTERS, Partition
from dafka.protocol.effects import ReadRange
from dafka.protocol.fair_queue import FairQueue

P, Q = Partition("flights", "AA"), Partition("weather", "BB")


class Asking:
    def __init__(self, peer_max=100, all_max=100):
        self.queue = FairQueue(peer_max, all_max)

    def add(self, read):
        return self.queue.add(read.requester, read.partition, read)

    def drained(self):
        return list(iter(self.queue.pop, None))


def asked(requester, partition=P, sequence=0):
    return ReadRange(requester.ljust(32, "0"), partition, sequence, 10, 1_000)


def test_each_peer_has_its_turn():
    asking = Asking()
    of_one = [asked("A", Partition("flights", str(number))) for number in range(3)]
    others = [asked("B"), asked("C"), asked("C", Q)]
    assert all(map(asking.add, [*of_one, *others]))
    assert len(asking.queue) == 6
    assert asking.drained() == [of_one[0], others[0], others[1], of_one[1], others[2], of_one[2]]
    assert len(asking.queue) == 0


def test_nodes_of_one_key_have_their_turns_together():
    asking = Asking()
    mark = "A" * MARK_CHARACTERS
    assert all(map(asking.add, [asked(mark + "1"), asked(mark + "2"), asked("B")]))
    assert asking.drained() == [asked(mark + "1"), asked("B"), asked(mark + "2")]


def test_what_is_asked_for_again_is_given_once():
    asking = Asking()
    assert all(map(asking.add, [asked("A"), asked("A", Q), asked("A", sequence=7)]))
    assert asking.drained() == [asked("A", sequence=7), asked("A", Q)]


def test_one_peer_has_a_part_of_the_room():
    asking = Asking(peer_max=2, all_max=3)
    assert [*map(asking.add, [asked("A"), asked("A", Q)])] == [True, True]
    assert not asking.add(asked("A", Partition("orders", "CC")))
    assert asking.add(asked("A", sequence=3)), "in place of what it asked for before"
    assert [*map(asking.add, [asked("B"), asked("C")])] == [True, False]
    assert asking.queue.pop() == asked("A", sequence=3)
    assert asking.add(asked("C"))
