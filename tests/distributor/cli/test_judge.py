from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dafka.model import Partition
from dafka.records.envelope import FRESH, Envelope
from distributor.cli.judge import DIFFERENCES_SHOWN_MAX, verdict_view
from distributor.cli.main import app
from distributor.verify.verdict import Difference, Verdict
from distributor.verify.verdict import DifferenceKind as Differing


def verify(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["verify", *map(str, words)])


@pytest.mark.net
@pytest.mark.slow
def test_equal_clusters(pair, make_batch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    with pair.running():
        heads = verify(pair.file)
        deep = verify(pair.file, "--deep")
        lines = verify(pair.file, "--json")
    assert [done.exit_code for done in (heads, deep, lines)] == [0] * 3
    assert [done.stderr for done in (heads, deep, lines)] == [""] * 3
    assert "equal: 1 partition, heads\n" in heads.stdout
    assert "equal: 1 partition, heads and contents; 4 records read" in deep.stdout
    assert json.loads(lines.stdout)["equal"] is True


@pytest.mark.net
@pytest.mark.slow
def test_other_contents_have_exit_code_3_and_are_left_alone(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    pair.fill(2, make_batch([b"1", b"x"]))
    with pair.running():
        table = verify(pair.file, "--deep", "--settle", 0)
        lines = verify(pair.file, "--repair", "--settle", 0, "--json")
    assert (table.exit_code, lines.exit_code) == (3, 3)
    assert "c2 has other records than c1: 1" in table.stdout
    told = json.loads(lines.stdout)
    assert [one["kind"] for one in told["differences"]] == ["behind", "differs"]
    assert told["repaired"] == 0
    assert "history differs" in told["left"][0]


@pytest.mark.net
@pytest.mark.slow
def test_missing_records_have_exit_code_1_until_they_are_repaired(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]), make_batch([b"3"], 2))
    pair.fill(2, make_batch([b"1", b"2"]))
    with pair.running():
        missing = verify(pair.file, "--settle", 0)
        repaired = verify(pair.file, "--repair", "--settle", 0, "--json")
        equal = verify(pair.file, "--deep", "--settle", 0)
    assert [done.exit_code for done in (missing, repaired, equal)] == [1, 0, 0]
    told = json.loads(repaired.stdout)
    assert (told["equal"], told["repaired"], told["clusters"]) == (True, 1, {"c1": 3, "c2": 3})
    assert told["left"] == []


@pytest.mark.net
@pytest.mark.slow
def test_a_cluster_that_does_not_answer_has_exit_code_4(pair):
    with pair.running(1):
        table = verify(pair.file)
    assert table.exit_code == 4
    assert pair.topology.clusters[1].stores[0].query in table.stdout


@pytest.mark.net
@pytest.mark.slow
@pytest.mark.parametrize("words", [("--watch", "--repair"), ("--metrics", "127.0.0.1:1")])
def test_what_does_not_go_together_is_refused(pair, words, monkeypatch):
    done = verify(pair.file, *words)
    assert done.exit_code != 0
    assert "--watch" in str(done.exception)


EVIL = "[red]x[/red]"


def test_equal_clusters_are_said_to_be(text):
    verdict = Verdict({"c1": 5, EVIL: 5}, partitions=2)
    shown = text(verdict_view(verdict))
    assert "equal: 2 partitions, heads\n" in shown
    assert EVIL in shown
    verdict.deep, verdict.records, verdict.shortened, verdict.repaired = True, 1_000, 1, 7
    shown = text(verdict_view(verdict))
    assert "equal: 2 partitions, heads and contents; 1,000 records read; 1 partition from" in shown
    assert "repaired: 7 records" in shown


def differing(number, topic=EVIL):
    return Difference(Differing.DIFFERS, topic, "A", "c2", number, number, ("c1",))


def test_differences_are_printed_as_they_are_and_not_too_many(text):
    differences = [differing(number) for number in range(DIFFERENCES_SHOWN_MAX + 5)]
    shown = text(verdict_view(Verdict({}, differences=differences, more=2), [f"{EVIL} is left"]))
    assert shown.count(EVIL) == DIFFERENCES_SHOWN_MAX + 1
    assert "and 7 more: see --json" in shown
    assert "equal" not in shown


def test_clusters_that_do_not_answer_come_before_differences(text):
    verdict = Verdict({}, differences=[differing(1)], unreachable=["away"])
    shown = text(verdict_view(verdict))
    assert shown.index("away") < shown.index("has other records")


ORDERS = Partition("orders", "AB" * 16)


@pytest.mark.slow
def test_the_report(run, shared_spark, pair, make_batch, tmp_path):
    pair.fill(1, make_batch([b"0", b"1"]))
    pair.fill(2, make_batch([b"0"], envelope=Envelope(1, 0b1)))
    with pair.running():
        code, out, _ = run("audit", "--engine", "spark", pair.file, "--report", tmp_path / "r")
        assert code == 1
        assert "behind" in out
        report = (tmp_path / "r" / "report.txt").read_text()
        assert "behind" in report
        assert "ABABABAB" in report
    pair.fill(2, make_batch([b"1"], 1, envelope=Envelope(1, 0b1)))
    with pair.running():
        code, out, _ = run("audit", pair.file, "--report", tmp_path / "r")
        assert code == 0
        assert "equal: every record is everywhere" in out
    pair.trim(1, {ORDERS: 2})
    with pair.running():
        code, out, _ = run("audit", pair.file, "--report", tmp_path / "r")
        assert code == 0
        assert "expired" in out
        assert "equal, but for what retention has taken" in out


@pytest.mark.slow
def test_topics_that_are_not_on_all_clusters_are_no_difference(
    run, shared_spark, make_pair, make_batch, tmp_path
):
    pair = make_pair('levels: {epoch: 1}\nplacement: [{topics: "local", clusters: [c1]}]')
    pair.fill(1, make_batch([b"0"]), make_batch([b"x"], partition=Partition("local", "AB" * 16)))
    pair.fill(2, make_batch([b"0"], envelope=Envelope(1, 0b1, 1)))
    with pair.running():
        code, out, _ = run("audit", pair.file, "--report", tmp_path / "r")
    assert code == 0
    assert "equal: every record is everywhere" in out


def test_a_report_that_cannot_be_written_is_refused_before_the_job(run, pair, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = run("audit", pair.file, "--report", tmp_path / "file" / "r")
    assert code == 2
    assert "cannot write to" in err
    assert "say another --report" in err


@pytest.mark.slow
def test_a_report_where_spark_writes(run, shared_spark, spark, pair, make_batch, tmp_path):
    for number in (1, 2):
        pair.fill(number, make_batch([b"0"], envelope=Envelope(1, 0b1) if number == 2 else FRESH))
    report = (tmp_path / "r").as_uri()
    with pair.running():
        code, _, _ = run("audit", pair.file, "--report", report)
    assert code == 0
    assert spark.read.parquet(f"{report}/findings.parquet").isEmpty()
    lines = spark.read.text(f"{report}/report.txt").collect()
    assert "equal: every record is everywhere" in "\n".join(row.value for row in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("report", "reason"),
    [("nosuch://host/r", 'No FileSystem for scheme "nosuch"'), ("file:///proc/r", "/proc/r")],
)
def test_a_report_where_spark_cannot_write_is_refused_first(
    run, shared_spark, pair, report, reason
):
    code, _, err = run("audit", pair.file, "--report", report)
    assert code == 2
    assert f"cannot write to '{report}'" in err
    assert reason in err
    assert len(err.splitlines()) == 1


def test_natively_it_is_another_command(run, pair):
    code, _, err = run("audit", pair.file, "--engine", "native")
    assert code == 2
    assert "distributor verify" in err
