"""What a process tells Prometheus: the only importer of `prometheus_client` in this package.

The label `role` is one of producer, consumer, store, mirror, link, tower, control. Partitions and
addresses are never labels: there may be a hundred thousand of them. Kafka partitions are labels of
what a gateway serves, of as many as `dafka.gateway.meter` says.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import Counter, Gauge, Histogram, Info, make_wsgi_app

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from dafka.reasons import Reason

BUILD = Info("dafka_build", "What runs here")
RECORDS = Counter("dafka_records", "Records published or taken in", ["role", "direction"])
BATCHES = Counter("dafka_batches", "Batches published or taken in", ["role", "direction"])
BYTES = Counter("dafka_bytes", "Bytes of batches published or taken in", ["role", "direction"])
DROPPED = Counter("dafka_dropped", "Messages not used, by reason", ["role", "reason"])
LOST = Counter("dafka_lost_records", "Records skipped because no store has them any more", ["role"])
UNREADABLE = Counter(
    "dafka_unreadable_records", "Records passed over: their batch is whole, they are not"
)
PEERS = Gauge("dafka_peers", "Nodes this node is connected to", ["role", "address"])
PEERS_LEFT = Counter("dafka_peers_left", "Peers left: silent, their connection gone", ["role"])
CUT = Counter(
    "dafka_connections_cut",
    "Connections cut, for filling the process's memory or for what they sent a publisher",
    ["reason"],
)
UNREAD = Gauge(
    "dafka_unread_meshes",
    "Meshes of a node in which it says nothing, as all others write in the other dialect",
    ["role", "address"],
)
TOWERS_AWAY = Gauge(
    "dafka_towers_away", "1 for a tower that this node does not hear", ["role", "address", "tower"]
)
PARTITIONS = Gauge("dafka_store_partitions", "Partitions a store holds", ["address"])
HEADS = Gauge("dafka_store_head_records", "Sum of a store's partition ends", ["address"])
HOLES = Gauge("dafka_store_holes", "Partitions that wait for records which nobody has", ["address"])
CLOCK_SKEW = Gauge(
    "dafka_store_clock_skew_seconds",
    "How far a store's clock is ahead of those by which other clusters publish",
    ["address"],
)
APPEND_FAILURES = Counter("dafka_store_append_failures", "Transactions the disk refused")
DISPUTED = Counter("dafka_store_disputed_partitions", "Partitions two producers publish in")
RIVALS = Counter(
    "dafka_producer_disputed_partitions", "Partitions another producer has published in, too"
)
READ_FAILURES = Counter("dafka_store_read_failures", "Reads the disk refused")
TRIMMED = Counter("dafka_store_trimmed_records", "Records dropped by retention", ["address"])
RELEASED = Counter(
    "dafka_store_released_records",
    "Records dropped though a cluster lacks them, as their hold had reached its bound",
    ["address"],
)
HOLD_USED = Gauge(
    "dafka_store_hold_used_ratio",
    "How much of a hold's bound is used by what is kept for it alone, where that is most",
    ["address"],
)
FORGOTTEN = Counter(
    "dafka_store_forgotten_partitions", "Emptied partitions a store has forgotten", ["address"]
)
COMMITS = Counter("dafka_store_commits", "Positions of groups that a store took in")
NO_COMMITS = Counter("dafka_store_commits_refused", "Records passed over: no commits of a group")
GROUP_COMMITS = Counter("dafka_group_commits", "Positions committed by consumers", ["group"])
GROUP_LAG = Gauge(
    "dafka_group_lag_records", "Not delivered yet, of a member's", ["group", "member"]
)
STORE_GROUP_LAG = Gauge(
    "dafka_store_group_lag_records",
    "Records that a store has and a group has not processed, of all its partitions",
    ["address", "group"],
)
REBALANCES = Counter("dafka_group_rebalances", "Generations a member has settled in", ["group"])
STORED_BYTES = Gauge("dafka_store_bytes", "Bytes of the batches a store keeps", ["address"])
APPEND_SECONDS = Histogram(
    "dafka_store_append_seconds",
    "One transaction of a store, fsync included",
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)


WEB_REFUSED = Counter(
    "dafka_web_refused", "Requests over HTTP without a token that is good for them", ["status"]
)


KAFKA_LOGINS_FAILED = Counter(
    "dafka_gateway_logins_failed", "Kafka clients that did not prove who they are", ["mechanism"]
)
KAFKA_CONNECTIONS = Gauge("dafka_gateway_connections", "Connections of Kafka clients that are open")
KAFKA_REQUEST_SECONDS = Histogram(
    "dafka_gateway_request_seconds",
    "From a Kafka request's last byte to its answer, waiting for records and members included",
    ["api"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
)
KAFKA_BYTES = Counter(
    "dafka_gateway_bytes", "Bytes of Kafka requests and answers", ["api", "direction"]
)
KAFKA_ERRORS = Counter(
    "dafka_gateway_errors", "Errors in answers to Kafka clients", ["api", "error"]
)
KAFKA_THROTTLED = Counter(
    "dafka_gateway_throttled_seconds",
    "How long Kafka clients were told to wait, by their user's quotas",
    ["user", "quota"],
)
KAFKA_PARTITIONS = Gauge(
    "dafka_gateway_partitions", "Partitions a gateway owns, by how far it is", ["cluster", "state"]
)
KAFKA_CLUSTER_PARTITIONS = Gauge(
    "dafka_gateway_cluster_partitions", "Partitions that gateways are to serve", ["cluster"]
)
KAFKA_BEGINNING_SECONDS = Gauge(
    "dafka_gateway_beginning_seconds",
    "How long a gateway owns the partition that it has not served for longest; 0 for none",
    ["cluster"],
)
KAFKA_STORES_AWAY = Gauge(
    "dafka_gateway_stores_away", "Stores that do not answer a gateway", ["cluster"]
)
KAFKA_STORES_NEW = Gauge(
    "dafka_gateway_stores_new",
    "Stores with a new disk that has not been compared with all others",
    ["cluster"],
)
_PARTITION = ["cluster", "topic", "partition"]
KAFKA_HIGH_WATERMARK = Gauge(
    "dafka_gateway_partition_high_watermark", "Where what clients may read ends", _PARTITION
)
KAFKA_LOG_START = Gauge(
    "dafka_gateway_partition_log_start", "The first offset that is kept", _PARTITION
)
KAFKA_PARTITION_RECORDS = Counter(
    "dafka_gateway_partition_records",
    "Records that clients have produced and fetched",
    [*_PARTITION, "direction"],
)
KAFKA_PARTITION_BATCHES = Counter(
    "dafka_gateway_partition_batches", "Batches they are in", [*_PARTITION, "direction"]
)
KAFKA_PARTITION_BYTES = Counter(
    "dafka_gateway_partition_bytes", "Bytes of these batches", [*_PARTITION, "direction"]
)
KAFKA_GROUPS = Gauge(
    "dafka_gateway_groups", "Kafka groups that a gateway coordinates", ["cluster", "state"]
)
KAFKA_MEMBERS = Gauge("dafka_gateway_group_members", "Members of these groups", ["cluster"])
KAFKA_REBALANCES = Counter("dafka_gateway_group_rebalances", "Generations of Kafka groups")
KAFKA_GROUP_LAG = Gauge(
    "dafka_gateway_group_lag_records",
    "Records that a group has not processed of what a gateway serves; its lag is the sum",
    ["cluster", "group"],
)


def count_dropped(role: str, reason: Reason) -> None:
    """Count something that came from outside and was not used."""
    DROPPED.labels(role, reason).inc()


REGISTRY_REQUESTS = Counter(
    "dafka_registry_requests", "Requests to a schema registry", ["method", "status"]
)
REGISTRY_SECONDS = Histogram(
    "dafka_registry_seconds",
    "From a request's last byte to its answer, reading and writing the log included",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
REGISTRY_SUBJECTS = Gauge(
    "dafka_registry_subjects", "Subjects, those deleted softly included", ["cluster"]
)
REGISTRY_EPOCH = Gauge(
    "dafka_registry_epoch", "The latest epoch that the registry knows of", ["cluster"]
)
REGISTRY_PRIMARY = Gauge(
    "dafka_registry_primary", "1 if schemas are registered here, as far as is known", ["cluster"]
)


class Tally:
    """Counts batches, and tells Prometheus once for many: counting there costs a microsecond.

    Args:
        records: Series of their records.
        batches: Of themselves.
        size: Of their bytes.
    """

    def __init__(self, records: Counter, batches: Counter, size: Counter) -> None:
        self._series = records, batches, size
        self._records = self._batches = self._bytes = 0

    def add(self, records: int, size: int) -> None:
        """Count one batch."""
        self._records += records
        self._batches += 1
        self._bytes += size

    def tell(self) -> None:
        """Add what was counted since the last time to the series."""
        if not self._batches:
            return
        records, batches, size = self._series
        records.inc(self._records)
        batches.inc(self._batches)
        size.inc(self._bytes)
        self._records = self._batches = self._bytes = 0


def traffic(role: str, direction: str) -> Tally:
    """A tally of batches going `in` or `out` in a role."""
    labels = role, direction
    return Tally(RECORDS.labels(*labels), BATCHES.labels(*labels), BYTES.labels(*labels))


class RequestSeries(NamedTuple):
    """The series of one of Kafka's APIs: to look them up takes longer than to count."""

    seconds: Histogram
    received: Counter
    sent: Counter


@cache
def kafka_requests(api: str) -> RequestSeries:
    """Return the series of an API."""
    sizes = (KAFKA_BYTES.labels(api, direction) for direction in ("in", "out"))
    return RequestSeries(KAFKA_REQUEST_SECONDS.labels(api), *sizes)


def count_commits(commits: int, refused: int) -> None:
    """Count what one transaction brought of `__consumer_offsets`; most bring nothing."""
    if commits:
        COMMITS.inc(commits)
    if refused:
        NO_COMMITS.inc(refused)


application: WSGIApplication = make_wsgi_app()
"""Answers with every series of this process, as Prometheus wants them."""
