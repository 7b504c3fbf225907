"""What links do that replicas run, as the replicas tell at their metrics ports."""

from __future__ import annotations

from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING

from dafka.errors import WireError
from distributor.control.opened_links import PAGE
from distributor.control.protocol import decode_opened
from distributor.operations.probe import TIMEOUT_S, caller_of
from distributor.survey import at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.process.caller import Caller
    from distributor.control.protocol import LinkRow, OpenedRow
    from topology.model import ReplicaSpec
    from topology.plan import Link, Plan


def ask_replicas(plan: Plan) -> tuple[dict[Link, LinkRow], dict[str, str], set[str]]:
    """Ask all replicas of a topology.

    Returns:
        What each link does that a replica writes; why replicas do not say so, by their names; and
        the clusters of which a replica has answered.

    Raises:
        MisuseError: A file for asking them cannot be used.
    """
    clusters = [one for one in plan.topology.clusters if one.controlled]
    asked = [(cluster.name, replica) for cluster in clusters for replica in cluster.replicas]
    if not asked:
        return {}, {}, set()
    ask = partial(_ask, caller_of(plan.topology.web, TIMEOUT_S))
    rows: dict[Link, LinkRow] = {}
    silent: dict[str, str] = {}
    answered: set[str] = set()
    links = {_place(link): link for link in plan.links}
    answers = at_once(ask, [replica for _, replica in asked])
    for (cluster, replica), answer in zip(asked, answers, strict=True):
        if isinstance(answer, str):
            silent[f"{cluster} replica {replica.listen}"] = answer
            continue
        answered.add(cluster)
        for opened in answer:
            link = links.get(_place(opened.row))
            # Who was frozen may say that it writes until it is told that another one does.
            if opened.writes and link is not None and link.source == cluster:
                rows.setdefault(link, opened.row)
    return rows, silent, answered


def _ask(caller: Caller, replica: ReplicaSpec) -> Sequence[OpenedRow] | str:
    try:
        good, page = caller.get(replica.metrics, PAGE)
        return decode_opened(page) if good else f"{replica.metrics}: {page.strip()[:200]}"
    except (OSError, HTTPException) as error:
        return f"{replica.metrics}: {getattr(error, 'reason', error)}"
    except WireError:
        return f"{replica.metrics}: does not answer as a replica of this version"


def _place(link: Link | LinkRow) -> tuple[str, int, int, str]:
    return (link.source, link.level, link.branch, link.topics)
