import random
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from topology.copyflags import EVERY_FLAG, in_epoch
from topology.diff import diff, remaining
from topology.model import (
    WHOLE_RING,
    Branch,
    ClusterName,
    ControllerSpec,
    Levels,
    Placement,
    ReplicaSpec,
    StoreSpec,
    branches,
)
from topology.plan import plan
from topology.rules import problems_of
from topology.spread import carried_on, spread
from topology.testing import random_topology, steady, tree_of

repeatable = settings(derandomize=True, deadline=None, max_examples=150)
seeds = st.integers(0, 2**32 - 1).map(random.Random)

FOUR = steady(tree_of((8, (4, "c1", "c2"), (4, "c3", "c4"))))
ADDED = steady(tree_of((8, (4, (2, "c1", "c5"), "c2"), (4, "c3", "c4"))))


def steps(old, new):
    change = diff(old, new)
    assert change.refusals == ()
    return [
        (step.action.value, step.cluster or step.level, step.to or step.topics)
        for step in change.steps
    ]


def mute(topology, *names):
    clusters = (replace(one, receive_only=one.name in names) for one in topology.clusters)
    return replace(topology, clusters=tuple(clusters))


def test_nothing_is_to_be_done_for_the_same():
    assert diff(FOUR, FOUR).steps == diff(FOUR, FOUR).before == ()


def test_whoever_comes_is_filled_after_the_switch():
    assert steps(FOUR, ADDED) == [("switch", 0, ""), ("fill", "c5", "")]
    assert diff(FOUR, ADDED).steps[0].text == "run the new file; start c5"


def test_whoever_goes_is_left_silenced_and_drained_before_the_switch():
    three = steady(tree_of((8, (4, "c1", "c2"), "c4")))
    change = diff(FOUR, three)
    assert steps(FOUR, three) == [
        ("retarget", "c1", "c4"),
        ("retarget", "c2", "c4"),
        ("silence", "c3", ""),
        ("drain", "c3", ""),
        ("switch", 0, ""),
    ]
    assert change.before == change.steps[:-1]
    assert change.steps[0].level == 8
    assert "when what was sent is on c3, c4" in change.steps[0].text


def test_whoever_is_replaced_is_drained_before_and_the_other_filled_after():
    replaced = steady(tree_of((8, (4, "c1", "c2"), (2, "c5", "c4"))))
    assert [name for name, _, _ in steps(FOUR, replaced)] == [
        *("retarget", "retarget", "silence", "drain", "switch", "fill")
    ]


def test_links_hold_from_the_root_down_when_levels_change():
    relabelled = steady(tree_of((3, (1, "c1", "c2"), (2, "c3", "c4"))))
    relabelled = replace(relabelled, levels=Levels(epoch=1))
    assert steps(FOUR, relabelled) == [("hold", 8, ""), ("hold", 4, ""), ("switch", 0, "")]


def test_a_cluster_that_stops_or_begins_to_send():
    assert steps(FOUR, mute(FOUR, "c3")) == [
        ("retarget", "c1", "c4"),
        ("retarget", "c2", "c4"),
        ("silence", "c3", ""),
        ("drain", "c3", ""),
        ("switch", 0, ""),
    ]
    assert steps(mute(FOUR, "c3"), FOUR) == [("switch", 0, ""), ("drain", "c3", "")]


def test_a_topic_leaves_a_cluster_and_comes_to_one():
    before = replace(FOUR, placement=(Placement(topics="eu-*", clusters=("c1", "c2")),))
    after = replace(FOUR, placement=(Placement(topics="eu-*", clusters=("c2", "c4")),))
    assert steps(before, after) == [
        ("silence", "c1", "eu-*"),
        ("drain", "c1", "eu-*"),
        ("switch", 0, ""),
        ("fill", "c4", "eu-*"),
    ]
    assert steps(before, FOUR)[1:] == [("fill", "c3", "eu-*"), ("fill", "c4", "eu-*")]


def test_other_changes_are_only_run():
    assert steps(FOUR, replace(FOUR, name="other")) == [("switch", 0, "")]


def test_controllers_and_replicas_are_only_run():
    controlled = replace(
        FOUR.clusters[0],
        controllers=(ControllerSpec(metrics="a:1"),),
        replicas=(ReplicaSpec(listen="a:2", metrics="a:3"),),
    )
    change = diff(FOUR, replace(FOUR, clusters=(controlled, *FOUR.clusters[1:])))
    assert [step.text for step in change.steps] == ["run the new file"]


def test_what_is_pulled_is_said():
    old = steady(tree_of((8, (6, (4, "c1", "c2"), "c6"), (4, "c3", "c4"))))
    replaced = steady(tree_of((8, (5, (4, "c1", "c2"), "c5"), (4, "c3", "c4"))))
    replaced = replace(replaced, levels=Levels(retired=(6,)))
    assert diff(old, replaced).steps[-1].text.endswith("some of it pulled after 10 s")


def test_a_change_that_breaks_a_rule_has_no_steps():
    change = diff(FOUR, steady(tree_of((8, (4, "c1", "c3"), (4, "c2", "c4")))))
    assert (change.steps, [refusal.rule for refusal in change.refusals]) == ((), ["place"])


def spaced(tree):
    """The same tree with room between its levels."""
    if not isinstance(tree, Branch):
        return tree
    return Branch(level=4 * tree.level, children=tuple(map(spaced, tree.children)))


def with_sibling(chance, tree, name, room=(1, 2, 3)):
    """A cluster beside a subtree chosen at random, or into a branch."""
    if isinstance(tree, Branch) and chance.random() < 0.7:
        children = list(tree.children)
        at = chance.randrange(len(children) + 1)
        if at == len(children):
            return Branch(level=tree.level, children=(*children, name))
        children[at] = with_sibling(chance, children[at], name, room)
        return Branch(level=tree.level, children=tuple(children))
    floor = tree.level if isinstance(tree, Branch) else 0
    return Branch(level=floor + chance.choice(room), children=(tree, name))


def with_level_retired(old, tree):
    levels = {branch.level for branch in branches(old.tree)}
    alive = {branch.level for branch in branches(tree)}
    return replace(steady(tree), levels=Levels(retired=tuple(sorted(levels - alive))))


def rests(chance, old, new, origin):
    """Where a record of the past is after the change, when only flags move it."""
    chosen = {}

    def choose(link):
        return chosen.setdefault(link, chance.choice(link.targets))

    first = spread(plan(old), origin, choose=choose)
    flags = {origin: 0, **{hop.target: hop.flags_after for hop in first.hops}}
    epochs = (old.levels.epoch, new.levels.epoch)
    names = {one.name for one in new.clusters}
    held = {name: in_epoch(seen, *epochs) for name, seen in flags.items() if name in names}
    hops = carried_on(plan(new), held, choose)
    return {*held, *(hop.target for hop in hops)}, hops


def everybody(topology):
    return {one.name for one in topology.clusters}


@repeatable
@given(chance=seeds, size=st.integers(1, 7))
def test_added_clusters_get_the_past_of_all_once_and_nobody_else_gets_any(chance, size):
    old = steady(spaced(random_topology(chance, size).tree))
    tree = with_sibling(chance, old.tree, ClusterName("c8"))
    tree = with_sibling(chance, tree, ClusterName("c9"), room=(1,))
    new = steady(tree)
    assume(not problems_of(new))
    change = diff(old, new)
    assume(not change.refusals)
    for cluster in old.clusters:
        there, hops = rests(chance, old, new, cluster.name)
        assert there == everybody(new)
        assert sorted(hop.target for hop in hops) == ["c8", "c9"]


def with_one_replaced(chance, tree):
    """A cluster of a branch of two gives way to another, under a level below the branch's."""
    pairs = [
        one
        for one in branches(tree)
        if len(one.children) == 2 and any(not isinstance(child, Branch) for child in one.children)
    ]
    assume(pairs)
    pair = chance.choice(pairs)
    gone = next(child for child in pair.children if not isinstance(child, Branch))
    (other,) = [child for child in pair.children if child != gone]
    floor = other.level if isinstance(other, Branch) else 0
    instead = Branch(level=chance.randint(floor + 1, pair.level - 1), children=(other, "c9"))

    def rebuilt(node):
        if node == pair or not isinstance(node, Branch):
            return instead if node == pair else node
        return Branch(level=node.level, children=tuple(map(rebuilt, node.children)))

    return gone, rebuilt(tree)


@repeatable
@given(chance=seeds, size=st.integers(2, 7))
def test_a_replaced_cluster_leaves_the_past_of_all_others_to_the_one_in_its_place(chance, size):
    old = steady(spaced(random_topology(chance, size).tree))
    gone, tree = with_one_replaced(chance, old.tree)
    new = with_level_retired(old, tree)
    assert diff(old, new).refusals == ()
    for origin in everybody(old) - {gone}:
        there, hops = rests(chance, old, new, origin)
        assert there == everybody(new)
        assert [hop.target for hop in hops] == ["c9"]


@pytest.mark.parametrize(
    ("level", "refused", "complete"), [(6, "reuse", False), (7, "history", False), (5, "", True)]
)
def test_only_below_the_level_that_goes_the_past_comes_to_the_one_in_its_place(
    level, refused, complete
):
    old = steady(tree_of((8, (6, (4, "c1", "c2"), "c6"), (2, "c3", "c4"))))
    tree = tree_of((8, (level, (4, "c1", "c2"), "c5"), (2, "c3", "c4")))
    new = with_level_retired(old, tree)
    assert [refusal.rule for refusal in diff(old, new).refusals] == [refused] * (not complete)
    # A record of c3 that came to c1 by way of c6.
    held = {"c3": 0, "c4": 0b10, "c1": 0b10100000, "c2": 0b10101000}
    there = {*held, *(hop.target for hop in carried_on(plan(new), held))}
    assert (there == everybody(new)) is complete


def test_in_a_new_epoch_the_past_is_left_to_be_pulled():
    new = replace(ADDED, levels=Levels(epoch=1))
    assert diff(FOUR, new).steps[-1].text.endswith("some of it pulled after 10 s")
    held = {"c3": 0, **dict.fromkeys(("c1", "c2", "c4"), EVERY_FLAG)}
    assert carried_on(plan(new), held) == ()


def test_slots_move_when_the_new_file_runs():
    def with_slots(*slots):
        stores = [
            StoreSpec(query=f"tcp://127.0.0.1:{30_000 + number}", data=f"data/s{number}", slots=one)
            for number, one in enumerate(slots)
        ]
        return replace(
            FOUR, clusters=(replace(FOUR.clusters[0], stores=tuple(stores)), *FOUR.clusters[1:])
        )

    low, high = (range(2_048),), (range(2_048, 4_096),)
    assert steps(with_slots(WHOLE_RING), with_slots(low, high)) == [
        ("switch", 0, ""),
        ("move", "c1", ""),
    ]
    assert steps(with_slots(WHOLE_RING), with_slots(WHOLE_RING, WHOLE_RING)) == [("switch", 0, "")]
    both, one = with_slots(WHOLE_RING, WHOLE_RING), with_slots(WHOLE_RING)
    (_, move) = diff(both, one).steps
    assert (move.action.value, move.cluster) == ("move", "c1")
    assert move.text == "c1: the stores that stay have what those had that are taken out"


def test_what_still_moves_is_moved_whatever_a_change_is_about():
    other = replace(FOUR, name="other")
    assert [one.action.value for one in diff(FOUR, other, {"c2"}).steps] == ["switch", "move"]
    (alone,) = diff(FOUR, FOUR, {"c2"}).steps
    assert (alone.action.value, alone.cluster) == ("move", "c2")
    assert diff(FOUR, FOUR, {"c2"}).before == ()
    assert [one.action.value for one in remaining(FOUR, other, {"c2"})] == ["switch", "move"]
