"""What the flows do that replicas run, as the replicas tell at their metrics ports."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING

from dafka.errors import WireError
from distributor.control.messages import FlowKind
from distributor.control.opened_links import PAGE
from distributor.control.protocol import decode_opened
from distributor.control.wanted import flows_of
from distributor.operations.probe import TIMEOUT_S, caller_of
from distributor.operations.shares import missing, whole
from distributor.survey import at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.process.caller import Caller
    from distributor.control.messages import Flow
    from distributor.control.protocol import LinkRow, OpenedFlowRow, OpenedPage
    from topology.model import ReplicaSpec
    from topology.plan import Link, Plan

_IDLE = {
    FlowKind.OFFSETS: "brings positions of groups",
    FlowKind.SCHEMAS: "runs its schema distributor",
}
"""What nobody does if nobody writes a flow."""


@dataclass(slots=True)
class ToldByReplicas:
    """What replicas answered.

    Attributes:
        rows: What each link does of which a replica writes a share.
        silent: Why replicas do not say so, and shares that none writes, as sentences.
        unwritten: Links of which none writes any, where a replica of their cluster has answered.
        idle: What else none does, as sentences: positions of groups, schemas.
    """

    rows: dict[Link, LinkRow] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    unwritten: set[Link] = field(default_factory=set)
    idle: list[str] = field(default_factory=list)


def ask_replicas(plan: Plan) -> ToldByReplicas:
    """Ask all replicas of a topology.

    Raises:
        MisuseError: A file for asking them cannot be used.
    """
    told = ToldByReplicas()
    clusters = [one for one in plan.topology.clusters if one.controlled]
    replicas = [replica for cluster in clusters for replica in cluster.replicas]
    if not replicas:
        return told
    ask = partial(_ask, caller_of(plan.topology.web, TIMEOUT_S))
    answers = dict(zip(replicas, at_once(ask, replicas), strict=True))
    for cluster in clusters:
        pages: list[OpenedPage] = []
        for replica in cluster.replicas:
            answer = answers[replica]
            if isinstance(answer, str):
                told.silent.append(f"{cluster.name} replica {replica.listen}: {answer}")
            else:
                pages.append(answer)
        if pages:
            nobody = (
                "no replica" if len(pages) == len(cluster.replicas) else "no replica that answers"
            )
            _judge_links(plan, cluster.name, pages, nobody, told)
            _judge_others(flows_of(plan.topology, cluster.name), pages, nobody, told)
    return told


_Shares = dict[tuple[str, int, int, str], dict[int, dict[int, "LinkRow"]]]
"""What is written of a link: by its place, how many shares it is in, and the share's number."""


def _judge_links(
    plan: Plan, cluster: str, pages: Sequence[OpenedPage], nobody: str, told: ToldByReplicas
) -> None:
    shares = _written(pages)
    for link in plan.links:
        if link.source != cluster:
            continue
        name = f"{link.source} level {link.crossing}"
        written, of = shares.get(_place(link), {}), plan.topology.links.shares_at(link.level)
        other = [number for number, rows in written.items() if len(rows) == number != of]
        if len(written.get(of, ())) < of and other:
            told.silent.append(
                f"{name}: is written in {other[0]} shares, the file has {of}: start its replicas, "
                "then its controllers, with this file"
            )
            of = other[0]
        if rows := written.get(of):
            told.rows[link] = whole(rows, of)
            if lacking := missing(rows, of):
                told.silent.append(f"{name}: {nobody} writes {', '.join(lacking)}")
        else:
            told.unwritten.add(link)
            told.silent.append(f"{name}: {nobody} writes it")


def _written(pages: Sequence[OpenedPage]) -> _Shares:
    shares: _Shares = {}
    for opened in (one for page in pages for one in page.links if one.writes):
        # Who was frozen may say that it writes until it is told that another one does.
        of = shares.setdefault(_place(opened.row), {}).setdefault(opened.shares, {})
        of.setdefault(opened.share, opened.row)
    return shares


def _judge_others(
    flows: Sequence[Flow], pages: Sequence[OpenedPage], nobody: str, told: ToldByReplicas
) -> None:
    written = {(one.kind, *_place(one)) for page in pages for one in page.others if one.writes}
    for flow in flows:
        what = _IDLE.get(flow.kind)
        if what is not None and (flow.kind.value, *_place(flow.link)) not in written:
            level = "" if flow.kind is FlowKind.SCHEMAS else f" level {flow.link.crossing}"
            told.idle.append(f"{flow.link.source}{level}: {nobody} {what}")


def _ask(caller: Caller, replica: ReplicaSpec) -> OpenedPage | str:
    try:
        good, page = caller.get(replica.metrics, PAGE)
        return decode_opened(page) if good else f"{replica.metrics}: {page.strip()[:200]}"
    except (OSError, HTTPException) as error:
        return f"{replica.metrics}: {getattr(error, 'reason', error)}"
    except WireError:
        return f"{replica.metrics}: does not answer as a replica of this version"


def _place(link: Link | LinkRow | OpenedFlowRow) -> tuple[str, int, int, str]:
    return (link.source, link.level, link.branch, link.topics)
