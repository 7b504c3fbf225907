"""Topics of a topology as one regular expression, which a source of Spark takes."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

from topology.model import HEARTBEATS, INTERNAL, KAFKA_TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from topology import Topology

_NONE = "(?!)"
"""Matches nothing."""


def carried_pattern(topology: Topology, span: Collection[str]) -> str:
    """What links carry of the topics on exactly these clusters, as `Topology.carries` has it."""
    wanted = _wanted(topology, lambda clusters: {*clusters} == {*span})
    travelling = f"{HEARTBEATS}|{KAFKA_TOPICS}|" if len(span) == len(topology.clusters) else ""
    return travelling + wanted


def wanted_pattern(topology: Topology, cluster: str) -> str:
    """What is to be on a cluster, as `Topology.wants` has it."""
    return _wanted(topology, lambda clusters: cluster in clusters)


def _wanted(topology: Topology, counts: Callable[[Collection[str]], bool]) -> str:
    """What is copied of the topics that are placed on clusters that count."""
    included = "|".join(map(fnmatch.translate, topology.topics.include)) or _NONE
    # Never a topic of the cluster itself, as `Topics.wants` has it.
    excluded = "|".join(map(fnmatch.translate, (f"{INTERNAL}*", *topology.topics.exclude)))
    placed = "" if counts([cluster.name for cluster in topology.clusters]) else _NONE
    for rule in reversed(topology.placement):  # the first that matches counts
        here = "" if counts(rule.clusters) else _NONE
        matches = fnmatch.translate(rule.topics)
        placed = f"(?:(?={matches}){here}|(?!{matches}){placed})"
    return f"{placed}(?!{excluded})(?:{included})"
