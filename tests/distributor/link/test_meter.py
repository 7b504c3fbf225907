from __future__ import annotations

import pytest
from prometheus_client import REGISTRY, generate_latest

from dafka.model import PartitionShare
from distributor.link.events import Hopped, Skipped, StopReason
from distributor.link.meter import LinkMeter, LinkTotal, hop_buckets, link_totals, quantile
from topology import plan


@pytest.fixture
def meter(pair):
    (link, _) = plan(pair.topology).links
    return LinkMeter(link)


def value(name, **labels):
    labels = {"source": "c1", "target": "c2", "level": "1", **labels}
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_a_hop_counts_its_batch_records_and_bytes(meter):
    names = ("distributor_batches_total", "distributor_bytes_total")
    before = [value(name) for name in names]
    records = value("distributor_records_total", result="forwarded")
    meter.hopped(Hopped(records=3, size=100, latency_ms=30))
    meter.tell()
    assert [value(name) for name in names] == [before[0] + 1, before[1] + 100]
    assert value("distributor_records_total", result="forwarded") == records + 3


def test_pulled_records_are_counted_apart(meter):
    before = value("distributor_records_total", result="forwarded")
    pulled = value("distributor_records_total", result="pulled")
    meter.hopped(Hopped(records=4, size=100, latency_ms=30, pulled=True))
    meter.tell()
    assert value("distributor_records_total", result="pulled") == pulled + 4
    assert value("distributor_records_total", result="forwarded") == before


def test_heartbeats_are_no_traffic(meter):
    names = (
        "distributor_batches_total",
        "distributor_bytes_total",
        "distributor_hop_seconds_count",
    )
    before = [value(name) for name in names]
    copied = link_totals(generate_latest().decode())
    internal = value("distributor_records_total", result="internal")
    meter.hopped(Hopped(records=2, size=100, latency_ms=30, internal=True))
    meter.tell()
    assert value("distributor_records_total", result="internal") == internal + 2
    assert [value(name) for name in names] == before
    assert link_totals(generate_latest().decode()) == copied


def test_what_is_skipped_is_counted_apart(meter):
    before = value("distributor_records_total", result="skipped")
    meter.skipped(Skipped(records=3))
    meter.skipped(Skipped(records=4))
    assert value("distributor_records_total", result="skipped") == before
    for _ in range(2):
        meter.tell()
        assert value("distributor_records_total", result="skipped") == before + 7


def test_shares_of_a_link_are_told_apart(pair, meter):
    (link, _) = plan(pair.topology).links
    meter.lag(3, 0)
    LinkMeter(link, share=PartitionShare(1, 4)).lag(5, 0)
    assert value("distributor_lag_records") == 3
    assert value("distributor_lag_records", level="1 share 1/4") == 5


def test_lag_is_what_it_was_last_told(meter):
    meter.lag(10, 2_500)
    assert value("distributor_lag_records") == 10
    assert value("distributor_lag_seconds") == 2.5
    meter.lag(0, 0)
    assert value("distributor_lag_records") == 0


def test_a_link_that_has_ended_says_nothing_of_how_far_it_is(pair):
    (link, _) = plan(pair.topology).links
    meter = LinkMeter(link, "ended")
    meter.lag(10, 2_500)
    meter.standstill(3, 4_500)
    meter.hopped(Hopped(records=3, size=100, latency_ms=30))
    meter.tell()
    meter.close()
    meter.lag(11, 2_500)
    gauges = (
        *("lag_records", "lag_seconds", "behind_partitions", "standstill_seconds"),
        *("diverged_partitions", "overtaken_partitions", "refused_partitions"),
        "shortened_partitions",
    )
    labels = {"source": "c1", "target": "ended", "level": "1"}
    told = {name: REGISTRY.get_sample_value(f"distributor_{name}", labels) for name in gauges}
    assert told == dict.fromkeys(gauges)
    assert REGISTRY.get_sample_value("distributor_batches_total", labels) == 1


def test_shares_and_processes_of_a_link_are_read_back_as_one(pair):
    (link, _) = plan(pair.topology).links
    for number in range(2):
        meter = LinkMeter(link, "shared", PartitionShare(number, 2))
        meter.hopped(Hopped(records=3, size=100, latency_ms=30))
        meter.tell()
    text = generate_latest().decode()
    assert link_totals(text)["c1", "shared", "1"] == LinkTotal(6, 200)
    once, twice = (hop_buckets(*[text] * times)["c1", "shared", "1"] for times in (1, 2))
    assert [bound for bound, _ in once] == sorted(bound for bound, _ in once)
    assert (once[-1], twice[-1]) == ((float("inf"), 2), (float("inf"), 4))


def test_hop_buckets_are_read_back_from_what_is_served(meter):
    link = ("c1", "c2", "1")
    before = dict(hop_buckets(generate_latest().decode()).get(link, []))
    meter.hopped(Hopped(records=1, size=1, latency_ms=30))
    after = hop_buckets(generate_latest().decode())[link]
    assert [bound for bound, _ in after] == sorted(bound for bound, _ in after)
    assert after[-1][0] == float("inf")
    grown = {bound: count - before.get(bound, 0) for bound, count in after}
    assert grown[0.02] == 0
    assert grown[0.05] == 1
    assert grown[float("inf")] == 1


@pytest.mark.parametrize("text", ["", "# nothing\n", "other_total 1\n"])
def test_text_without_hops_has_no_buckets(text):
    assert hop_buckets(text) == {}


def test_totals_are_read_back_from_what_is_served(meter):
    link = ("c1", "c2", "1")
    before = link_totals(generate_latest().decode()).get(link, LinkTotal())
    meter.hopped(Hopped(records=3, size=100, latency_ms=30))
    meter.hopped(Hopped(records=4, size=100, latency_ms=30, pulled=True))
    meter.skipped(Skipped(records=5))
    meter.tell()
    after = link_totals(generate_latest().decode())[link]
    assert (after.records - before.records, after.size - before.size) == (7, 200)
    assert link_totals("") == {}


def test_a_quantile_is_a_bound_that_so_many_are_below():
    buckets = [(0.01, 50.0), (0.1, 99.0), (float("inf"), 100.0)]
    assert [quantile(buckets, share) for share in (0.5, 0.51, 0.99, 1.0)] == [
        *(0.01, 0.1, 0.1, float("inf")),
    ]


def test_what_a_survey_finds_can_be_read(meter):
    meter.standstill(3, 4_500)
    counts = {StopReason.DIVERGED: 1, StopReason.OVERTAKEN: 2, StopReason.REFUSED: 4}
    meter.stopped(counts, 5)
    assert value("distributor_behind_partitions") == 3
    assert value("distributor_standstill_seconds") == 4.5
    assert value("distributor_diverged_partitions") == 1
    assert value("distributor_overtaken_partitions") == 2
    assert value("distributor_refused_partitions") == 4
    assert value("distributor_shortened_partitions") == 5
