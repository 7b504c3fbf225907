"""`distributor verify`: do all clusters hold the same, and all stores of each?

Records may flow meanwhile. First all clusters are asked for their heads: what anybody has then is
due everywhere, and clusters that lack something get a while to take it in. Then, if contents are to
be compared, each partition is, from the log starts up to those heads, by digests that the stores
work out: contents do not travel. Envelopes differ between clusters by design and are left out;
batch boundaries do not matter. For a cluster of several stores the one that holds most is compared
with other clusters, and then the others with that one, in the same way; where stores share slots,
those that keep the same.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.query.client import READ_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from distributor.survey import furthest, lacking, survey, survey_stores
from distributor.verify.bisection import Bisection, Coverage, segments
from distributor.verify.verdict import Difference, DifferenceKind, Verdict, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from dafka.model import Partition
    from distributor.survey import Holding
    from distributor.verify.bisection import Question, Segment
    from topology.model import ClusterSpec, Topology

SETTLE_S = 5.0
"""How long what somebody has may take to be everywhere; in health it takes well below a second."""

LOOK_S = 0.2
"""How often to see whether it is."""


def verify(
    topology: Topology,
    *,
    deep: bool = False,
    settle_s: float = SETTLE_S,
    only: Collection[Partition] | None = None,
    progress: Callable[[int, int], None] | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Compare all clusters of `topology`, and the stores of each that has several.

    Args:
        topology: Whose clusters.
        deep: Compare contents too, not only heads.
        settle_s: How long what somebody has may take to be everywhere.
        only: Compare only these partitions.
        progress: Called with records digested and records to digest, now and then.
        stopped: Whether to end early; what was found until then is the verdict.
    """
    before = [_restricted(holding, only) for holding in survey(topology)]
    due = furthest(holding.heads for holding in before)

    def waits(holding: Holding) -> bool:
        return holding.store is not None and any(
            topology.wants(partition.topic, holding.cluster)
            for partition in lacking(due, holding.heads)
        )

    after = _settled(before, lambda: survey(topology), waits, settle_s, only, stopped)
    records = {one.cluster: None if one.store is None else one.records for one in after}
    verdict = Verdict(records, len(due), deep)
    verdict.unreachable = [
        f"{holding.cluster}: {holding.error}" for holding in after if holding.store is None
    ]
    answering = [holding for holding in after if holding.store is not None]
    began = {holding.cluster: holding.heads for holding in before}
    parts = {
        partition: _kept(topology, partition, answering, head) for partition, head in due.items()
    }
    for partition, kept in sorted(parts.items()):
        verdict.shortened += any(held.start > 0 for held in kept.values())
        verdict.add(_behind(partition, kept, due[partition], began))
    if deep:
        places = {holding.cluster: holding for holding in answering}
        with _Stores(topology, places) as stores:
            _compare(parts, stores, verdict, progress, stopped)
    for cluster in topology.clusters:
        if len(cluster.stores) > 1 and records[cluster.name] is not None and not stopped():
            verdict.take(_of_stores(topology, cluster, deep, settle_s, only, progress, stopped))
    return verdict


def _of_stores(
    topology: Topology,
    cluster: ClusterSpec,
    deep: bool,
    settle_s: float,
    only: Collection[Partition] | None,
    progress: Callable[[int, int], None] | None,
    stopped: Callable[[], bool],
) -> Verdict:
    """Compare the stores of one cluster: those that lack something get a while, too."""
    silent: list[str] = []

    def look() -> list[Holding]:
        holdings, silent[:] = survey_stores(cluster)
        return holdings

    before = [_restricted(holding, only) for holding in look()]
    due = furthest(holding.heads for holding in before)

    def waits(holding: Holding) -> bool:
        return any(holding.slots.keeps(*partition) for partition in lacking(due, holding.heads))

    after = _settled(before, look, waits, settle_s, only, stopped)
    verdict = Verdict({}, deep=deep)
    verdict.unreachable = silent
    began = {holding.cluster: holding.heads for holding in before}
    parts = {partition: _parts(partition, after, head) for partition, head in due.items()}
    for partition, kept in sorted(parts.items()):
        verdict.add(_behind(partition, kept, due[partition], began))
    if deep:
        places = {holding.cluster: replace(holding, cluster=cluster.name) for holding in after}
        with _Stores(topology, places) as stores:
            _compare(parts, stores, verdict, progress, stopped)
    verdict.differences = [replace(one, within=cluster.name) for one in verdict.differences]
    return verdict


def _restricted(holding: Holding, only: Collection[Partition] | None) -> Holding:
    if only is not None:
        for partition in holding.heads.keys() - only:
            del holding.heads[partition], holding.starts[partition]
    return holding


def _settled(
    holdings: list[Holding],
    look: Callable[[], list[Holding]],
    waits: Callable[[Holding], bool],
    settle_s: float,
    only: Collection[Partition] | None,
    stopped: Callable[[], bool],
) -> list[Holding]:
    """What is held when nobody `waits` for anything any more, or time is up."""
    deadline = time.monotonic() + settle_s
    while any(map(waits, holdings)) and time.monotonic() < deadline and not stopped():
        time.sleep(LOOK_S)
        holdings = [_restricted(holding, only) for holding in look()]
    return holdings


def _kept(
    topology: Topology, partition: Partition, holdings: Sequence[Holding], due: int
) -> dict[str, range]:
    """What each cluster that the topic is on keeps of a partition, up to what is due."""
    wanted = [one for one in holdings if topology.wants(partition.topic, one.cluster)]
    return _parts(partition, wanted, due)


def _parts(partition: Partition, holdings: Sequence[Holding], due: int) -> dict[str, range]:
    kept = {}
    for holding in holdings:
        if not holding.slots.keeps(*partition):
            continue
        end = min(holding.heads.get(partition, -1), due) + 1
        kept[holding.cluster] = range(min(holding.starts.get(partition, 0), end), end)
    return kept


def _behind(
    partition: Partition,
    kept: Mapping[str, range],
    due: int,
    began: Mapping[str, Mapping[Partition, int]],
) -> Iterator[Difference]:
    """What clusters lack behind all that they have."""
    for cluster, held in kept.items():
        if held.stop > due:
            continue
        others = tuple(name for name, part in kept.items() if part.stop > held.stop)
        first = held.stop
        begins = min((kept[name].start for name in others if kept[name]), default=due + 1)
        if begins > first:
            # Whoever holds nothing begins where the others' logs do, and misses nothing by it.
            if held:
                yield Difference(
                    DifferenceKind.GONE, *partition, cluster, first, begins - 1, others
                )
            first = begins
        if first <= due:
            moving = held.stop > began.get(cluster, {}).get(partition, -1) + 1
            yield Difference(
                DifferenceKind.BEHIND, *partition, cluster, first, due, others, moving=moving
            )


def _compare(
    parts: Mapping[Partition, Mapping[str, range]],
    stores: _Stores,
    verdict: Verdict,
    progress: Callable[[int, int], None] | None,
    stopped: Callable[[], bool],
) -> None:
    """Compare contents, partition by partition."""
    work = [
        (partition, segment)
        for partition, kept in sorted(parts.items())
        for segment in segments(kept)
        if len(segment.holders) > 1
    ]
    total = sum(_size(segment) for _, segment in work)
    done = 0

    def tell(more: int) -> None:
        if progress is not None:
            progress(done + more, total)

    for partition, segment in work:
        bisection = _bisected(partition, segment, stores, tell, stopped)
        for finding in bisection.findings:
            verdict.add(differences(partition, finding))
        verdict.records += (bisection.position - segment.start) * len(segment.holders)
        done += _size(segment)
        tell(0)
    verdict.unreachable += [f"{name}: {reason}" for name, reason in stores.failed.items()]


def _bisected(
    partition: Partition,
    segment: Segment,
    stores: _Stores,
    tell: Callable[[int], None],
    stopped: Callable[[], bool],
) -> Bisection:
    bisection = Bisection(segment)
    while (question := bisection.question) is not None and not stopped():
        answers = stores.ask(partition, question)
        for cluster in stores.failed:
            bisection.leave(cluster)
        if answers is not None:
            bisection.answered(answers)
        tell((bisection.position - segment.start) * len(segment.holders))
    return bisection


def _size(segment: Segment) -> int:
    return (segment.end - segment.start) * len(segment.holders)


class _Stores:
    """Stores by the names they are compared under, all asked at once."""

    def __init__(self, topology: Topology, places: Mapping[str, Holding]) -> None:
        self.failed: dict[str, str] = {}
        """Clusters that have given no answer, and why: they are not asked again."""
        self._opened = ExitStack()
        self._clients = {
            name: self._opened.enter_context(
                ClusterClient(Cluster.declared(topology.cluster(holding.cluster)), READ_TIMEOUT_MS)
            ).store(holding.store)
            for name, holding in places.items()
            if holding.store is not None
        }
        # Never two questions to one client at once: whoever asks waits for all answers.
        self._pool = ThreadPoolExecutor(max(1, len(self._clients)), "dafka-verify")

    def ask(self, partition: Partition, question: Question) -> dict[str, Coverage] | None:
        """Return every cluster's answer; None if one gives none."""
        clusters = [name for name in question.clusters if name not in self.failed]
        if len(clusters) < len(question.clusters):
            return None
        answers: dict[str, Coverage] = {}
        asked = [self._pool.submit(self._ask, name, partition, question) for name in clusters]
        for name, answer in zip(clusters, asked, strict=True):
            try:
                answers[name] = answer.result()
            except QueryError as error:
                self.failed[name] = str(error)
        return None if len(answers) < len(clusters) else answers

    def _ask(self, cluster: str, partition: Partition, question: Question) -> Coverage:
        found = self._clients[cluster].digest(
            partition, question.start, question.end, exact=question.exact
        )
        return Coverage(found.start, found.end, found.digest, found.damage)

    def __enter__(self) -> _Stores:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        self._opened.close()
