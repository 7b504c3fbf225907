"""From a topology that runs to another: the steps, in the order that keeps every record.

Whoever leaves is drained before, whoever comes is filled after; in between the new file is run. The
rules that such a change must hold are those of `topology.transition`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from topology.model import branches
from topology.plan import plan
from topology.transition import (
    Refusal,
    all_keep_all,
    judged_topics,
    refusals_of,
    slots_move,
    staying,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from topology.model import ClusterName, ClusterSpec, Topology


class Action(Enum):
    """What a step does; it is done when what it waits for is so."""

    RETARGET = "retarget"
    SILENCE = "silence"
    DRAIN = "drain"
    HOLD = "hold"
    SWITCH = "switch"
    MOVE = "move"
    FILL = "fill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step.

    Attributes:
        action: What is done.
        cluster: Whom it is about; empty if it is about all.
        level: Of the links it is about; 0 if it is about none.
        to: For a retarget, the cluster to copy to.
        topics: The pattern of the topics it is about; empty for all that are on the cluster.
        text: The same for people, with what is waited for.
    """

    action: Action
    cluster: str = ""
    level: int = 0
    to: str = ""
    topics: str = ""
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """What is between two topologies.

    Attributes:
        steps: In order; none if nothing has to be done, or if it is refused.
        refusals: The rules that it breaks.
    """

    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]

    @property
    def before(self) -> tuple[Step, ...]:
        """The steps that are taken while the old topology runs."""
        actions = [step.action for step in self.steps]
        return self.steps[: actions.index(Action.SWITCH)] if Action.SWITCH in actions else ()


def diff(old: Topology, new: Topology, moving: Collection[ClusterName] = frozenset()) -> Change:
    """Work out how to get from a topology that runs to another; both are right by themselves.

    Args:
        old: It.
        new: The other.
        moving: The clusters in which slots still move, as `old` has it.
    """
    if old == new:
        return Change(remaining(old, new, moving), ())
    refusals = refusals_of(old, new, moving)
    if refusals:
        return Change((), tuple(refusals))
    steps = (*_retargets(old, new), *_farewells(old, new), *_holds(old, new))
    return Change((*steps, *remaining(old, new, moving)), ())


def remaining(
    old: Topology, new: Topology, moving: Collection[ClusterName] = frozenset()
) -> tuple[Step, ...]:
    """Return the steps of a change from the one that runs the new file on; see `diff`."""
    moves = _moves(old, new, moving)
    if old == new:
        return tuple(moves)
    return (_switch(old, new), *moves, *_arrivals(old, new))


def _move(old: ClusterSpec, new: ClusterSpec, moving: Collection[ClusterName]) -> Step:
    what = "each store keeps its slots and no others, copied before they are dropped"
    if all_keep_all(old, new, moving):
        what = "the stores that stay have what those had that are taken out"
    return Step(action=Action.MOVE, text=f"{new.name}: {what}", cluster=new.name)


def _leaving(old: Topology, new: Topology) -> list[ClusterName]:
    """Clusters that go, or that send no more."""
    kept = staying(old, new)
    return [
        one.name
        for one in old.clusters
        if one.name not in kept or (new.cluster(one.name).receive_only and not one.receive_only)
    ]


def _retargets(old: Topology, new: Topology) -> Iterator[Step]:
    leaving = _leaving(old, new)
    steps: dict[tuple[str, int, str], Step] = {}
    for link in plan(old).links:
        others = [name for name in link.targets if name not in leaving]
        if link.source in leaving or link.target not in leaving or not others:
            continue
        text = (
            f"{link.source} level {link.level}: copy to {others[0]} instead of {link.target}, when "
            f"what was sent is on {_listed(link.beyond)}"
        )
        steps.setdefault(
            (link.source, link.level, others[0]),
            Step(
                action=Action.RETARGET,
                text=text,
                cluster=link.source,
                level=link.level,
                to=others[0],
            ),
        )
    yield from steps.values()


def _farewells(old: Topology, new: Topology) -> Iterator[Step]:
    """Nothing new comes from where something ends, and what is there is elsewhere too."""
    leaving = _leaving(old, new)
    for name in leaving:
        if old.cluster(name).receive_only:
            continue
        yield from _farewell(name, "", old.placed_on(""))
    for topic in judged_topics(old, new)[1:]:
        after = new.placed_on(topic)
        for name in old.placed_on(topic):
            if name not in after and name not in leaving:
                yield from _farewell(name, topic, old.placed_on(topic))


def _farewell(name: ClusterName, topic: str, span: tuple[ClusterName, ...]) -> Iterator[Step]:
    what = f"to {topic!r} " if topic else ""
    text = f"{name}: no producer publishes {what}there any more"
    yield Step(action=Action.SILENCE, text=text, cluster=name, topics=topic)
    others = [other for other in span if other != name]
    what = f"of {topic!r} " if topic else ""
    text = f"{name}: what it has {what}is on {_listed(others)}"
    yield Step(action=Action.DRAIN, text=text, cluster=name, topics=topic)


def _holds(old: Topology, new: Topology) -> Iterator[Step]:
    if old.levels.epoch == new.levels.epoch:
        return
    levels = {link.level for link in plan(old).links}
    for level in sorted(levels, reverse=True):
        text = f"level {level}: links hold, and what they sent is on every cluster beyond them"
        yield Step(action=Action.HOLD, text=text, level=level)


def _switch(old: Topology, new: Topology) -> Step:
    kept = staying(old, new)
    stopped = [one.name for one in old.clusters if one.name not in kept]
    started = [one.name for one in new.clusters if one.name not in kept]
    parts = [
        f"{verb} {_listed(names)}"
        for verb, names in (("stop", stopped), ("start", started))
        if names
    ]
    text = "; ".join(["run the new file", *parts])
    return Step(action=Action.SWITCH, text=text)


def _moves(old: Topology, new: Topology, moving: Collection[ClusterName]) -> Iterator[Step]:
    for name in sorted(staying(old, new)):
        if name in moving or slots_move(old.cluster(name), new.cluster(name)):
            yield _move(old.cluster(name), new.cluster(name), moving)


def _arrivals(old: Topology, new: Topology) -> Iterator[Step]:
    kept = staying(old, new)
    for name in [one.name for one in new.clusters if one.name not in kept]:
        text = f"{name}: it has what the others have"
        if _is_pulled(old, new):
            text += f", some of it pulled after {new.links.repair_after_ms / 1_000:g} s"
        yield Step(action=Action.FILL, text=text, cluster=name)
    for topic in judged_topics(old, new):
        for name in new.placed_on(topic):
            if name in kept and name not in old.placed_on(topic):
                text = f"{name}: it has what the others have of {topic!r}"
                yield Step(action=Action.FILL, text=text, cluster=name, topics=topic)
    for name in sorted(kept):
        if old.cluster(name).receive_only and not new.cluster(name).receive_only:
            text = f"{name}: what was published there is on the others"
            yield Step(action=Action.DRAIN, text=text, cluster=name)


def _is_pulled(old: Topology, new: Topology) -> bool:
    """Whether some of the past has nobody left who is bound to push it."""
    return bool(
        new.levels.epoch
        or new.levels.retired
        or {branch.level for branch in branches(old.tree)}
        - {branch.level for branch in branches(new.tree)}
    )


def _listed(names: list[ClusterName] | tuple[ClusterName, ...]) -> str:
    return ", ".join(names)
