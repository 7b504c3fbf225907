"""What the flows do that replicas run, as the replicas tell at their metrics ports."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from dafka.errors import WireError
from dafka.model import Partition
from dafka.wire.primitives import text
from distributor.control.messages import FlowKind
from distributor.control.opened_links import PAGE, REMEMBERED_PAGE
from distributor.control.protocol import (
    CONTROLLER_PAGE,
    decode_opened,
    decode_paused,
    decode_remembered,
)
from distributor.control.wanted import flows_of
from distributor.operations.probe import TIMEOUT_S, caller_of
from distributor.operations.shares import missing, whole
from distributor.survey import at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dafka.process.caller import Caller
    from distributor.control.messages import Flow
    from distributor.control.protocol import LinkRow, OpenedFlowRow, OpenedPage
    from topology.model import ClusterSpec, ReplicaSpec
    from topology.plan import Link, Plan

P = TypeVar("P")

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
        paused: Links of which none does as an operator wants that, as their controller says.
        idle: What else none does, as sentences: positions of groups, schemas.
    """

    rows: dict[Link, LinkRow] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    unwritten: set[Link] = field(default_factory=set)
    paused: set[Link] = field(default_factory=set)
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
            _excuse_paused(plan, cluster, nobody, told)
            _judge_others(flows_of(plan.topology, cluster.name), pages, nobody, told)
    return told


def unpaused(plan: Plan, level: int) -> list[str]:
    """What is waited for until no replica writes records of a level, as ends of sentences.

    A replica that says nothing may write; so may one whose link is just ending, until it has opened
    one that may not.

    Raises:
        MisuseError: A file for asking them cannot be used.
    """
    links = [link for link in plan.links if link.level == level]
    clusters = {one.name: one for one in plan.topology.clusters if one.controlled}
    names = [one for one in dict.fromkeys(link.source for link in links) if one in clusters]
    replicas = [(name, replica) for name in names for replica in clusters[name].replicas]
    if not replicas:
        return []
    ask = partial(_ask, caller_of(plan.topology.web, TIMEOUT_S))
    answers = at_once(ask, [replica for _, replica in replicas])
    waiting: list[str] = []
    for (name, replica), answer in zip(replicas, answers, strict=True):
        if isinstance(answer, str):
            waiting.append(f"{name} replica {replica.listen} to answer")
            continue
        for link in [one for one in links if one.source == name]:
            rows = [one for one in answer.links if _place(one.row) == _place(link)]
            if any(one.writes for one in rows):
                waiting.append(f"{name} level {link.crossing} to pause")
            elif not rows or len({one.share for one in rows}) < rows[0].shares:
                waiting.append(f"{name} replica {replica.listen} to have level {link.crossing}")
    return waiting


def paused_levels(plan: Plan, cluster: ClusterSpec) -> frozenset[int] | None:
    """Which levels operators have paused at a cluster; None if no controller in charge answers.

    Raises:
        MisuseError: A file for asking them cannot be used.
    """
    ask = partial(_page, caller_of(plan.topology.web, TIMEOUT_S), page=CONTROLLER_PAGE)
    answers = [ask(one.metrics, decode=decode_paused) for one in cluster.controllers]
    known = [levels for levels in answers if isinstance(levels, frozenset)]
    return frozenset[int]().union(*known) if known else None


@dataclass(slots=True)
class RememberedByReplicas:
    """What replicas last knew of a cluster.

    Attributes:
        age_s: How long ago that was; None if none ever did.
        heads: Of each that has answered.
        silent: Why others have not, as sentences.
    """

    age_s: float | None = None
    heads: list[Mapping[Partition, int]] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)


def remembered_by_replicas(plan: Plan, cluster: str) -> RememberedByReplicas:
    """Ask the replicas of all other clusters.

    Raises:
        MisuseError: A file for asking them cannot be used.
    """
    told = RememberedByReplicas()
    others = [one for one in plan.topology.clusters if one.controlled and one.name != cluster]
    replicas = [(one.name, replica) for one in others for replica in one.replicas]
    if not replicas:
        return told
    ask = partial(_ask_remembered, caller_of(plan.topology.web, TIMEOUT_S), cluster)
    answers = at_once(ask, [replica for _, replica in replicas])
    for (name, replica), answer in zip(replicas, answers, strict=True):
        if isinstance(answer, str):
            told.silent.append(f"{name} replica {replica.listen}: {answer}")
            continue
        age_ms, heads = answer
        told.heads.append(heads)
        if age_ms >= 0:
            told.age_s = min(age_ms / 1_000, told.age_s or float("inf"))
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
            told.silent.append(_unwritten(link, nobody))


def _excuse_paused(plan: Plan, cluster: ClusterSpec, nobody: str, told: ToldByReplicas) -> None:
    """Links that nobody writes may be paused: whoever is in charge of them knows."""
    unwritten = [link for link in plan.links if link in told.unwritten]
    unwritten = [link for link in unwritten if link.source == cluster.name]
    if not unwritten:
        return
    paused = paused_levels(plan, cluster) or frozenset()
    for link in unwritten:
        if link.level in paused:
            told.unwritten.remove(link)
            told.paused.add(link)
            until = "until distributor controller unpause lets it go on"
            sentence = f"{link.source} level {link.crossing}: is paused, {until}"
            told.silent[told.silent.index(_unwritten(link, nobody))] = sentence


def _unwritten(link: Link, nobody: str) -> str:
    return f"{link.source} level {link.crossing}: {nobody} writes it"


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
    return _page(caller, replica.metrics, PAGE, decode_opened)


def _ask_remembered(
    caller: Caller, cluster: str, replica: ReplicaSpec
) -> tuple[int, Mapping[Partition, int]] | str:
    heads: dict[Partition, int] = {}
    while True:
        asked = urlencode({"cluster": cluster, "from": len(heads)})
        page = _page(caller, replica.metrics, f"{REMEMBERED_PAGE}?{asked}", decode_remembered)
        if isinstance(page, str):
            return page
        known = len(heads)
        heads |= {Partition(text(one), text(other)): head for one, other, head in page.heads}
        if not page.more or len(heads) == known:
            return page.age_ms, heads


def _page(caller: Caller, place: str, page: str, decode: Callable[[str], P]) -> P | str:
    """What a replica or a controller answers, or why it does not, for people."""
    try:
        good, said = caller.get(place, page)
        return decode(said) if good else f"{place}: {said.strip()[:200]}"
    except (OSError, HTTPException) as error:
        return f"{place}: {getattr(error, 'reason', error)}"
    except WireError:
        return f"{place}: does not answer as a replica of this version"


def _place(link: Link | LinkRow | OpenedFlowRow) -> tuple[str, int, int, str]:
    return (link.source, link.level, link.branch, link.topics)
