from __future__ import annotations

from prometheus_client import REGISTRY

from distributor.verify.meter import AuditMeter
from distributor.verify.verdict import Difference, DifferenceKind, Verdict


def test_an_audit_tells_what_each_cluster_lacks_and_has_otherwise():
    def told(name, **labels):
        return REGISTRY.get_sample_value(f"distributor_audit_{name}", {"topology": "t", **labels})

    behind = Difference(DifferenceKind.BEHIND, "orders", "A", "c2", 5, 9, ("c1",))
    differs = [
        Difference(DifferenceKind.DIFFERS, "orders", "B", "c2", one, one, ("c1",)) for one in (1, 3)
    ]
    meter = AuditMeter("t", ["c1", "c2"])
    meter.compared(Verdict({}, records=10, differences=[behind, *differs]), 1.5, 7_000)
    assert told("missing_records", cluster="c2") == 5
    assert told("differing_partitions", cluster="c2") == 1
    assert told("missing_records", cluster="c1") == 0
    assert (told("seconds"), told("last_timestamp_seconds")) == (1.5, 7)
    assert told("runs_total", result="differs") == 1
    meter.compared(Verdict({}, records=10), 1, 8_000)
    assert told("missing_records", cluster="c2") == 0
    assert told("runs_total", result="equal") == 1
    assert told("records_total") == 20
    meter.compared(Verdict({}, unreachable=["c1: away"]), 1, 9_000)
    assert told("runs_total", result="incomplete") == 1
