from __future__ import annotations

from prometheus_client import REGISTRY

from dafka.process.logs import KeyValueFormatter
from dafka.process.unreadable import pass_over
from tests.support.batches import ORDERS, make_batch


def test_what_is_passed_over_is_counted_and_named(caplog):
    before = REGISTRY.get_sample_value("dafka_unreadable_records_total")
    pass_over(make_batch([b"0", b"1", b"2"], 7), 8)
    assert REGISTRY.get_sample_value("dafka_unreadable_records_total") == before + 2
    (record,) = caplog.records
    line = KeyValueFormatter().format(record)
    assert f"topic=orders address={ORDERS.address} first=8 last=9" in line
