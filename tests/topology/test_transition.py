from dataclasses import replace

import pytest

from topology.model import Levels, Placement, StoreSpec
from topology.rules import problems_of
from topology.testing import steady, tree_of
from topology.transition import refusals_of


def declared(nested, epoch=0, retired=(), placement=(), mute=()):
    topology = steady(tree_of(nested))
    clusters = (replace(one, receive_only=one.name in mute) for one in topology.clusters)
    rules = tuple(Placement(topics=topics, clusters=on) for topics, on in placement)
    levels = Levels(epoch=epoch, retired=retired)
    found = replace(topology, clusters=tuple(clusters), levels=levels, placement=rules)
    assert problems_of(found) == []
    return found


FOUR = declared((8, (4, "c1", "c2"), (4, "c3", "c4")))


def told(old, new):
    return [(refusal.rule, refusal.message, refusal.hint) for refusal in refusals_of(old, new)]


@pytest.mark.parametrize(
    "new",
    [
        FOUR,
        declared((8, (4, "c2", "c1"), (4, "c4", "c3"))),
        # Added: beside one, beside two, into a branch, above all, two at once.
        declared((8, (4, "c1", (2, "c2", "c5")), (4, "c3", "c4"))),
        declared((8, (6, (4, "c1", "c2"), "c5"), (4, "c3", "c4"))),
        declared((8, (4, "c1", "c2", "c5"), (4, "c3", "c4"))),
        declared((9, (8, (4, "c1", "c2"), (4, "c3", "c4")), "c5")),
        declared((8, (4, "c1", "c2"), (4, "c3", "c4"), (2, "c5", "c6"))),
        # Removed: its branch goes with it, and another of that level stays.
        declared((8, "c1", (4, "c3", "c4"))),
        declared((4, "c3", "c4"), retired=(8,)),
        # Replaced, under a level below the one that goes.
        declared((8, (2, "c1", "c5"), (4, "c3", "c4"))),
        # Other levels, in an epoch of their own.
        declared((3, (1, "c1", "c2"), (2, "c3", "c4")), epoch=1),
        declared((8, (4, "c1", "c2"), (4, "c3", "c4")), mute=("c2",)),
        declared((8, (4, "c1", "c2"), (4, "c3", "c4")), placement=[("eu-*", ("c1", "c4"))]),
    ],
)
def test_what_may_follow(new):
    assert told(FOUR, new) == []


@pytest.mark.parametrize(
    ("new", "rule", "message", "hint"),
    [
        (
            declared((8, (3, "c1", "c2"), (4, "c3", "c4"))),
            "relabel",
            "the branch over c1, c2 has level 4, would have 3",
            "write levels: {epoch: 1}",
        ),
        (
            declared((8, (4, "c1", "c3"), (4, "c2", "c4"))),
            "place",
            "were together c1, c2 and would be together c1, c3",
            "under another name",
        ),
        (
            declared((9, (8, (4, "c1", "c2"), "c3"), "c4"), epoch=1),
            "place",
            "were together c3, c4 and would be together c1, c2, c3",
            "under another name",
        ),
        (
            declared((4, "c3", "c4")),
            "retire",
            "level 8 was a branch's in this epoch",
            "write levels: {retired: [8]}",
        ),
        (
            declared((9, (8, "c1", (4, "c3", "c4")), (4, "c5", "c6"))),
            "reuse",
            "the new branch over c5, c6 takes level 4",
            "never had",
        ),
        (
            declared((9, (6, "c3", "c5"), "c4"), retired=(8,), epoch=0),
            "relabel",
            "the branch over c3, c4 has level 4, would have 9",
            "keep level 4",
        ),
        (
            declared((9, (4, "c3", "c4"), "c5"), retired=(8,)),
            "history",
            "level 9 of the new branch over c3, c4, c5 is above 8, which is gone",
            "between 4 and 8",
        ),
        (
            declared((8, (4, "c1", "c2"), (4, "c3", "c4")), epoch=2),
            "epoch",
            "from 0 to 2",
            "1 when",
        ),
        (declared("c9"), "survivor", "no cluster of the old topology is kept", "keep one"),
    ],
)
def test_what_may_not_follow(new, rule, message, hint):
    found = told(FOUR, new)
    assert rule in [name for name, _, _ in found]
    assert any(message in text and hint in what for _, text, what in found)


def test_what_was_retired_stays_so_and_is_not_taken_again():
    old = declared((8, "c1", (4, "c3", "c4")), retired=(2,))
    ((rule, _, hint),) = told(old, declared((8, "c1", (4, "c3", "c4"))))
    assert (rule, hint) == ("retire", "write levels: {retired: [2]}")
    ((rule, message, hint),) = told(
        old, declared((8, (3, "c1", "c2"), (4, "c3", "c4")), retired=(2,))
    )
    assert (rule, hint) == ("history", "take a level between 0 and 2")
    assert "above 2, which is gone" in message
    # A new epoch frees them.
    assert told(old, declared((8, (2, "c1", "c2"), (4, "c3", "c4")), epoch=1)) == []


def test_where_there_is_no_room_below_a_retired_level_a_new_epoch_is_told():
    old = declared((8, "c1", (4, "c3", "c4")), retired=(1,))
    found = told(old, declared((8, (2, "c1", "c2"), (4, "c3", "c4")), retired=(1,)))
    assert [(rule, hint) for rule, _, hint in found] == [("history", "write levels: {epoch: 1}")]


def with_cluster(topology, index, **changes):
    clusters = list(topology.clusters)
    clusters[index] = replace(clusters[index], **changes)
    return replace(topology, clusters=tuple(clusters))


@pytest.mark.parametrize(
    ("index", "changes", "message"),
    [
        (0, {"id": 17}, "cluster 'c1' has id 1 and would have 17"),
        (4, {"id": 2}, "id 2 of cluster 'c5' is that of 'c2'"),
    ],
)
def test_a_number_means_one_cluster_for_ever(index, changes, message):
    five = declared((8, (4, "c1", "c2"), (4, "c3", "c4"), "c5"))
    found = told(FOUR, with_cluster(five, index, **changes))
    assert message in [text for _, text, _ in found]
    assert {rule for rule, _, _ in found} == {"identity"}


def test_a_cluster_keeps_one_of_its_disks():
    moved = StoreSpec(query="tcp://127.0.0.1:30000", data="elsewhere")
    kept = FOUR.clusters[0].stores[0]
    ((rule, message, _),) = told(FOUR, with_cluster(FOUR, 0, stores=(moved,)))
    assert rule == "disk"
    assert "'c1' would keep none" in message
    assert told(FOUR, with_cluster(FOUR, 0, stores=(moved, kept))) == []


@pytest.mark.parametrize(
    ("before", "after", "mute", "rules"),
    [
        (("c1",), ("c2",), (), ["source"]),
        (("c1",), ("c1", "c2"), (), []),
        (("c1", "c2"), ("c2", "c3"), (), []),
        (("c1", "c2"), ("c2", "c3"), ("c2",), ["source"]),
        (("c1", "c2"), ("c2",), (), []),
    ],
)
def test_a_topic_comes_from_a_cluster_that_goes_on_having_it(before, after, mute, rules):
    old = replace(FOUR, placement=(Placement(topics="eu-*", clusters=before),))
    new = replace(
        declared((8, (4, "c1", "c2"), (4, "c3", "c4")), mute=mute),
        placement=(Placement(topics="eu-*", clusters=after),),
    )
    assert [rule for rule, _, _ in told(old, new)] == rules


def test_a_topic_that_is_no_longer_placed_goes_everywhere_from_where_it_was():
    old = replace(FOUR, placement=(Placement(topics="eu-*", clusters=("c1",)),))
    assert told(old, FOUR) == []


def with_stores(*slots):
    stores = tuple(
        StoreSpec(query=f"tcp://127.0.0.1:{30_000 + number}", data=f"data/s{number}", slots=(kept,))
        for number, kept in enumerate(slots)
    )
    clusters = (replace(FOUR.clusters[0], stores=stores), *FOUR.clusters[1:])
    return replace(FOUR, clusters=clusters)


LOW, HIGH, ALL = range(2_048), range(2_048, 4_096), range(4_096)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((LOW, HIGH), (HIGH, LOW)),
        ((ALL,), (LOW, HIGH)),
        ((LOW, HIGH), (ALL, ALL)),
        ((LOW, HIGH), (LOW, HIGH, ALL)),
        ((ALL,), (ALL, ALL)),
        ((LOW, HIGH, ALL), (LOW, HIGH)),
    ],
)
def test_slots_move_and_stores_come_and_go(old, new):
    assert told(with_stores(*old), with_stores(*new)) == []


@pytest.mark.parametrize("new", [(LOW,), (ALL,)], ids=["to nobody", "to one that has to join"])
def test_a_store_that_alone_keeps_slots_is_not_taken_out(new):
    """What only it has goes with it, before another has caught up."""
    ((rule, message, hint),) = told(with_stores(LOW, HIGH), with_stores(*new))
    assert rule == "slots"
    assert message == (
        "the store at 'data/s1' on 127.0.0.1 would be taken out of cluster 'c1', and of those that "
        "stay fewer than 1 keep slots 2048-4095 all the time"
    )
    assert hint == "let others keep them with one change, and take it out with the next"


@pytest.mark.parametrize("users", [{"classic": True}, {}])
def test_where_all_keep_all_a_store_is_taken_out_while_another_has_what_it_has(users):
    """Also of a cluster with gateways and the like: nobody keeps less for it."""
    old = with_cluster(with_stores(ALL, ALL), 0, **users)
    assert told(old, with_cluster(with_stores(ALL), 0, **users)) == []


def on_host(topology, number, host):
    stores = list(topology.clusters[0].stores)
    query = stores[number].query.replace("127.0.0.1", host)
    stores[number] = replace(stores[number], query=query)
    clusters = (replace(topology.clusters[0], stores=tuple(stores)), *topology.clusters[1:])
    return replace(topology, clusters=clusters)


def test_the_same_path_on_another_host_is_another_store():
    shared = with_stores(LOW, HIGH)
    assert told(shared, on_host(shared, 1, "localhost")) == []
    ((rule, message, _),) = told(shared, on_host(shared, 1, "dafka-2"))
    assert rule == "slots"
    assert "'data/s1' on 127.0.0.1 would be taken out" in message
    alone = with_stores(ALL)
    ((rule, _, _),) = told(alone, on_host(alone, 0, "dafka-2"))
    assert rule == "disk"


def test_what_takes_each_store_for_its_cluster_comes_when_slots_have_moved():
    new = with_stores(ALL, ALL)
    classic = replace(new.clusters[0], classic=True)
    new = replace(new, clusters=(classic, *new.clusters[1:]))
    ((rule, message, hint),) = told(with_stores(LOW, HIGH), new)
    assert rule == "slots"
    assert "share slots, and single records go to all of them" in message
    assert hint == "let the slots move first, and add it with the change behind that"
    # By the file all keep all, and the stores have not come to it yet.
    ((rule, _, _),) = [
        (one.rule, one.message, one.hint)
        for one in refusals_of(with_stores(ALL, ALL), new, moving={"c1"})
    ]
    assert rule == "slots"
    assert refusals_of(with_stores(ALL, ALL), new) == []
