from __future__ import annotations

import pytest

from dafka.limits import LISTENED_BYTES_MAX
from dafka.transport.shedding import NO_NAMES, NamesBound, Shedding, WatchedConnection
from dafka.transport.sockets import OPEN_NAMES

MIB = 1024 * 1024
ALL = {"names", "peer"}


def names_bound(name):
    """Of a tower, of a node with keys or without, or of who sends messages."""
    if not name.startswith("names"):
        return NO_NAMES
    if name.startswith("names_in_the_open"):
        return OPEN_NAMES
    return NamesBound(6 * MIB, 2 * MIB) if "of_a_node" in name else NamesBound(2 * MIB, 2 * MIB)


def message_max(name):
    return {"beacons": MIB // 16, "questions": 2 * MIB}.get(name.partition("_")[0], 16 * MIB)


class Run:
    """A process that grows, and what its connections receive."""

    def __init__(self, size=50 * MIB):
        self.shedding = Shedding()
        self.received = {}
        self.left = set()
        self.now_ms = 1_000_000
        self.size = size
        self.look()

    def look(self, *, grow=0, after_ms=10, taken=(), refused=(), settled=True, **more):
        """One look, after connections have received more."""
        self.now_ms += after_ms
        self.size += grow
        for name, octets in more.items():
            self.received[name] = self.received.get(name, 0) + octets
        self.shedding.resize(self.size, self.now_ms)
        order = list(self.received)
        connections = [
            WatchedConnection(
                1_000 + number,
                number,
                self.received[name],
                names_bound(name),
                message_max(name),
                name,
                not name.startswith("peer"),
            )
            for number, name in enumerate(order)
            if name not in self.left
        ]
        cut = self.shedding.look(
            connections,
            {order.index(name) for name in taken},
            {order.index(name) for name in refused},
            settled=settled,
        )
        return None if cut is None else (cut.connection.peer, cut.reason)


def test_a_process_that_has_not_grown_cuts_nobody():
    run = Run()
    for _ in range(100):
        assert run.look(names=5 * MIB, peer=50 * MIB, grow=100_000) is None


def test_memory_is_given_back_by_who_is_too_large_and_after_a_cut():
    run = Run()
    run.look(grow=40 * MIB)
    assert not run.shedding.wasteful
    run.look(grow=20 * MIB)
    assert run.shedding.wasteful
    run.look(names=3 * MIB)
    run.look(grow=-30 * MIB)
    assert run.shedding.wasteful
    run.look(after_ms=10_001)
    assert not run.shedding.wasteful


def test_more_names_than_a_consumer_has():
    run = Run()
    assert run.look(names=MIB, grow=47 * MIB) is None
    assert run.look(names=2 * MIB, grow=10 * MIB) == ("names", "subscriptions")
    assert run.look(names=MIB, grow=10 * MIB) is None, "it is cut already"


def test_names_that_cost_much_are_fewer():
    run = Run()
    cuts = [run.look(names_of_a_node=3 * MIB // 4, grow=23 * MIB) for _ in range(3)]
    assert cuts == [None, None, ("names_of_a_node", "subscriptions")]


def test_what_a_process_takes_and_gives_back_is_no_cost_of_names():
    run = Run()
    run.look(grow=60 * MIB)
    for _ in range(25):
        assert run.look(names_of_a_node=MIB // 5, grow=30 * MIB) is None
        assert run.look(names_of_a_node=1, grow=-30 * MIB) is None


def test_without_keys_names_that_cost_much_are_fewer_still():
    run = Run()
    cuts = [run.look(names_in_the_open=MIB // 4, grow=12 * MIB) for _ in range(3)]
    assert cuts == [None, None, ("names_in_the_open", "subscriptions")]


def test_without_keys_a_consumer_of_as_many_names_as_it_may_listen_to_stays():
    run = Run()
    run.look(grow=60 * MIB)
    for _ in range(3):
        assert run.look(names_in_the_open=LISTENED_BYTES_MAX, grow=3 * MIB) is None


def test_names_that_cost_much_count_together():
    run = Run()
    some = {f"names_of_a_node_{number}": MIB // 4 for number in range(3)}
    cuts = [run.look(grow=23 * MIB, **some) for _ in range(3)]
    assert cuts == [None, None, ("names_of_a_node_0", "subscriptions")]


def test_who_came_before_does_not_pay_for_names_of_others():
    run = Run()
    run.look(names_of_a_node=4 * MIB)
    some = {f"names_of_a_node_{number}": MIB // 4 for number in range(3)}
    cuts = [run.look(grow=23 * MIB, **some) for _ in range(3)]
    assert cuts == [None, None, ("names_of_a_node_0", "subscriptions")]


def test_names_of_who_has_left_count_as_long_as_the_node_does_not_turn():
    run = Run()
    run.look(grow=44 * MIB, names_of_a_node=3 * MIB // 2)
    run.left.add("names_of_a_node")
    some = {"names_of_a_node_2": 3 * MIB // 4, "names_of_a_node_3": 100_000}
    cuts = [run.look(grow=30 * MIB, settled=False, **some), run.look(settled=False)]
    assert cuts == [("names_of_a_node_2", "subscriptions"), None], "others have few"


def test_names_of_who_has_left_are_gone_when_the_node_has_turned():
    run = Run()
    run.look(grow=44 * MIB, names_of_a_node=3 * MIB // 2)
    run.left.add("names_of_a_node")
    for _ in range(3):
        run.look()
    assert run.look(grow=30 * MIB, names_of_a_node_2=3 * MIB // 4) is None


def test_records_that_make_a_process_grow_are_no_names():
    run = Run()
    run.look(grow=50 * MIB, peer=50 * MIB)
    for _ in range(30):
        assert run.look(names_of_a_node=60_000, peer=2 * MIB, grow=3 * MIB, taken=["peer"]) is None


def test_many_who_come_at_once_stay_and_what_each_costs_hides_no_flood():
    """A store of 2,000 guests cut one for 426 bytes, and shut out the host of all of them."""
    run = Run()
    guests = {f"names_in_the_open_{number}": 426 for number in range(2_000)}
    assert run.look(grow=2_000 * 43 * 1024, **guests) is None
    assert run.look(names_in_the_open=600_000, grow=20 * MIB) is not None


def test_several_consumers_of_ten_thousand_topics_stay():
    run = Run()
    some = {f"names_of_a_node_{number}": 60_000 for number in range(5)}
    for _ in range(70):
        assert run.look(grow=2 * MIB, **some) is None


def test_names_that_have_much_in_common_are_more():
    run = Run()
    run.look(grow=60 * MIB)
    for _ in range(5):
        assert run.look(names_of_a_node=MIB, grow=4 * MIB) is None
        assert run.look(grow=10 * MIB) is None, "which is for something else"
    assert run.look(names_of_a_node=2 * MIB) == ("names_of_a_node", "subscriptions")


def test_a_process_that_grows_very_fast_takes_few_names():
    run = Run()
    assert run.look(names_of_a_node=MIB, grow=150 * MIB) is None
    assert run.look(grow=20 * MIB) == ("names_of_a_node", "subscriptions")


def test_a_consumer_of_ten_thousand_topics_stays():
    run = Run()
    assert run.look(grow=60 * MIB) is None, "for whatever reason"
    for _ in range(31):
        assert run.look(names=60_000, grow=2 * MIB) is None


def test_who_changes_what_it_listens_for_stays():
    run = Run()
    run.look(grow=60 * MIB)
    for _ in range(1_000):
        assert run.look(names=20_000, after_ms=10_000) is None


def test_of_many_floods_the_largest_goes_first():
    run = Run()
    run.look(grow=40 * MIB)
    cuts = [run.look(names=3 * MIB, names_2=4 * MIB, grow=40 * MIB, settled=False)]
    cuts += [run.look(settled=False) for _ in range(2)]
    assert cuts == [("names_2", "subscriptions"), ("names", "subscriptions"), None]


def test_many_floods_of_a_little_each_are_too_much_together():
    run = Run()
    assert run.look(grow=60 * MIB, names=3 * MIB) is not None
    some = {f"names_{number}": 100_000 for number in range(8)}
    assert run.look(grow=40 * MIB, **some, settled=False) is None
    assert run.look(grow=40 * MIB, **some, settled=False) is not None


def test_names_that_are_all_read_do_not_count_together():
    run = Run()
    assert run.look(grow=60 * MIB, names=3 * MIB) is not None
    run.look(grow=40 * MIB, names_2=500_000)
    run.look(grow=60 * MIB)
    assert run.look(names_2=100_000) is None


def test_a_consumer_that_comes_while_the_process_grows_stays():
    run = Run()
    run.look(grow=90 * MIB)
    for _ in range(30):
        assert run.look(names=60_000, grow=2 * MIB, settled=False) is None


def test_an_alarm_ends_by_itself():
    run = Run()
    assert run.look(grow=60 * MIB, names=3 * MIB) is not None
    for number in range(9):
        assert run.look(after_ms=1_000, **{f"names_{number}": MIB}) is not None
    assert run.look(after_ms=1_000, names_last=MIB) is None


def test_a_process_that_has_stayed_large_has_that_size():
    run = Run()
    run.look(grow=100 * MIB, after_ms=40_000)
    run.look(after_ms=20_000)
    run.look(after_ms=20_000)
    assert run.look(names=MIB, grow=60 * MIB, settled=False) is None


def test_too_many_names_that_are_not_permitted():
    run = Run()
    run.look(names=1, names_2=1, grow=25 * MIB)
    assert run.look(refused=["names_2"]) == ("names_2", "subscriptions")


def test_after_a_cut_less_names_are_too_many_for_a_while():
    run = Run()
    run.look(grow=60 * MIB)
    assert run.look(names=3 * MIB, names_2=MIB) == ("names", "subscriptions")
    assert run.look() == ("names_2", "subscriptions")
    assert run.look(after_ms=20_000, names_3=MIB) is None


def test_a_message_that_does_not_end():
    run = Run()
    run.look(grow=30 * MIB, peer=1)
    cuts = [run.look(peer=4 * MIB, grow=7 * MIB) for _ in range(3)]
    assert cuts == [None, None, ("peer", "endless message")]


def test_whose_messages_are_taken_stays():
    run = Run()
    run.look(grow=60 * MIB, peer=1)
    for _ in range(100):
        assert run.look(peer=50 * MIB, grow=MIB, taken=["peer"]) is None


def test_nobody_is_cut_while_nothing_is_taken_of_anybody():
    run = Run()
    run.look(grow=60 * MIB, peer=1)
    for _ in range(100):
        assert run.look(peer=50 * MIB, grow=MIB, settled=False) is None


@pytest.mark.parametrize("name", ["questions", "beacons"])
def test_where_little_can_wait_a_node_that_takes_nothing_is_no_excuse(name):
    run = Run()
    run.look(grow=60 * MIB, **{name: 1}, settled=False)
    cuts = [run.look(**{name: MIB // 4}, grow=11 * MIB, settled=False) for _ in range(3)]
    assert cuts == [None, None, (name, "endless message")]


@pytest.mark.parametrize(("name", "ends"), [("questions", True), ("beacons", False)])
def test_more_than_half_a_mib_need_not_make_a_process_grow_by_much_where_little_can_wait(
    name, ends
):
    run = Run()
    run.look(grow=60 * MIB, **{name: 1}, settled=False)
    octets = MIB // 4 if ends else MIB // 10
    cuts = [run.look(**{name: octets}, grow=5 * MIB, settled=False) for _ in range(3)]
    assert cuts == [None, None, (name, "endless message") if ends else None]


def test_after_a_cut_the_beginning_of_a_question_may_be_small():
    run = Run()
    run.look(grow=60 * MIB, questions=1, peer=1, names=3 * MIB)
    cuts = [run.look(questions=MIB // 4, peer=MIB // 4) for _ in range(5)]
    assert cuts == [None, None, ("questions", "endless message"), None, None]


@pytest.mark.parametrize(("name", "octets"), [("questions", MIB), ("beacons", 30_000)])
def test_after_a_cut_nobody_may_have_more_waiting_than_a_message(name, octets):
    run = Run()
    run.look(grow=60 * MIB, names=3 * MIB, **{name: 1})
    cuts = [run.look(**{name: octets}, settled=False) for _ in range(3)]
    assert cuts == [None, None, (name, "endless message")]


def test_questions_that_wait_while_others_make_the_process_grow_are_few():
    run = Run()
    run.look(grow=60 * MIB, questions=1, settled=False)
    for _ in range(8):
        assert run.look(questions=60_000, grow=11 * MIB, settled=False) is None


def test_what_came_before_it_was_watched_does_not_count():
    run = Run()
    run.look(peer=500 * MIB)
    for _ in range(10):
        assert run.look(grow=6 * MIB, peer=1) is None


@pytest.mark.parametrize("known", [0, 1])
def test_what_came_between_two_looks_while_it_was_not_watched_does_not_count(known):
    run = Run()
    run.look(grow=30 * MIB, peer=known)
    run.shedding.resize(run.size - 30 * MIB, run.now_ms)
    cuts = [run.look(grow=20 * MIB, peer=20 * MIB)]
    cuts += [run.look(grow=20 * MIB) for _ in range(3)]
    assert cuts == [None] * 4, "it was taken, and nobody noted that"


def test_a_large_message_over_a_slow_line_stays():
    run = Run()
    run.look(grow=60 * MIB, peer=1)
    for _ in range(80):
        assert run.look(peer=100_000, grow=100_000) is None
    for _ in range(20):
        assert run.look(peer=100_000, grow=100_000, taken=["peer"]) is None


def test_what_a_process_has_grown_by_before_a_message_began_is_not_its_doing():
    run = Run()
    run.look(grow=30 * MIB, peer=1)
    for _ in range(20):
        assert run.look(grow=2 * MIB, peer=0) is None
    assert run.look(peer=MIB * 3 // 4, grow=MIB) is None, "the first part of its next"
    assert run.look(peer=MIB // 8, grow=MIB) is None
    assert run.look(peer=MIB // 8, grow=MIB) is None


def test_after_a_cut_a_process_need_not_grow_for_the_next():
    run = Run()
    run.look(grow=60 * MIB, peer=1, names=3 * MIB)
    cuts = [run.look(peer=5 * MIB) for _ in range(2)]
    assert cuts == [None, ("peer", "endless message")]


def test_a_message_in_tiny_parts_costs_many_times_what_it_has():
    run = Run()
    run.look(grow=40 * MIB, peer=1)
    cuts = [run.look(peer=MIB // 4, grow=16 * MIB) for _ in range(3)]
    assert cuts == [None, None, ("peer", "endless message")]


def test_what_is_small_as_a_rule_is_known_earlier_to_have_no_end():
    run = Run()
    run.look(grow=60 * MIB, peer=1, beacons=1)
    cuts = [run.look(peer=40_000, beacons=40_000) for _ in range(3)]
    assert cuts == [None, ("beacons", "endless message"), None]


def test_more_than_the_largest_message_is_no_message():
    run = Run()
    run.look(grow=60 * MIB, peer=1)
    cuts = [run.look(peer=3 * MIB) for _ in range(7)]
    assert cuts == [None] * 5 + [("peer", "endless message"), None]


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_later_connection_is_another(name):
    run = Run()
    run.look(grow=60 * MIB, **{name: 1})
    for _ in range(5):
        run.look(**{name: 5 * MIB}, grow=10 * MIB)
    del run.received[name]
    run.look()
    assert run.shedding.look([], set(), settled=True) is None
    assert run.look(**{name: 100}) is None


def test_a_look_is_put_off_where_nothing_grows():
    run = Run()
    run.look(grow=60 * MIB)
    assert not run.shedding.hurried
    run.shedding.resize(run.size - 5 * MIB, run.now_ms + 5)
    assert not run.shedding.hurried
    run.shedding.resize(run.size - 3 * MIB, run.now_ms + 10)
    assert run.shedding.hurried, "it grows again"
    run.look()
    assert not run.shedding.hurried


def test_no_look_is_put_off_in_an_alarm():
    run = Run()
    run.look(names=3 * MIB, grow=60 * MIB)
    assert run.shedding.hurried
    run.look(after_ms=9_900)
    assert run.shedding.hurried
    run.look(after_ms=200)
    assert not run.shedding.hurried
