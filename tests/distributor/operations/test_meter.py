from __future__ import annotations

from prometheus_client import REGISTRY, generate_latest

from dafka.process import metrics
from distributor.operations.meter import GatewayTotals, HeartbeatMeter, gateway_totals

PATH = {"origin": "m1", "cluster": "m2"}


def test_recovery_points_are_asked_for_when_they_are_read():
    points = {"m1": 0}
    HeartbeatMeter("m2", ["m1"], points.__getitem__)
    name = "distributor_recovery_point_timestamp_seconds"
    assert REGISTRY.get_sample_value(name, PATH) == 0
    points["m1"] = 5_500
    assert REGISTRY.get_sample_value(name, PATH) == 5.5


def test_who_hears_no_more_says_nothing_of_recovery_points():
    meter = HeartbeatMeter("m2", ["m1", "m3"], lambda _: 5_500)
    meter.close()
    name = "distributor_recovery_point_timestamp_seconds"
    assert REGISTRY.get_sample_value(name, PATH) is None
    assert REGISTRY.get_sample_value(name, {**PATH, "origin": "m3"}) is None


def test_how_long_heartbeats_take_is_counted():
    def heard():
        return REGISTRY.get_sample_value("distributor_end_to_end_seconds_sum", PATH) or 0.0

    meter = HeartbeatMeter("m2", ["m1"], lambda _: 0)
    before = heard()
    meter.heard("m1", 250)
    assert heard() == before + 0.25


def test_what_a_gateway_tells_is_read_back():
    def told():
        return gateway_totals(generate_latest().decode())

    before = told()
    metrics.KAFKA_CONNECTIONS.inc(2)
    for _ in range(3):
        metrics.KAFKA_REQUEST_SECONDS.labels("fetch").observe(0.1)
    metrics.KAFKA_BYTES.labels("fetch", "in").inc(10)
    metrics.KAFKA_BYTES.labels("fetch", "out").inc(20)
    metrics.KAFKA_PARTITIONS.labels("told", "serving").set(4)
    metrics.KAFKA_PARTITIONS.labels("told", "beginning").set(1)
    metrics.KAFKA_GROUPS.labels("told", "Stable").set(5)
    metrics.KAFKA_MEMBERS.labels("told").set(6)
    metrics.KAFKA_GROUP_LAG.labels("told", "a").set(7)
    after = told()
    assert [there - was for there, was in zip(after, before, strict=True)] == [
        *(3, 10, 20, 2),
        *(4, 1, 5, 6, 7),
    ]
    assert gateway_totals("") == GatewayTotals()
    metrics.KAFKA_CONNECTIONS.dec(2)
    metrics.KAFKA_PARTITIONS.remove("told", "serving")
    metrics.KAFKA_PARTITIONS.remove("told", "beginning")
    metrics.KAFKA_GROUPS.remove("told", "Stable")
    metrics.KAFKA_MEMBERS.remove("told")
    metrics.KAFKA_GROUP_LAG.remove("told", "a")
