"""What a process tells Prometheus: the only importer of `prometheus_client` in this package.

The label `role` is one of producer, consumer, store, mirror, link, tower. Partitions and addresses
are never labels: there may be a hundred thousand of them.
"""

from __future__ import annotations

from functools import cache

from prometheus_client import Counter, Gauge, Histogram, start_http_server

from dafka.errors import MisuseError
from dafka.model import Endpoint

RECORDS = Counter("dafka_records", "Records published or taken in", ["role", "direction"])
BATCHES = Counter("dafka_batches", "Batches published or taken in", ["role", "direction"])
BYTES = Counter("dafka_bytes", "Bytes of batches published or taken in", ["role", "direction"])
DROPPED = Counter("dafka_dropped", "Messages not used, by reason", ["role", "reason"])
PEERS = Gauge("dafka_peers", "Nodes this node is connected to", ["role", "address"])
PARTITIONS = Gauge("dafka_store_partitions", "Partitions a store holds", ["address"])
HEADS = Gauge("dafka_store_head_records", "Sum of a store's partition ends", ["address"])
APPEND_SECONDS = Histogram(
    "dafka_store_append_seconds",
    "One transaction of a store, fsync included",
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)


def count_batch(role: str, direction: str, records: int, size: int) -> None:
    """Count one batch going `in` or `out`."""
    records_counter, batches_counter, bytes_counter = _batch_counters(role, direction)
    records_counter.inc(records)
    batches_counter.inc()
    bytes_counter.inc(size)


@cache
def _batch_counters(role: str, direction: str) -> tuple[Counter, Counter, Counter]:
    """Looked up once: finding a labelled counter costs as much as sending a message."""
    labels = role, direction
    return RECORDS.labels(*labels), BATCHES.labels(*labels), BYTES.labels(*labels)


def serve_metrics(endpoint: str) -> None:
    """Serve `/metrics` of this process in a thread of its own.

    Args:
        endpoint: `host:port`; an IPv6 host in brackets.

    Raises:
        MisuseError: It is not one, the port is taken, or the host is not one of this machine's.
    """
    try:
        where = Endpoint.parse(f"tcp://{endpoint}")
    except MisuseError as error:
        raise MisuseError(f"cannot serve metrics at {endpoint!r}: expected HOST:PORT") from error
    try:
        start_http_server(where.port, addr=where.host.strip("[]"))
    except OSError as error:
        raise MisuseError(f"cannot serve metrics at {endpoint}: {error.strerror}") from error
