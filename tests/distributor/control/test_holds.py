from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dafka.limits import NAMED_MAX
from dafka.model import Partition
from dafka.storage.holds import HoldWord
from dafka.storage.retention import NO_FLOOR
from distributor.control.holds import Floors, HeldForRow, need_of
from topology.model import Placement, RetentionSpec, Topics
from topology.testing import topology_of, tree_of

ORDERS, OTHERS = Partition("orders", "A"), Partition("others", "B")
EVERYTHING = RetentionSpec(topics="*", age_s=1, hold_age_s=2)


def tree(*retention, **changes):
    topology = topology_of(tree_of((1, "c1", "c2", "c3")))
    return replace(topology, retention=retention or (EVERYTHING,), **changes)


def receiving(topology, *names):
    clusters = [replace(one, receive_only=one.name in names) for one in topology.clusters]
    return replace(topology, clusters=tuple(clusters))


def floors_of(topology, cluster="c1", **ends):
    floors = Floors(7, need_of(topology, cluster))
    for name, end in ends.items():
        floors.heard(name, {ORDERS: end})
    return floors


def told(floors, *partitions, store="S", disk="D", keeps=True):
    found = []
    for word in floors.words(store, disk, partitions):
        found.append(word.floors)
        if keeps:
            floors.kept(store, disk, word)
    return found


def test_a_floor_is_the_least_that_a_cluster_has():
    assert floors_of(tree(), c2=5, c3=9).floor(ORDERS) == 5
    assert floors_of(tree(), c2=5, c3=9).floor(OTHERS) == 0


def test_of_who_was_not_heard_nothing_is_known():
    assert floors_of(tree(), c2=5).floor(ORDERS) is None


def test_who_has_lost_some_is_held_for_again():
    floors = floors_of(tree(), c2=5, c3=9)
    floors.heard("c3", {})
    assert floors.floor(ORDERS) == 0


def test_who_is_not_to_have_a_topic_is_not_waited_for():
    placed = tree(placement=(Placement(topics="orders", clusters=("c1", "c2")),))
    assert floors_of(placed, c2=5).floor(ORDERS) == 5
    alone = tree(placement=(Placement(topics="orders", clusters=("c1",)),))
    assert floors_of(alone).floor(ORDERS) == NO_FLOOR
    assert floors_of(tree(topics=Topics(exclude=("orders",)))).floor(ORDERS) == NO_FLOOR
    assert floors_of(tree(RetentionSpec(topics="*", age_s=1))).floor(ORDERS) == NO_FLOOR


def test_what_is_published_where_only_is_received_is_held_for_nobody():
    topology = receiving(tree(), "c1")
    assert floors_of(topology, c2=0, c3=0).floor(ORDERS) == NO_FLOOR
    assert floors_of(topology, c2=3, c3=0).floor(ORDERS) == 0
    assert floors_of(topology, c2=0).floor(ORDERS) is None


def test_who_only_receives_is_held_for():
    topology = receiving(tree(), "c3")
    assert floors_of(topology, c2=5, c3=2).floor(ORDERS) == 2


def test_a_store_is_told_first_for_whom_then_what_is_new():
    floors = floors_of(tree(), c2=5, c3=9)
    assert told(floors, ORDERS) == [{}, {ORDERS: 5}]
    assert told(floors, ORDERS, OTHERS) == [{OTHERS: 0}]
    assert told(floors, ORDERS, OTHERS) == []
    floors.heard("c2", {ORDERS: 7})
    assert told(floors, ORDERS, OTHERS) == [{ORDERS: 7}]


def test_a_store_is_told_for_whom_although_nobody_was_heard():
    floors = floors_of(tree())
    assert told(floors, ORDERS, keeps=False) == [{}]
    assert told(floors, ORDERS) == [{}]
    assert told(floors, ORDERS) == []


def test_what_a_store_has_not_kept_it_is_told_again():
    floors = floors_of(tree(), c2=5, c3=9)
    for _ in range(2):
        assert told(floors, ORDERS, keeps=False) == [{}, {ORDERS: 5}]


def test_a_word_that_was_not_answered_may_have_been_kept():
    floors = floors_of(tree(), c2=5, c3=9)
    told(floors, ORDERS)
    floors.heard("c2", {})
    assert told(floors, ORDERS, keeps=False) == [{ORDERS: 0}]
    floors.heard("c2", {ORDERS: 5})
    assert told(floors, ORDERS) == [{ORDERS: 5}]


def test_a_new_disk_is_told_everything():
    floors = floors_of(tree(), c2=5, c3=9)
    told(floors, ORDERS)
    assert told(floors, ORDERS, disk="NEW") == [{}, {ORDERS: 5}]
    assert told(floors, ORDERS, disk="NEW") == []


def test_a_partition_that_was_gone_is_told_again():
    floors = floors_of(tree(), c2=5, c3=9)
    told(floors, ORDERS)
    told(floors)
    assert told(floors, ORDERS) == [{ORDERS: 5}]


def test_much_is_told_in_parts():
    floors = floors_of(tree(), c2=5, c3=9)
    many = [Partition("orders", str(number)) for number in range(NAMED_MAX + 1)]
    assert [len(one) for one in told(floors, *many)] == [0, NAMED_MAX, 1]


def test_words_have_the_epoch_and_whose_need_it_is():
    need = need_of(tree(), "c1")
    assert Floors(7, need).first == HoldWord(7, need.digest, {})


def test_a_need_is_another_when_who_must_have_what_is():
    before = need_of(tree(), "c1").digest
    other_numbers = RetentionSpec(topics="*", age_s=3, hold_age_s=5)
    assert need_of(tree(other_numbers), "c1").digest == before
    others = [
        tree(topics=Topics(exclude=("x",))),
        tree(placement=(Placement(topics="x", clusters=("c1",)),)),
        tree(RetentionSpec(topics="x", age_s=1), EVERYTHING),
        receiving(tree(), "c2"),
        replace(topology_of(tree_of((1, "c1", "c2", "c4"))), retention=(EVERYTHING,)),
    ]
    digests = {before, *(need_of(one, "c1").digest for one in others)}
    assert len(digests) == 1 + len(others)


def test_of_each_cluster_it_is_told_what_it_lacks_and_what_of_it_is_gone():
    floors = floors_of(tree(), c2=5)
    kept = {ORDERS: range(8, 20), OTHERS: range(3)}
    assert floors.rows(kept) == [
        HeldForRow("c2", True, 2, 15 + 3, 3),
        HeldForRow("c3", False, 0, 0, 0),
    ]


heard = st.lists(st.tuples(st.sampled_from(["c2", "c3", "c4"]), st.integers(0, 9)), max_size=12)


@given(heard)
def test_no_floor_is_above_what_any_cluster_has_said_last(script):
    topology = replace(topology_of(tree_of((1, "c1", "c2", "c3", "c4"))), retention=(EVERYTHING,))
    floors, last = floors_of(topology), {}
    for name, end in script:
        floors.heard(name, {ORDERS: end})
        last[name] = end
        assert floors.floor(ORDERS) == (min(last.values()) if len(last) == 3 else None)
