"""What a topology holds, topic by topic and group by group, as plain values for JSON.

Nothing is changed, and the work of a question is bounded: what is left out is counted.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import ExitStack
from threading import Lock
from typing import TYPE_CHECKING, Any

from dafka.cluster import Cluster
from dafka.errors import QueryError, RecordError
from dafka.gateway.commits import REACHED, is_row
from dafka.groups.reset import positions_of
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import records_of
from distributor.schemas.site import sites_of
from distributor.survey import at_once, furthest, lacking, survey_group
from topology.copyflags import format_flags
from topology.errors import UnnamedError
from topology.names import Names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dafka.model import Partition, Record
    from dafka.query.client import StoreClient
    from distributor.offsets.explanation import GroupView
    from distributor.schemas.site import Site
    from distributor.survey import Holding
    from topology.model import ClusterSpec, Topology

ROWS_MAX = 1_000
"""Topics, groups and partitions of a page; the rest is counted."""

MESSAGES_MAX = 20
"""The newest of a topic that are shown, and of how many partitions they are looked for."""

MESSAGES_BYTES_MAX = 2 * 1024 * 1024
"""Of batches that are fetched for them: once so many have come no more are asked for."""

_PARTITION_BYTES_MAX = 64 * 1024
"""Of one partition, beside the batch that its last record is in."""

PREVIEW_BYTES_MAX = 256
"""Of a key or value."""

SCHEMA_CHARACTERS_MAX = 4_096
"""Of a schema's text."""


def preview(octets: bytes | None) -> str | None:
    """The beginning of a key or value, as text."""
    if octets is None:
        return None
    text = octets[:PREVIEW_BYTES_MAX].decode(errors="replace")
    return text if len(octets) <= PREVIEW_BYTES_MAX else f"{text}… ({len(octets):,} bytes)"


def shortened(text: str) -> str:
    """The beginning of a schema."""
    if len(text) <= SCHEMA_CHARACTERS_MAX:
        return text
    return f"{text[:SCHEMA_CHARACTERS_MAX]}… ({len(text):,} characters)"


def topics(holdings: Sequence[Holding]) -> dict[str, Any]:
    """Every topic, and how many of its records the cluster that lacks most lacks.

    Args:
        holdings: What all clusters hold; those that do not answer are named.
    """
    due = furthest(holding.heads for holding in holdings)
    rows: dict[str, dict[str, int]] = {}
    for partition, head in due.items():
        row = rows.setdefault(partition.topic, {"partitions": 0, "records": 0, "lacking": 0})
        row["partitions"] += 1
        row["records"] += head + 1
    for holding in holdings:
        lacks = Counter[str]()
        if holding.store is not None:
            for partition, missing in lacking(due, holding.heads).items():
                lacks[partition.topic] += missing
        for topic, missing in lacks.items():
            rows[topic]["lacking"] = max(rows[topic]["lacking"], missing)
    chosen = sorted(rows)[:ROWS_MAX]
    return {
        "topics": [{"topic": name, **rows[name]} for name in chosen],
        "more": len(rows) - len(chosen),
        "silent": [holding.cluster for holding in holdings if holding.store is None],
    }


def topic_at(topic: str, holdings: Sequence[Holding]) -> list[dict[str, Any]]:
    """What each cluster holds of a topic; None if that is not known."""
    due = {
        partition: head
        for partition, head in furthest(one.heads for one in holdings).items()
        if partition.topic == topic
    }
    rows = []
    for holding in holdings:
        heads = {place: head for place, head in holding.heads.items() if place in due}
        known = holding.store is not None
        rows.append(
            {
                "cluster": holding.cluster,
                "error": holding.error,
                "partitions": len(heads) if known else None,
                "records": sum(head + 1 for head in heads.values()) if known else None,
                "kept": sum(
                    head + 1 - holding.starts.get(place, 0) for place, head in heads.items()
                )
                if known
                else None,
                "lacking": sum(lacking(due, heads).values()) if known else None,
            }
        )
    return rows


def newest(cluster: ClusterSpec, holding: Holding, topic: str, width: int) -> dict[str, Any]:
    """The newest records of a topic at a cluster, the newest first, by their time.

    Args:
        cluster: Which.
        holding: What it holds.
        topic: The topic.
        width: Digits of copy flags.
    """
    heads = {place: head for place, head in holding.heads.items() if place.topic == topic}
    chosen = sorted(heads)[:MESSAGES_MAX]
    found = {
        "cluster": cluster.name,
        "error": holding.error,
        "messages": [],
        "asked": len(chosen),
        "partitions": len(heads),
    }
    if holding.store is None:
        return found
    try:
        with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
            records = _last(stores.store(holding.store), {place: heads[place] for place in chosen})
    except (QueryError, RecordError) as error:
        return {**found, "error": str(error)}
    records.sort(key=lambda record: (record.timestamp_ms, record.sequence), reverse=True)
    found["messages"] = [_message(record, width) for record in records[:MESSAGES_MAX]]
    return found


def _last(store: StoreClient, heads: Mapping[Partition, int]) -> list[Record]:
    """The last records of each partition: those before the last batch as far as they are small."""
    last = {place: range(head, head + 1) for place, head in heads.items()}
    before = {place: range(max(0, head + 1 - MESSAGES_MAX), head) for place, head in heads.items()}
    before = {place: span for place, span in before.items() if span}
    found: dict[tuple[Partition, int], Record] = {}
    for spans in (before, last):
        for place, batches in store.read_each(
            spans, _PARTITION_BYTES_MAX, MESSAGES_BYTES_MAX
        ).items():
            newest_of = deque(
                (record for batch in batches for record in records_of(batch, spans[place].start)),
                maxlen=MESSAGES_MAX,
            )
            found |= {(place, record.sequence): record for record in newest_of}
    return [*found.values()]


def _message(record: Record, width: int) -> dict[str, Any]:
    return {
        "address": record.address,
        "sequence": record.sequence,
        "timestamp_ms": record.timestamp_ms,
        "flags": format_flags(record.copy_flags, width),
        "key": preview(record.key),
        "value": preview(record.value),
    }


def groups(topology: Topology) -> dict[str, Any]:
    """Every group that has ever committed something, and where."""
    answers = at_once(_groups_at, topology.clusters)
    where: dict[str, list[str]] = {}
    errors: dict[str, str] = {}
    for cluster, answer in zip(topology.clusters, answers, strict=True):
        if isinstance(answer, str):
            errors[cluster.name] = answer
        else:
            for group in answer:
                where.setdefault(group, []).append(cluster.name)
    chosen = sorted(where)[:ROWS_MAX]
    return {
        "groups": [{"group": name, "clusters": where[name]} for name in chosen],
        "more": len(where) - len(chosen),
        "silent": list(errors),
    }


def _groups_at(cluster: ClusterSpec) -> list[str] | str:
    try:
        with ClusterClient(Cluster.declared(cluster), LOOK_TIMEOUT_MS) as stores:
            return stores.first(lambda store: store.groups())
    except QueryError as failure:
        return str(failure)


def group(topology: Topology, name: str) -> dict[str, Any]:
    """Where a group stands at each cluster, partition by partition.

    Args:
        topology: Whose clusters are asked.
        name: Of the group, one that `checked_group` takes.
    """
    views = survey_group(topology, name)
    rows = [row for view in views for row in _positions(view)]
    return {
        "group": name,
        "clusters": [_view(view) for view in views],
        "positions": rows[:ROWS_MAX],
        "more": max(0, len(rows) - ROWS_MAX),
    }


def _view(view: GroupView) -> dict[str, Any]:
    rows = _positions(view)
    return {
        "cluster": view.cluster,
        "error": view.error,
        "live": None if view.error else view.live,
        "partitions": None if view.error else len(rows),
        "lag": None if view.error else sum(row["lag"] or 0 for row in rows),
    }


def _positions(view: GroupView) -> list[dict[str, Any]]:
    """What of Kafka's clients is an offset: stores know no end of it, so its lag is None."""
    rows = []
    for partition, position in sorted(positions_of(view.commits).items()):
        kafka = is_row(partition)
        if partition.topic == REACHED:
            continue  # the same, worked out from the positions
        end = None if kafka else view.ends.get(partition, 0)
        rows.append(
            {
                "cluster": view.cluster,
                "topic": partition.address.rpartition("/")[0] if kafka else partition.topic,
                "address": partition.address,
                "position": position,
                "end": end,
                "lag": None if end is None else max(0, end - position),
            }
        )
    return rows


class Schemas:
    """The schemas of topics, read off every cluster that has a registry.

    Args:
        topology: Where these are declared.
    """

    def __init__(self, topology: Topology) -> None:
        self._sites = sites_of(topology)
        self._names = {site.name: Names(topology, site.name) for site in self._sites}
        self._lock = Lock()

    def of_topic(self, topic: str) -> list[dict[str, Any]]:
        """The newest schema of its keys and values at each cluster."""
        with self._lock:  # what was read before stays read
            return [row for site in self._sites for row in self._at(site, topic)]

    def _at(self, site: Site, topic: str) -> Iterator[dict[str, Any]]:
        if not site.read():
            yield {"cluster": site.name, "error": site.error}
            return
        for part in ("key", "value"):
            try:
                subject = self._names[site.name].subject(topic, part)
            except UnnamedError:
                return  # one that has no subjects there
            versions = site.state.versions.get(subject, {})
            number = max((n for n, one in versions.items() if not one.deleted), default=None)
            schema = None if number is None else site.state.schema(versions[number].id)
            if number is not None and schema is not None:
                yield {
                    "cluster": site.name,
                    "error": "",
                    "subject": subject,
                    "version": number,
                    "id": versions[number].id,
                    "language": schema.language,
                    "text": shortened(schema.text),
                }

    def close(self) -> None:
        """Let go of the clusters."""
        with self._lock, ExitStack() as opened:
            for site in self._sites:
                opened.callback(site.close)
