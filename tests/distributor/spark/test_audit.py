from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.records.envelope import Envelope
from distributor.errors import AuditError
from distributor.spark import audit as job
from distributor.spark import register
from distributor.spark.audit import AuditFinding, audit, write_report
from tests.support.shares import also_shared
from topology.copyflags import EVERY_FLAG

pytestmark = pytest.mark.slow

A, B = "AB" * 16, "CD" * 16
COPIED = Envelope(1, 0b1)


def values(first, end):
    return [b"%d" % number for number in range(first, end)]


@pytest.fixture
def compare(spark, pair):
    register(spark)
    return lambda: audit(spark, pair.topology, range_records=10)


@also_shared("pair")
def test_equal_clusters_of_which_one_keeps_less(pair, make_batch, compare):
    emptied, own = Partition("orders", B), Partition("__own", A)
    pair.fill(1, make_batch(values(0, 4)), make_batch(values(4, 25), 4))
    pair.fill(1, make_batch([b"i"], partition=own), make_batch(values(0, 3), partition=emptied))
    pair.fill(2, make_batch(values(0, 7), envelope=COPIED))
    pair.fill(2, make_batch(values(7, 25), 7, envelope=COPIED))
    pair.fill(2, make_batch(values(0, 3), partition=emptied, envelope=COPIED))
    pair.trim(1, {Partition("orders", A): 4, emptied: 3})
    with pair.running():
        found = compare()
        assert found.equal
        assert found.first_findings(10) == [
            AuditFinding("expired", "c1", "orders", A, 0, 3, 4),
            AuditFinding("expired", "c1", "orders", B, 0, 2, 3),
        ]
        assert found.records == {"c1": 21, "c2": 28}


def test_everything_that_can_be_wrong(pair, make_batch, compare, tmp_path, spark):
    other = Partition("orders", B)
    pair.fill(1, make_batch(values(0, 40)), make_batch(values(0, 3), partition=other))
    pair.fill(
        2,
        make_batch(values(0, 12), envelope=COPIED),
        make_batch([b"another", b"13"], 12, envelope=COPIED),
        make_batch(values(14, 22), 14, envelope=Envelope(1, 0b1000)),
    )
    with pair.running():
        found = compare()
        expected = [
            AuditFinding("behind", "c2", "orders", A, 22, 29, 8),
            AuditFinding("behind", "c2", "orders", A, 30, 39, 10),
            AuditFinding("behind", "c2", "orders", B, 0, 2, 3),
            AuditFinding("differs", "c2", "orders", A, 12, 12, 1),
            AuditFinding("path", "c2", "orders", A, 10, 19, 6),
            AuditFinding("path", "c2", "orders", A, 20, 21, 2),
        ]
        assert found.first_findings(10) == expected
        assert not found.equal
        write_report(found, tmp_path / "report", "text")
    kept = spark.read.parquet(str(tmp_path / "report" / "findings.parquet"))
    assert sorted(AuditFinding(*row) for row in kept.collect()) == expected
    assert (tmp_path / "report" / "report.txt").read_text() == "text"


def test_of_each_cluster_counts_what_is_to_be_there(make_pair, make_batch, spark):
    """Topics of one cluster only are no difference, wherever records of them lie."""
    register(spark)
    pair = make_pair('placement: [{topics: "local", clusters: [c1]}]')
    local = Partition("local", A)
    pair.fill(1, make_batch(values(0, 3)), make_batch(values(0, 3), partition=local))
    pair.fill(2, make_batch(values(0, 3), envelope=COPIED))
    pair.fill(2, make_batch([b"another"], partition=local))
    with pair.running():
        found = audit(spark, pair.topology, range_records=10)
        assert found.first_findings(10) == []
        assert found.records == {"c1": 6, "c2": 3}


def test_placed_topics_are_compared_where_they_are_to_be(spark):
    rows = [("c1", "t", A, 0, 0, 1), ("c1", "u", A, 0, 0, 1), ("c2", "u", A, 0, 0, 2)]
    rows += [("c1", "all", A, 0, 0, 1)]
    columns = "cluster STRING, topic STRING, partition STRING, range INT, offset INT, digest INT"
    spans = spark.createDataFrame(
        [], "cluster STRING, topic STRING, partition STRING, span_first INT, span_last INT"
    )
    records = spark.createDataFrame(rows, columns)
    placed = {("c1",): ["t"], ("c1", "c2"): ["u"]}
    found = job._differences(records, spans, placed, ["c1", "c2", "c3"])
    assert sorted(AuditFinding(*row)[:3] for row in found.collect()) == [
        ("behind", "c2", "all"),
        ("behind", "c3", "all"),
        ("differs", "c2", "u"),
    ]
    summary = spark.createDataFrame(
        [
            ("c1", "t", A, 0, 1, 5, 0, 0),
            ("c1", "u", A, 0, 1, 5, 0, 0),
            ("c1", "a", A, 0, 1, 5, 0, 0),
        ],
        "cluster STRING, topic STRING, partition STRING, range INT, records INT, digest INT, "
        "first INT, last INT",
    )
    suspicious = job._suspicious(summary, placed, 3).collect()
    assert sorted(row.topic for row in suspicious) == ["a", "u"]


def test_flags_of_another_epoch_and_of_pulled_copies_are_no_way(make_pair, make_batch, spark):
    register(spark)
    pair = make_pair("levels: {epoch: 2}")
    pair.fill(1, make_batch(values(0, 2)), make_batch(values(2, 4), 2), make_batch(values(4, 5), 4))
    pair.fill(
        2,
        make_batch(values(0, 2), envelope=Envelope(1, 0b100, 1)),
        make_batch(values(2, 4), 2, envelope=Envelope(1, EVERY_FLAG, 2)),
        make_batch(values(4, 5), 4, envelope=Envelope(1, 0b100, 2)),
    )
    with pair.running():
        found = audit(spark, pair.topology, range_records=2)
        assert found.first_findings(10) == [AuditFinding("path", "c2", "orders", A, 4, 4, 1)]


def test_differences_are_named_for_what_they_are(spark):
    """Holes, repetitions and what retention took, which our own stores cannot be brought to."""
    rows = [("c1", "t", A, 0, offset, offset) for offset in range(10)]
    rows += [("c2", "t", A, 0, offset, offset) for offset in (2, 3, 5, 5, 6)]
    columns = "cluster STRING, topic STRING, partition STRING, range INT, offset INT, digest INT"
    spans = spark.createDataFrame(
        [("c1", "t", A, 0, 9), ("c2", "t", A, 2, 6)],
        "cluster STRING, topic STRING, partition STRING, span_first INT, span_last INT",
    )
    found = job._differences(spark.createDataFrame(rows, columns), spans, {}, ["c1", "c2"])
    assert sorted(AuditFinding(*row) for row in found.collect()) == [
        AuditFinding("behind", "c2", "t", A, 7, 9, 3),
        AuditFinding("duplicated", "c2", "t", A, 5, 5, 1),
        AuditFinding("expired", "c2", "t", A, 0, 1, 2),
        AuditFinding("missing", "c2", "t", A, 4, 4, 1),
    ]


def test_a_cluster_that_does_not_answer(pair, compare):
    with pair.running(1), pytest.raises(AuditError, match="c2 does not answer"):
        compare()
