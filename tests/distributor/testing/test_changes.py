"""Every change of a topology that is allowed, under load; and what goes wrong with the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.testing.world import Faults
from distributor.testing.changes import Changing
from distributor.testing.world import SimWorld
from topology.diff import Action, diff
from topology.model import Levels, Placement
from topology.plan import plan as plan_of
from topology.testing import steady, tree_of

PATIENCE_MS = 20_000
"""How long to wait for what is not expected to come."""

FAULTS = Faults(loss=0.05, duplication=0.1, delay_ms_max=60, disk_ms_max=20)


def declared(nested, epoch=0, retired=(), placement=(), mute=()):
    topology = steady(tree_of(nested))
    clusters = tuple(replace(one, receive_only=one.name in mute) for one in topology.clusters)
    rules = tuple(Placement(topics=topics, clusters=on) for topics, on in placement)
    levels = Levels(epoch=epoch, retired=retired)
    return replace(topology, clusters=clusters, levels=levels, placement=rules)


FOUR_TREE = (8, (4, "c1", "c2"), (4, "c3", "c4"))
FOUR = declared(FOUR_TREE)
FIVE = declared((8, (6, (4, "c1", "c2"), "c5"), (4, "c3", "c4")))
EU = ("flights", "eu-flights")

ALLOWED = {
    "a cluster beside two": (FOUR, FIVE),
    "a cluster beside one": (FOUR, declared((8, (4, (2, "c1", "c5"), "c2"), (4, "c3", "c4")))),
    "a cluster above all": (FOUR, declared((9, FOUR_TREE, "c5"))),
    "a third child": (FOUR, declared((8, (4, "c1", "c2", "c5"), (4, "c3", "c4")))),
    "two clusters at once": (FOUR, declared((8, *FOUR_TREE[1:], (2, "c5", "c6")))),
    "one that only receives": (FOUR, declared((8, *FOUR_TREE[1:], "c5"), mute=("c5",))),
    "one less": (FIVE, replace(FOUR, levels=Levels(retired=(6,)))),
    "a relay less": (FOUR, declared((8, (4, "c1", "c2"), "c4"))),
    "one of three children less": (
        declared((8, (4, "c1", "c2", "c5"), (4, "c3", "c4"))),
        FOUR,
    ),
    "one in another's place": (
        FIVE,
        declared((8, (5, (4, "c1", "c2"), "c6"), (4, "c3", "c4")), retired=(6,)),
    ),
    "other levels": (FOUR, declared((20, (10, "c1", "c2"), (9, "c3", "c4")), epoch=1)),
    "levels the other way round": (
        declared((8, (4, (2, "c1", "c2"), "c3"), "c4")),
        declared((3, (2, (1, "c1", "c2"), "c3"), "c4"), epoch=1),
    ),
    "it sends no more": (FOUR, declared(FOUR_TREE, mute=("c3",))),
    "it sends again": (declared(FOUR_TREE, mute=("c3",)), FOUR),
    "a topic on two only": (FOUR, declared(FOUR_TREE, placement=[("eu-*", ("c2", "c4"))])),
    "a topic everywhere": (declared(FOUR_TREE, placement=[("eu-*", ("c2", "c4"))]), FOUR),
    "a topic elsewhere": (
        declared(FOUR_TREE, placement=[("eu-*", ("c1", "c2"))]),
        declared(FOUR_TREE, placement=[("eu-*", ("c2", "c3"))]),
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("seed", [1, 2])
def test_an_allowed_change_keeps_every_record_once_and_in_order(name, seed):
    old, new = ALLOWED[name]
    change = diff(old, new)
    assert change.refusals == ()
    changing = Changing(old, seed, replace(FAULTS), EU)
    taken = changing.take(change.steps, new)
    assert [step.action for step in taken if step.took_ms is None] == []
    changing.run(2_000)
    changing.sim.heal()
    assert changing.settle() == []
    assert changing.lost == 0


def forced(old, new, seed, *, steps, faults=FAULTS):
    """Take steps towards a topology that may not follow, or not all that are needed."""
    changing = Changing(old, seed, replace(faults))
    changing.take(steps, new)
    changing.sim.heal()
    return changing


def switch_of(change):
    return [step for step in change.steps if step.action is Action.SWITCH]


REPLACED, FREE = ALLOWED["one in another's place"]


@pytest.mark.parametrize(("level", "rule"), [(6, "reuse"), (7, "history"), (5, "")])
def test_above_the_level_that_goes_the_past_does_not_come_to_the_one_in_its_place(level, rule):
    tree = (8, (level, (4, "c1", "c2"), "c6"), (4, "c3", "c4"))
    new = declared(tree, retired=(6,) if level != 6 else ())
    assert [refusal.rule for refusal in diff(REPLACED, new).refusals] == [rule] * bool(rule)
    steps = [step for step in diff(REPLACED, FREE).steps if step.action is not Action.FILL]
    changing = forced(REPLACED, new, 1, steps=steps)
    wrong = changing.settle(PATIENCE_MS)
    assert bool(wrong) == bool(rule)
    assert all(line.startswith("c6 has 0 of ") for line in wrong), "the others are not disturbed"


def test_a_new_cluster_that_is_served_by_one_only_misses_what_others_are_bound_to_bring():
    changing = Changing(FOUR, 1, replace(FAULTS))
    changing.take(switch_of(diff(FOUR, FIVE)), FIVE)
    (other,) = [one for one in changing.sim.links if one.name == "link-c2-6-1"]
    other.crash()
    changing.sim.heal()
    assert any(line.startswith("c5 has ") for line in changing.settle(PATIENCE_MS))


@pytest.mark.parametrize("epoch", [0, 1])
def test_levels_given_anew_while_records_are_under_way_lose_some(epoch):
    new = declared((20, (10, "c1", "c2"), (9, "c3", "c4")), epoch=epoch)
    change = diff(FOUR, replace(new, levels=Levels(epoch=1)))
    if not epoch:
        assert "relabel" in [refusal.rule for refusal in diff(FOUR, new).refusals]
    slow = replace(FAULTS, delay_ms_max=300)
    runs = (forced(FOUR, new, seed, steps=switch_of(change), faults=slow) for seed in range(4))
    assert any(changing.settle(PATIENCE_MS) for changing in runs)
    if epoch:
        whole = forced(FOUR, new, 0, steps=change.steps, faults=slow)
        assert whole.settle() == []


def test_a_cluster_that_is_stopped_undrained_takes_records_with_it():
    new = declared((8, (4, "c1", "c2"), "c4"))
    slow = replace(FAULTS, delay_ms_max=300)
    steps = switch_of(diff(FOUR, new))
    runs = (forced(FOUR, new, seed, steps=steps, faults=slow) for seed in range(20))
    assert any(changing.lost for changing in runs)


def test_a_relay_that_is_stopped_unnoticed_has_served_some_of_its_side_only():
    old = declared((8, "c1", (4, "c2", "c3", "c4", "c5")))
    new = declared((8, "c1", (4, "c3", "c4", "c5")))
    slow = replace(FAULTS, delay_ms_max=300, loss=0.3)
    steps = switch_of(diff(old, new))
    runs = (forced(old, new, seed, steps=steps, faults=slow) for seed in range(6))
    assert any(changing.settle(PATIENCE_MS) for changing in runs)
    whole = forced(old, new, 0, steps=diff(old, new).steps, faults=slow)
    assert whole.settle() == []


def missing(plan, topic):
    """The clusters that lack a record of one that sends, when all is at rest."""
    sim = SimWorld(plan, 1, Faults())
    sim.world.run_until(2_500)
    span = plan.topology.placed_on(topic)
    senders = [name for name in span if not plan.topology.cluster(name).receive_only]
    for name in senders:
        sim.clusters[name].producers[0].send(topic, 1)
    sim.world.run_until(15_000)
    return {name for name in span if len(sim.clusters[name].store.log.heads()) < len(senders)}


def aimed(plan, source, target):
    """The same links, but one that is aimed where it must not be."""
    links = (
        replace(link, targets=(target,)) if (link.source, link.level) == (source, 8) else link
        for link in plan.links
    )
    return replace(plan, links=tuple(links))


@pytest.mark.parametrize(
    ("topology", "topic"),
    [
        (declared(FOUR_TREE, placement=[("eu-*", ("c1", "c3", "c4"))]), "eu-flights"),
        (declared(FOUR_TREE, mute=("c2",)), "flights"),
    ],
)
def test_a_target_without_the_topic_or_that_only_receives_leaves_others_without(topology, topic):
    assert missing(plan_of(topology), topic) == set()
    assert missing(aimed(plan_of(topology), "c4", "c2"), topic) == {"c1"}
