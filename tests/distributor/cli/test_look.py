from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from distributor.cli.judge import verdict_view
from distributor.cli.look import LATE_SHOWN_MAX, STOPPED_SHOWN_MAX, late_view, status_view
from distributor.cli.main import app, main
from distributor.operations.recovery import RecoveryPoint
from distributor.operations.status import (
    ClusterStatus,
    LatePartition,
    LinkStatus,
    Status,
    StoppedPartition,
)
from distributor.verify.verdict import Verdict
from tests.support.json_outputs import rows_of


def invoke(*words, columns=200):
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*words])


@pytest.mark.net
@pytest.mark.slow
def test_status_of_equal_clusters(pair, make_batch):
    for number in (1, 2):
        pair.fill(number, make_batch([b"1", b"2"]))
    with pair.running():
        table = invoke("status", str(pair.file))
        lines = invoke("status", str(pair.file), "--json")
    assert [done.exit_code for done in (table, lines)] == [0, 0]
    assert "c1" in table.stdout
    facts = json.loads(lines.stdout)
    assert [cluster["records"] for cluster in facts["clusters"]] == [2, 2]
    assert [link["lag_records"] for link in facts["links"]] == [0, 0]


@pytest.mark.net
@pytest.mark.slow
def test_a_cluster_that_does_not_answer_has_exit_code_1(pair):
    with pair.running(1):
        table = invoke("status", str(pair.file), columns=40)  # no terminal: no reason to cut
        lines = invoke("status", str(pair.file), "--json")
    assert (table.exit_code, lines.exit_code) == (1, 1)
    assert pair.topology.clusters[1].stores[0].query in table.stdout
    json.loads(lines.stdout)


EVIL = "[red]x[/red]"


def test_clusters_and_links_with_their_lag(text):
    status = Status(
        [ClusterStatus("c1", 3, 12_345, ""), ClusterStatus("c2", 0, 0, f"{EVIL} is away")],
        [LinkStatus("c1", "c2", 3, 2, 1_234, 5.6), LinkStatus("c2", "c1", 3, error=EVIL)],
    )
    shown = text(status_view(status))
    for fact in ("12,345", "1,234", "5.6", f"{EVIL} is away", "ok"):
        assert fact in shown
    assert shown.count(EVIL) == 2


def test_stores_whose_slots_move_are_shown_beside_their_cluster(text):
    moving = ("tcp://a:1 joins slots 0-2047", "tcp://b:1 gives up slots 0-2047")
    shown = text(status_view(Status([ClusterStatus("c1", 3, 5, "", moving)], [])), 200)
    assert "; ".join(moving) in shown


def test_what_is_not_known_is_not_shown_as_a_number(text):
    status = Status(
        [ClusterStatus("c1", None, None, "away")],
        [LinkStatus("c1", "c2", 3, None, None, None, "away")],
    )
    shown = text(status_view(status))
    rows = [line for line in shown.splitlines() if "away" in line]
    assert [[cell.strip() for cell in row.split("│")[1:-1]] for row in rows] == [
        ["c1", "-", "-", "away"],
        ["c1", "c2", "3", "-", "-", "-", "away"],
    ]
    assert re.search(r"c1 +│ +- │", text(verdict_view(Verdict({"c1": None}, unreachable=["c1"]))))
    assert "more" not in text(late_view(status.links))


def test_on_a_narrow_terminal_no_name_is_cut(text):
    name, query = "production-cluster-of-the-west", "tcp://127.0.0.1:18102"
    status = Status(
        [ClusterStatus(name, 3, 12_345, f"no answer from {query}")],
        [LinkStatus(name, name, 3, 2, 1_234, 5.6)],
        [RecoveryPoint(name, name, 0.0)],
    )
    shown = text(status_view(status), 60)
    assert "…" not in shown
    first = [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")]
    assert "".join(first).count(name) == 3


def test_partitions_that_are_not_copied_are_listed(text):
    stopped = tuple(StoppedPartition(EVIL, "AB" * 16, "overtaken", n, n + 10) for n in range(25))
    links = [
        LinkStatus("c1", "c2", 3, overtaken=30, stopped=stopped),
        LinkStatus("c2", "c1", 3, state="draining"),
        LinkStatus("c3", "c1", 3, state="serving", shortened=4),
    ]
    shown = text(status_view(Status([], links)))
    for fact in ("does not copy 30 partitions", "draining", "ok; 4 partitions without the begin"):
        assert fact in shown
    assert shown.count(EVIL) == STOPPED_SHOWN_MAX
    assert "and 10 more" in shown


def test_partitions_that_lag_are_listed_the_latest_first(text):
    late = tuple(LatePartition(EVIL, "AB" * 16, 1_000 + n, 60.0 - n) for n in range(60))
    links = [LinkStatus("c1", "c2", 3, partitions=2_000, late=late), LinkStatus("c2", "c1", 3)]
    shown = text(late_view(links))
    assert shown.count(EVIL) == LATE_SHOWN_MAX
    assert re.search(r"1,000 │ +60.0", shown)
    assert "and 1,950 more" in shown


def test_recovery_points_are_a_row_for_each_origin(text):
    names = (EVIL, "c2")
    points = [RecoveryPoint(one, other, 0.4) for one in names for other in names]
    points[1] = RecoveryPoint(EVIL, "c2", None)
    shown = text(status_view(Status([], [], points)))
    assert re.search(rf"{re.escape(EVIL)}[ │]+0.4[ │]+never", shown)
    assert "recovery points" not in text(status_view(Status([], [])))


def test_what_no_replica_does_is_shown(text):
    line = "c1 level 1: no replica brings positions of groups"
    assert line in text(status_view(Status([], [], idle=[line])))


def test_what_a_cluster_that_does_not_answer_has_heard_is_not_known(text):
    points = [RecoveryPoint(one, other, None) for one in ("c1", "c2") for other in ("c1", "c2")]
    clusters = [ClusterStatus("c1", 1, 2, ""), ClusterStatus("c2", None, None, "away")]
    shown = text(status_view(Status(clusters, [], points)))
    assert re.search(r"c1 +│ never │ +- │\n│ c2 +│ never │ +- │", shown)


@pytest.mark.net
@pytest.mark.usefixtures("roomy_disk")
def test_all_well_is_exit_code_0(run, pair):
    with pair.running():
        code, out, _ = run("doctor", pair.file)
        assert (code, out) == (0, "all well: 2 clusters, 2 links\n")
        code, out, _ = run("doctor", pair.file, "--json")
    assert (code, rows_of(out)) == (0, [{"well": True, "findings": []}])


@pytest.mark.net
def test_what_is_wrong_is_exit_code_1(run, pair):
    with pair.running(1):
        code, out, _ = run("doctor", pair.file)
        assert code == 1
        assert out.startswith("1. c2\n   its store does not answer")
        assert "   → start the store" in out
        code, out, _ = run("doctor", pair.file, "--json")
    assert code == 1
    found = json.loads(out)
    assert not found["well"]
    assert found["findings"][0]["about"] == "c2"
    assert set(found["findings"][0]) == {"about", "what", "do"}


FOUR = str(Path(__file__).parents[3] / "config" / "four-clusters.yaml")


@pytest.fixture
def trace(monkeypatch, capsys):
    """A function that runs `distributor trace` and returns exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "200")

    def trace(*words):
        monkeypatch.setattr(sys, "argv", ["distributor", "trace", FOUR, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return trace


def hops(out):
    return {
        (row["source"], row["target"]): (row["level"], row["flags_before"], row["flags_after"])
        for row in json.loads(out)["hops"]
    }


def test_a_record_of_the_first_cluster_reaches_all_with_these_flags(trace):
    code, out, _ = trace("--from", "cluster-1", "--json")
    assert code == 0
    assert hops(out) == {
        ("cluster-1", "cluster-3"): (3, 0b0000, 0b0100),
        ("cluster-1", "cluster-2"): (1, 0b0000, 0b0001),
        ("cluster-3", "cluster-4"): (1, 0b0100, 0b0101),
    }


def test_the_table_shows_the_same_flags(trace):
    code, out, _ = trace("--from", "cluster-1")
    assert code == 0
    for flags in ("0000", "0100", "0001", "0101"):
        assert flags in out
    assert "does not reach" not in out


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_every_cluster_reaches_every_other(trace, number):
    _, out, _ = trace("--from", f"cluster-{number}", "--json")
    found = {target for _, target in hops(out)}
    assert found == {f"cluster-{n}" for n in range(1, 5)} - {f"cluster-{number}"}


def test_flags_it_has_already_keep_it_from_crossing_those_levels(trace):
    _, out, _ = trace("--from", "cluster-3", "--flags", "0100", "--json")
    assert hops(out) == {("cluster-3", "cluster-4"): (1, 0b0100, 0b0101)}
    _, out, _ = trace("--from", "cluster-3", "--flags", "0100")
    assert "does not reach cluster-1, cluster-2" in out


def test_a_record_that_crossed_everything_goes_nowhere(trace):
    code, out, _ = trace("--from", "cluster-1", "--flags", "0101", "--json")
    assert (code, rows_of(out)) == (0, [{"hops": []}])


def test_an_unknown_cluster_is_refused(trace):
    code, _, error = trace("--from", "cluster-9")
    assert code == 2
    assert "no cluster 'cluster-9'" in error
    assert "cluster-1, cluster-2, cluster-3, cluster-4" in error


@pytest.mark.parametrize("flags", ["2", "", "x", "-1", "0b1", "1_0", "+1", " 1", "1" * 65])
def test_flags_that_are_not_binary_are_refused(trace, flags):
    code, _, error = trace("--from", "cluster-1", f"--flags={flags}")
    assert code == 2
    assert f"{flags!r}" in error
    assert len(error.splitlines()) == 1


def test_64_flags_are_as_many_as_there_are(trace):
    assert trace("--from", "cluster-1", "--flags", "1" * 64)[0] == 0


@pytest.mark.net
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_the_page_until_a_signal_ends_it(four, number):
    words = [sys.executable, "-m", "distributor", "dashboard", str(four), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        url = re.search(r"http://\S+/", running.stderr.readline())[0]
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert b"<h1" in answer.read()
        running.send_signal(number)
        _, error = running.communicate(timeout=120)
    assert (running.returncode, error) == (0, "")


@pytest.mark.net
@pytest.mark.slow
def test_where_nothing_can_be_served_is_refused(run, four):
    code, out, error = run("dashboard", four, "--listen", "here")
    assert (code, out) == (2, "")
    assert error == "distributor: cannot serve the page at 'here': expected HOST:PORT\n"
