from __future__ import annotations

from prometheus_client import REGISTRY

from distributor.operations.meter import HeartbeatMeter

PATH = {"origin": "m1", "cluster": "m2"}


def test_recovery_points_are_asked_for_when_they_are_read():
    points = {"m1": 0}
    HeartbeatMeter("m2", ["m1"], points.__getitem__)
    name = "distributor_recovery_point_timestamp_seconds"
    assert REGISTRY.get_sample_value(name, PATH) == 0
    points["m1"] = 5_500
    assert REGISTRY.get_sample_value(name, PATH) == 5.5


def test_how_long_heartbeats_take_is_counted():
    def heard():
        return REGISTRY.get_sample_value("distributor_end_to_end_seconds_sum", PATH) or 0.0

    meter = HeartbeatMeter("m2", ["m1"], lambda _: 0)
    before = heard()
    meter.heard("m1", 250)
    assert heard() == before + 0.25
