"""`distributor verify`: are all clusters equal, record by record?

Heads are compared first. Then every partition is read from every cluster, from the highest of
its log starts (retention works on each cluster by itself) up to the lowest of its heads, and
digested over what makes a record: sequence, timestamp, key, value, headers. Envelopes differ
between clusters by design and are left out; batch boundaries do not matter.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dafka.query.client import StoreClient
from dafka.records.batch import checked_count, raw_records
from distributor.survey import Holding, survey

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.model import Partition
    from dafka.records.batch import RawRecord
    from topology.model import Topology

READ_TIMEOUT_MS = 30_000
"""How long one page may take from a store that is busy storing."""

_PLACE = struct.Struct(">QqII")
"""Sequence, timestamp, length of key and value plus one (0: none), before the fields of each."""


@dataclass(slots=True)
class Verdict:
    """What a comparison found.

    Attributes:
        clusters: Records per cluster.
        partitions: How many were compared.
        records: How many were read and digested, over all clusters.
        differences: What differs, as sentences; none means equal.
        unreachable: Clusters that did not answer.
        shortened: Partitions of which a cluster has dropped the beginning; the rest was compared.
    """

    clusters: dict[str, int]
    partitions: int = 0
    records: int = 0
    differences: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)
    shortened: int = 0

    @property
    def equal(self) -> bool:
        """Whether every cluster answered and all hold the same."""
        return not self.differences and not self.unreachable

    def as_json(self) -> dict[str, Any]:
        """For scripts; the keys are the attributes, and `equal`."""
        return {"equal": self.equal, **asdict(self)}


def verify(topology: Topology, progress: Callable[[int, int], None] | None = None) -> Verdict:
    """Compare all clusters of `topology`.

    Args:
        topology: Whose clusters.
        progress: Called with records digested and records to digest, now and then.
    """
    holdings = survey(topology)
    verdict = Verdict({holding.cluster: holding.records for holding in holdings})
    verdict.unreachable = [
        f"{holding.cluster}: {holding.error}" for holding in holdings if holding.store is None
    ]
    answering = [holding for holding in holdings if holding.store is not None]
    partitions = sorted({partition for holding in answering for partition in holding.heads})
    verdict.partitions = len(partitions)
    ranges = {partition: _shared(partition, answering) for partition in partitions}
    verdict.shortened = sum(shared.start > 0 for shared in ranges.values())
    for partition in partitions:
        verdict.differences += _head_differences(partition, answering)
    total = sum(map(len, ranges.values())) * len(answering)
    digests: dict[Partition, dict[str, str]] = {partition: {} for partition in partitions}
    for holding in answering:
        assert holding.store is not None
        with StoreClient(holding.store, timeout_ms=READ_TIMEOUT_MS) as client:
            for partition, shared in ranges.items():
                digests[partition][holding.cluster] = digest(
                    client, partition, shared.start, shared.stop
                )
                verdict.records += len(shared)
                if progress is not None:
                    progress(verdict.records, total)
    for partition, by_cluster in digests.items():
        if len(set(by_cluster.values())) > 1:
            where = ", ".join(f"{cluster} {value[:8]}" for cluster, value in by_cluster.items())
            shared = ranges[partition]
            verdict.differences.append(
                f"{_name(partition)}: contents differ from {shared.start} "
                f"to below {shared.stop}: {where}"
            )
    return verdict


def _shared(partition: Partition, holdings: list[Holding]) -> range:
    """The sequences that all of them should have."""
    start = max(holding.starts.get(partition, 0) for holding in holdings)
    end = min(holding.heads.get(partition, -1) for holding in holdings) + 1
    return range(start, max(start, end))


def digest(client: StoreClient, partition: Partition, start: int, end: int) -> str:
    """Return the digest of a partition's records from `start` to below `end`.

    It must hold all of them, once: if not, what is wrong stands in place of the digest.
    """
    state = hashlib.blake2b(digest_size=16)
    expected = start
    for batch in client.scan(partition, start, end):
        checked_count(batch.content, batch.sequence)
        parts: list[bytes] = []
        for record in raw_records(batch.content):
            if start <= record.sequence < end:
                if record.sequence != expected:
                    return f"gap at {expected}"
                expected += 1
                parts.append(_octets(record))
        state.update(b"".join(parts))
    return state.hexdigest() if expected == end else f"ends at {expected}"


def _octets(record: RawRecord) -> bytes:
    key, value = record.key, record.value
    place = _PLACE.pack(
        record.sequence,
        record.timestamp_ms,
        0 if key is None else len(key) + 1,
        0 if value is None else len(value) + 1,
    )
    octets = place + (key or b"") + (value or b"")
    for name, content in record.headers:
        octets += repr((name, content)).encode()
    return octets


def _head_differences(partition: Partition, holdings: list[Holding]) -> list[str]:
    heads = {holding.cluster: holding.heads.get(partition, -1) for holding in holdings}
    highest = max(heads.values())
    return [
        f"{_name(partition)}: {cluster} ends at {head}, others at {highest}"
        for cluster, head in heads.items()
        if head < highest
    ]


def _name(partition: Partition) -> str:
    return f"{partition.topic!r}/{partition.address[:8]}"
