"""Where a record is: asking every cluster for its copy of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.errors import DafkaError
from dafka.query.client import StoreClient
from dafka.records.batch import records_of
from distributor.survey import ANSWER_TIMEOUT_MS

if TYPE_CHECKING:
    from dafka.model import Partition, Record
    from topology.model import Cluster, Topology


@dataclass(frozen=True, slots=True)
class Copy:
    """One cluster's copy of a record.

    Attributes:
        cluster: Which.
        record: None if no store there has it.
        error: Why that is not known.
    """

    cluster: str
    record: Record | None
    error: str = ""


def look_up(topology: Topology, partition: Partition, sequence: int) -> list[Copy]:
    """Ask all clusters at once; in the order of the file."""
    with ThreadPoolExecutor(max_workers=min(16, len(topology.clusters))) as pool:
        return list(pool.map(lambda one: _copy(one, partition, sequence), topology.clusters))


def _copy(cluster: Cluster, partition: Partition, sequence: int) -> Copy:
    """The first store that has it speaks for the cluster; one that does not answer may have it."""
    error = ""
    for store in cluster.stores:
        try:
            with StoreClient(store.query, timeout_ms=ANSWER_TIMEOUT_MS) as client:
                for batch in client.read(partition, sequence, count_max=1):
                    for record in records_of(batch, sequence):
                        if record.sequence == sequence:
                            return Copy(cluster.name, record)
        except DafkaError as failure:
            error = str(failure)
    return Copy(cluster.name, None, error)
