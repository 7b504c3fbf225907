"""What heartbeats tell Prometheus, and what other processes tell that people are shown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.samples import Sample

_PATH = ["origin", "cluster"]
END_TO_END_SECONDS = Histogram(
    "distributor_end_to_end_seconds",
    "From a heartbeat's origin to a cluster, through every level between them",
    _PATH,
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3_600),
)
RECOVERY_POINT = Gauge(
    "distributor_recovery_point_timestamp_seconds",
    "When the newest heartbeat of an origin was sent that has come to a cluster; 0 for never",
    _PATH,
)


class HeartbeatMeter:
    """The series of the heartbeats that one cluster hears.

    Args:
        cluster: Its name.
        origins: The names of all.
        point_ms: Wall time of the newest heartbeat of one; asked whenever metrics are read.
    """

    def __init__(
        self, cluster: str, origins: Sequence[str], point_ms: Callable[[str], int]
    ) -> None:
        self._cluster = cluster
        self._origins = origins
        for origin in origins:
            RECOVERY_POINT.labels(origin, cluster).set_function(partial(_seconds, point_ms, origin))

    def heard(self, origin: str, took_ms: int) -> None:
        """A heartbeat has come."""
        END_TO_END_SECONDS.labels(origin, self._cluster).observe(took_ms / 1_000)

    def close(self) -> None:
        """Nothing is heard any more: a point that stands still would look as if records were."""
        for origin in self._origins:
            RECOVERY_POINT.remove(origin, self._cluster)


def _seconds(point_ms: Callable[[str], int], origin: str) -> float:
    return point_ms(origin) / 1_000


def clock_skews_s(exposition: str) -> list[float]:
    """How far stores' clocks are ahead of those of other clusters, in seconds."""
    return [sample.value for sample in _samples(exposition, "dafka_store_clock_skew_seconds")]


def towers_away(exposition: str) -> set[str]:
    """The endpoints of towers that a process does not hear."""
    return {sample.labels["tower"] for sample in _samples(exposition, "dafka_towers_away")}


def unread_meshes(exposition: str) -> int:
    """In how many meshes a process says nothing, as nobody else there writes as it does."""
    return int(sum(sample.value for sample in _samples(exposition, "dafka_unread_meshes")))


def holds_used(exposition: str) -> list[float]:
    """How much of a hold's bound stores have used, each where that is most; 1 is all."""
    return [sample.value for sample in _samples(exposition, "dafka_store_hold_used_ratio")]


def gone_records(exposition: str) -> dict[str, int]:
    """How many records each cluster lacks that a controller's own keeps no more, if any."""
    samples = _samples(exposition, "distributor_controller_gone_records")
    return {one.labels["other"]: int(one.value) for one in samples if one.value}


class GatewayTotals(NamedTuple):
    """What a gateway tells.

    Attributes:
        requests: Of Kafka clients, so far.
        received_bytes: So far.
        sent_bytes: So far.
        connections: Open now.
        serving: Partitions that it serves.
        beginning: Those that it is taking over.
        groups: That it coordinates and that have members, or wait for some.
        members: Theirs.
        lag_records: What all groups have not processed of what it serves.
    """

    requests: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    connections: int = 0
    serving: int = 0
    beginning: int = 0
    groups: int = 0
    members: int = 0
    lag_records: int = 0


def gateway_totals(exposition: str) -> GatewayTotals:
    """Read what a gateway tells back from the text of `/metrics`."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            kind = sample.labels.get("state", sample.labels.get("direction", ""))
            field = _GATEWAY_FIELDS.get((sample.name, kind)) or _GATEWAY_FIELDS.get(
                (sample.name, "")
            )
            if field is not None:
                sums[field] = sums.get(field, 0) + sample.value
    return GatewayTotals()._replace(**{field: int(value) for field, value in sums.items()})


_GATEWAY_FIELDS = {
    ("dafka_gateway_request_seconds_count", ""): "requests",
    ("dafka_gateway_bytes_total", "in"): "received_bytes",
    ("dafka_gateway_bytes_total", "out"): "sent_bytes",
    ("dafka_gateway_connections", ""): "connections",
    ("dafka_gateway_partitions", "serving"): "serving",
    ("dafka_gateway_partitions", "beginning"): "beginning",
    ("dafka_gateway_groups", ""): "groups",
    ("dafka_gateway_group_members", ""): "members",
    ("dafka_gateway_group_lag_records", ""): "lag_records",
}
"""By series, and its label `state` or `direction` if that counts."""


def _samples(exposition: str, name: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(exposition):
        if family.name == name:
            yield from family.samples
