"""Which topology may follow which, while records flow and logs are kept: the rules.

Copied records carry the levels they have crossed for as long as they are kept, and the number of
the cluster they come from. So what a level or a number means cannot change behind their back. A
topology that breaks none of these rules can be reached from the one that runs by the steps of
`topology.diff`, with every record on every cluster that is to have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from topology.model import Branch, branches, leaves, restricted
from topology.slots import ranges_of, shown_slots, slots_in
from topology.store_rules import disk_of, unserved

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from topology.model import ClusterName, ClusterSpec, Topology, Tree

Clade = frozenset["ClusterName"]
"""The clusters below a branch: its name, which it keeps when its level changes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one topology may not follow another.

    Attributes:
        rule: The rule's name, one word.
        message: What breaks it.
        hint: What to do instead.
    """

    rule: str
    message: str
    hint: str


def refusals_of(
    old: Topology, new: Topology, moving: Collection[ClusterName] = frozenset()
) -> list[Refusal]:
    """Return every rule that is broken if `new` follows `old`; both are right by themselves.

    Args:
        old: What runs.
        new: What is to run.
        moving: The clusters in which slots still move, as `old` has it.
    """
    if not staying(old, new):
        hint = "keep one until the others have everything"
        return [Refusal("survivor", "no cluster of the old topology is kept", hint)]
    return [
        *_identity(old, new),
        *_disks(old, new, moving),
        *_epoch(old, new),
        *_place(old, new),
        *_levels(old, new),
        *_history(old, new),
        *_placement(old, new),
    ]


def staying(old: Topology, new: Topology) -> frozenset[ClusterName]:
    """The clusters that both have."""
    return frozenset(one.name for one in old.clusters) & {one.name for one in new.clusters}


def judged_topics(old: Topology, new: Topology) -> list[str]:
    """A topic for each rule of placement, and one that none matches: what is to be looked at.

    A pattern stands for the topics that match it and no rule before it.
    """
    patterns = dict.fromkeys(rule.topics for one in (old, new) for rule in one.placement)
    return ["", *patterns]


def _identity(old: Topology, new: Topology) -> Iterator[Refusal]:
    numbers = {one.name: one.id for one in old.clusters}
    owners = {one.id: one.name for one in old.clusters}
    hint = "the number names the origin of records in every log: take one that was never used"
    for cluster in new.clusters:
        before = numbers.get(cluster.name, cluster.id)
        if before != cluster.id:
            message = f"cluster {cluster.name!r} has id {before} and would have {cluster.id}"
            yield Refusal("identity", message, hint)
        owner = owners.get(cluster.id, cluster.name)
        if owner != cluster.name:
            message = f"id {cluster.id} of cluster {cluster.name!r} is that of {owner!r}"
            yield Refusal("identity", message, hint)


def _disks(old: Topology, new: Topology, moving: Collection[ClusterName]) -> Iterator[Refusal]:
    for name in sorted(staying(old, new)):
        before = {disk_of(store) for store in old.cluster(name).stores}
        if not before & {disk_of(store) for store in new.cluster(name).stores}:
            message = f"cluster {name!r} would keep none of its stores' directories on their hosts"
            hint = "add the new store first, and take the old one out when it has everything"
            yield Refusal("disk", message, hint)
        elif name in moving or slots_move(old.cluster(name), new.cluster(name)):
            yield from _slots(old.cluster(name), new.cluster(name), moving)


def all_keep_all(
    old: ClusterSpec, new: ClusterSpec, moving: Collection[ClusterName] = frozenset()
) -> bool:
    """Whether stores of a cluster keep all that it has, and go on doing so.

    Args:
        old: The cluster as it is.
        new: As it is to be.
        moving: The clusters in which slots still move.
    """
    return not (old.shared_out or new.shared_out or old.name in moving)


def slots_move(old: ClusterSpec, new: ClusterSpec) -> bool:
    """Whether stores of a cluster are to keep other slots than they do, or other stores.

    Also where all keep all and one is taken out: others are to have what it has.
    """
    before = {disk_of(store): store.slots for store in old.stores}
    after = {disk_of(store): store.slots for store in new.stores}
    if all_keep_all(old, new):
        return bool(before.keys() - after.keys())
    return before != after


def _slots(
    old: ClusterSpec, new: ClusterSpec, moving: Collection[ClusterName]
) -> Iterator[Refusal]:
    """Slots move between stores that run; who is taken out takes with it what only it has."""
    if not (new.shared_out or all_keep_all(old, new, moving)):
        for problem in unserved(new, ""):
            hint = "let the slots move first, and add it with the change behind that"
            yield Refusal("slots", problem.message, hint)
    after = {disk_of(store): slots_in(store.slots) for store in new.stores}
    staying_slots = [
        slots_in(store.slots) & after[disk_of(store)]
        for store in old.stores
        if disk_of(store) in after
    ]
    for store in old.stores:
        if disk_of(store) in after:
            continue
        alone = [
            slot
            for slot in slots_in(store.slots)
            if sum(slot in kept for kept in staying_slots) < new.copies
        ]
        if alone:
            slots = shown_slots(ranges_of(alone))
            message = (
                f"the store at {store.data!r} on {disk_of(store)[0]} would be taken out of cluster "
                f"{new.name!r}, and of those that stay fewer than {new.copies} keep slots {slots} "
                "all the time"
            )
            hint = "let others keep them with one change, and take it out with the next"
            yield Refusal("slots", message, hint)


def _epoch(old: Topology, new: Topology) -> Iterator[Refusal]:
    before, after = old.levels.epoch, new.levels.epoch
    if after not in (before, before + 1):
        message = f"the epoch would go from {before} to {after}"
        hint = f"{before} while levels mean the same, {before + 1} when they are given anew"
        yield Refusal("epoch", message, hint)


def _place(old: Topology, new: Topology) -> Iterator[Refusal]:
    before, after = _levels_of_staying(old, new), _levels_of_staying(new, old)
    if before.keys() != after.keys():
        here = min((_names(clade) for clade in before.keys() - after.keys()), default="")
        there = min((_names(clade) for clade in after.keys() - before.keys()), default="")
        both = (("were", here), ("would be", there))
        where = " and ".join(f"{verb} together {names}" for verb, names in both if names)
        message = f"clusters would change their places in the tree: {where}"
        hint = "take the cluster out with one change, and add one under another name with the next"
        yield Refusal("place", message, hint)


def _levels(old: Topology, new: Topology) -> Iterator[Refusal]:
    if new.levels.epoch != old.levels.epoch:
        return
    after = _levels_of_staying(new, old)
    relabelled = set()
    for clade, level in _levels_of_staying(old, new).items():
        if after.get(clade, level) != level:
            relabelled.add(level)
            message = (
                f"the branch over {_names(clade)} has level {level}, would have {after[clade]}"
            )
            hint = f"keep level {level}, or write levels: {{epoch: {old.levels.epoch + 1}}}"
            yield Refusal("relabel", message, hint)
    alive = {branch.level for branch in branches(new.tree)}
    gone = {branch.level for branch in branches(old.tree)} - alive
    forgotten = sorted({*old.levels.retired, *gone} - {*new.levels.retired, *alive, *relabelled})
    if forgotten:
        words = ", ".join(map(str, forgotten))
        message = f"level {words} was a branch's in this epoch, and would be forgotten"
        retired = ", ".join(map(str, sorted({*new.levels.retired, *forgotten})))
        yield Refusal("retire", message, f"write levels: {{retired: [{retired}]}}")
    used = {branch.level for branch in branches(old.tree)} | {*old.levels.retired}
    for branch in _added(old, new):
        if branch.level in used:
            message = f"the new branch over {_names(leaves(branch))} takes level {branch.level}"
            hint = "it has flags in the logs already: take one that this epoch has never had"
            yield Refusal("reuse", message, hint)


def _history(old: Topology, new: Topology) -> Iterator[Refusal]:
    """A level that is gone, under a new branch and above what it is put over, hides the past."""
    if new.levels.epoch != old.levels.epoch:
        return
    kept = staying(old, new)
    for branch in _added(old, new):
        below = kept.intersection(leaves(branch))
        floor = _level(restricted(old.tree, below))
        gone = {
            one.level
            for one in branches(old.tree)
            if below < set(leaves(one)) and _level(restricted(one, kept)) != one.level
        }
        blocking = [level for level in (*old.levels.retired, *gone) if floor < level < branch.level]
        if below and blocking:
            message = (
                f"level {branch.level} of the new branch over {_names(leaves(branch))} is above "
                f"{min(blocking)}, which is gone: what came across it would not be passed on"
            )
            hint = (
                f"take a level between {floor} and {min(blocking)}"
                if min(blocking) > floor + 1
                else f"write levels: {{epoch: {old.levels.epoch + 1}}}"
            )
            yield Refusal("history", message, hint)


def _placement(old: Topology, new: Topology) -> Iterator[Refusal]:
    """Whoever is to get a topic gets it from a cluster that has it and goes on having it."""
    for topic in judged_topics(old, new):
        before, after = set(old.placed_on(topic)), set(new.placed_on(topic))
        senders = [name for name in before & after if not new.cluster(name).receive_only]
        if after - before and not senders:
            what = f"topics {topic!r}" if topic else "topics that are everywhere"
            message = f"{what} would have nobody to come to {_names(after - before)} from"
            hint = "place them on both for a while: with one change, then the other"
            yield Refusal("source", message, hint)


def _levels_of_staying(topology: Topology, other: Topology) -> dict[Clade, int]:
    """The branches over the clusters that both have."""
    tree = restricted(topology.tree, staying(topology, other))
    assert tree is not None
    return {frozenset(leaves(branch)): branch.level for branch in branches(tree)}


def _added(old: Topology, new: Topology) -> Iterator[Branch]:
    """The branches that new clusters bring: without them they have one child, or none."""
    kept = staying(old, new)
    for branch in branches(new.tree):
        if sum(not kept.isdisjoint(leaves(child)) for child in branch.children) < 2:
            yield branch


def _level(tree: Tree | None) -> int:
    return tree.level if isinstance(tree, Branch) else 0


def _names(names: Clade | set[ClusterName] | Iterator[ClusterName]) -> str:
    return ", ".join(sorted(names))
