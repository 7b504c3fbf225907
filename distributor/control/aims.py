"""Where operators want links to aim: part of what is wanted, so it outlives whoever heard it.

A link that is aimed elsewhere is another flow: it has other targets in front. The old one ends, the
new one begins where its target is; that loses nothing and repeats nothing in any log (ADR 38).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from dafka.model import Value, replace
from distributor.control.messages import FlowKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from distributor.control.messages import Flow
    from topology.plan import Link


class LinkPlace(NamedTuple):
    """A link of a cluster, wherever it aims."""

    level: int
    branch: int
    topics: str


class LinkTurn(Value, frozen=True):
    """What an operator wants of the links of a level.

    Attributes:
        level: Which they cross.
        to: Their target from now on; empty for that which the file prefers.
    """

    level: int
    to: str


def place_of(link: Link) -> LinkPlace:
    """Which link it is."""
    return LinkPlace(link.level, link.branch, link.topics)


def aimed(flow: Flow, aims: Mapping[LinkPlace, str]) -> Flow:
    """A flow of the file, as it is with these aims; what is no target of it is not heeded."""
    to = aims.get(place_of(flow.link))
    if flow.kind is FlowKind.SCHEMAS or to not in flow.link.targets:
        return flow
    targets = tuple(sorted(flow.link.targets, key=lambda one: one != to))
    return replace(flow, link=dataclasses.replace(flow.link, targets=targets))


def turning(flows: Iterable[Flow], turn: LinkTurn) -> frozenset[LinkPlace]:
    """Which links a turn is for: those that have such a target.

    Args:
        flows: Those of the file.
        turn: What is wanted.
    """
    links = _links(flows, turn.level)
    return frozenset(place_of(one) for one in links if not turn.to or turn.to in one.targets)


def turned(
    aims: Mapping[LinkPlace, str], places: Iterable[LinkPlace], to: str
) -> dict[LinkPlace, str]:
    """Aims as they are after these links were turned; to nowhere is to what the file prefers."""
    left = {place: target for place, target in aims.items() if place not in places}
    return left | dict.fromkeys(places, to) if to else left


def objection(flows: Iterable[Flow], turn: LinkTurn) -> str | None:
    """Why links cannot be turned so, for people; None if one can."""
    links = _links(flows, turn.level)
    if not links:
        return f"no link crosses level {turn.level} here"
    known = dict.fromkeys(name for link in links for name in link.targets)
    if not turn.to or turn.to in known:
        return None
    return f"{turn.to!r} is no target here: there are {', '.join(known)}"


def _links(flows: Iterable[Flow], level: int) -> list[Link]:
    found = (flow.link for flow in flows if flow.kind is not FlowKind.SCHEMAS)
    return [link for link in dict.fromkeys(found) if link.level == level]
