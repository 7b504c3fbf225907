"""`distributor wait` where controllers run all links: they say what is at the targets of theirs.

A target passes on what it gets, so all are asked again once all have answered, as often as a record
may travel: it crosses each level once at most.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.model import Endpoint, is_loopback
from distributor.errors import CommandError
from distributor.survey import ASKED_AT_ONCE_MAX
from distributor.verify.compare import LOOK_S
from distributor.verify.waiting import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from distributor.control.questions import Waited
    from topology.model import ClusterSpec
    from topology.plan import Plan


def can_be_asked(plan: Plan, *, shown: bool) -> bool:
    """Whether controllers can say of all links what is at their targets.

    Args:
        plan: All links.
        shown: Whether they are shown a certificate, as those want that others reach.
    """
    return bool(plan.links) and all(_is_open(one, shown=shown) for one in _senders(plan))


def _is_open(cluster: ClusterSpec, *, shown: bool) -> bool:
    places = _places(cluster)
    trusting = shown or cluster.insecure
    return bool(places) and all(
        trusting or is_loopback(Endpoint.parse(f"tcp://{place}").host) for place in places
    )


def _places(cluster: ClusterSpec) -> list[str]:
    return [one.listen for one in cluster.controllers if one.listen]


def _senders(plan: Plan) -> list[ClusterSpec]:
    names = {link.source for link in plan.links}
    return [one for one in plan.topology.clusters if one.name in names]


@dataclass(slots=True)
class _Lack:
    """What a cluster lacks, and why."""

    records: int = 0
    unknown: bool = False
    why: list[str] = field(default_factory=list)


def wait_at_controllers(
    plan: Plan,
    timeout_s: float,
    ask: Callable[[str, float], Waited],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Awaited]:
    """Wait until all that was published is everywhere, or time is up; how far each cluster is.

    Args:
        plan: All links; see `can_be_asked`.
        timeout_s: So long at most; controllers that do not answer take a moment longer.
        ask: Asks a controller at `HOST:PORT`, for so many seconds at most.
        progress: Called with how many rounds are over, and how many there are.
    """
    deadline_s = time.monotonic() + timeout_s
    senders = _senders(plan)
    lacks: dict[str, _Lack] = {}
    rounds = len({link.level for link in plan.links})
    with ThreadPoolExecutor(min(len(senders), ASKED_AT_ONCE_MAX), "dafka-look") as pool:
        for number in range(rounds):
            progress(number, rounds)
            told = pool.map(partial(_told, ask=ask, deadline_s=deadline_s), senders)
            lacks = _lacks(zip(senders, told, strict=True))
            if lacks:
                break
    return [_awaited(one.name, lacks.get(one.name)) for one in plan.topology.clusters]


def _told(
    cluster: ClusterSpec, ask: Callable[[str, float], Waited], deadline_s: float
) -> Waited | QueryError | CommandError:
    """What the controller in charge says; why it says nothing until time is up."""
    places = _places(cluster)
    for place in cycle(places):
        try:
            return ask(place, max(0.0, deadline_s - time.monotonic()))
        except (QueryError, CommandError) as error:
            failure = error
        if place == places[-1]:  # none of them
            if time.monotonic() >= deadline_s:
                return failure
            time.sleep(LOOK_S)
    raise AssertionError(cluster)  # it has controllers, see `can_be_asked`


def _lacks(
    told: Iterable[tuple[ClusterSpec, Waited | QueryError | CommandError]],
) -> dict[str, _Lack]:
    lacks: dict[str, _Lack] = {}
    for cluster, answer in told:
        if isinstance(answer, QueryError | CommandError):
            lack = lacks.setdefault(cluster.name, _Lack())
            lack.unknown = True
            lack.why.append(str(answer))
            continue
        for left in answer.left:
            lack = lacks.setdefault(left.target, _Lack())
            lack.records += left.lacks or 0
            lack.unknown |= left.lacks is None
            lack.why.append(f"from {cluster.name} at level {left.level}: {left.why or 'unwritten'}")
    return lacks


def _awaited(name: str, lack: _Lack | None) -> Awaited:
    if lack is None:
        return Awaited(name, 0)
    return Awaited(name, None if lack.unknown else lack.records, "; ".join(lack.why))
