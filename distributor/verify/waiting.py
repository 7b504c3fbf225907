"""`distributor wait`: until everything that was published is on every cluster that it is for.

What counts is what each cluster holds when it is first heard of; what is published later is not
waited for. One that does not answer may hold what nobody else has: it is waited for, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distributor.survey import furthest, lacking, survey
from distributor.verify.compare import LOOK_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.model import Partition
    from distributor.survey import Holding
    from topology.model import Topology


@dataclass(frozen=True, slots=True)
class Awaited:
    """How far a cluster is with what is due.

    Attributes:
        cluster: Its name.
        lacks: How many records it has not got yet; None if it does not answer.
        error: Why there is no answer.
    """

    cluster: str
    lacks: int | None
    error: str = ""


def wait(
    topology: Topology,
    timeout_s: float,
    progress: Callable[[int, int], None] = lambda done, total: None,
    look: Callable[[Topology], list[Holding]] = survey,
) -> list[Awaited]:
    """Wait until all that was published is everywhere, or time is up; how far each cluster is.

    Args:
        topology: Whose clusters.
        timeout_s: So long at most; clusters that do not answer take a moment longer.
        progress: Called with how many records have come that were missing, and how many were.
        look: Asks all clusters.
    """
    deadline_s = time.monotonic() + timeout_s
    due: dict[Partition, int] = {}
    heard: set[str] = set()
    most = 0
    while True:
        holdings = look(topology)
        new = [one for one in holdings if one.store is not None and one.cluster not in heard]
        heard |= {one.cluster for one in new}
        due = furthest([due, *(one.heads for one in new)])
        found = [_awaited(topology, one, due) for one in holdings]
        left = sum(one.lacks or 0 for one in found)
        most = max(most, left)
        progress(most - left, most)
        if all(one.lacks == 0 for one in found) or time.monotonic() >= deadline_s:
            return found
        time.sleep(LOOK_S)


def _awaited(topology: Topology, holding: Holding, due: dict[Partition, int]) -> Awaited:
    if holding.store is None:
        return Awaited(holding.cluster, None, holding.error)
    missing = lacking(due, holding.heads)
    wanted = (count for one, count in missing.items() if topology.wants(one.topic, holding.cluster))
    return Awaited(holding.cluster, sum(wanted))
