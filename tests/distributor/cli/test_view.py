from __future__ import annotations

import re
from types import SimpleNamespace

from rich.console import Console

from distributor.cli.view import (
    DIFFERENCES_SHOWN_MAX,
    LATE_SHOWN_MAX,
    STOPPED_SHOWN_MAX,
    late_view,
    status_view,
    up_view,
    verdict_view,
)
from distributor.local.processes import Process, ProcessKind
from distributor.local.supervisor import Child
from distributor.operations.recovery import RecoveryPoint
from distributor.operations.status import (
    ClusterStatus,
    LatePartition,
    LinkStatus,
    Status,
    StoppedPartition,
)
from distributor.verify.verdict import Difference, Verdict
from distributor.verify.verdict import DifferenceKind as Differing

EVIL = "[red]x[/red]"


def text(renderable, width=200):
    console = Console(width=width, record=True, force_terminal=False, file=open_nothing())
    console.print(renderable)
    return console.export_text()


def open_nothing():
    return SimpleNamespace(write=lambda _: None, flush=lambda: None)


def test_clusters_and_links_with_their_lag():
    status = Status(
        [ClusterStatus("c1", 3, 12_345, ""), ClusterStatus("c2", 0, 0, f"{EVIL} is away")],
        [LinkStatus("c1", "c2", 3, 2, 1_234, 5.6), LinkStatus("c2", "c1", 3, error=EVIL)],
    )
    shown = text(status_view(status))
    for fact in ("12,345", "1,234", "5.6", f"{EVIL} is away", "ok"):
        assert fact in shown
    assert shown.count(EVIL) == 2


def test_what_is_not_known_is_not_shown_as_a_number():
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


def test_on_a_narrow_terminal_no_name_is_cut():
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


def test_partitions_that_are_not_copied_are_listed():
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


def test_partitions_that_lag_are_listed_the_latest_first():
    late = tuple(LatePartition(EVIL, "AB" * 16, 1_000 + n, 60.0 - n) for n in range(60))
    links = [LinkStatus("c1", "c2", 3, partitions=2_000, late=late), LinkStatus("c2", "c1", 3)]
    shown = text(late_view(links))
    assert shown.count(EVIL) == LATE_SHOWN_MAX
    assert re.search(r"1,000 │ +60.0", shown)
    assert "and 1,950 more" in shown


def test_recovery_points_are_a_row_for_each_origin():
    names = (EVIL, "c2")
    points = [RecoveryPoint(one, other, 0.4) for one in names for other in names]
    points[1] = RecoveryPoint(EVIL, "c2", None)
    shown = text(status_view(Status([], [], points)))
    assert re.search(rf"{re.escape(EVIL)}[ │]+0.4[ │]+never", shown)
    assert "recovery points" not in text(status_view(Status([], [])))


def test_what_a_cluster_that_does_not_answer_has_heard_is_not_known():
    points = [RecoveryPoint(one, other, None) for one in ("c1", "c2") for other in ("c1", "c2")]
    clusters = [ClusterStatus("c1", 1, 2, ""), ClusterStatus("c2", None, None, "away")]
    shown = text(status_view(Status(clusters, [], points)))
    assert re.search(r"c1 +│ never │ +- │\n│ c2 +│ never │ +- │", shown)


def test_equal_clusters_are_said_to_be():
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


def test_differences_are_printed_as_they_are_and_not_too_many():
    differences = [differing(number) for number in range(DIFFERENCES_SHOWN_MAX + 5)]
    shown = text(verdict_view(Verdict({}, differences=differences, more=2), [f"{EVIL} is left"]))
    assert shown.count(EVIL) == DIFFERENCES_SHOWN_MAX + 1
    assert "and 7 more: see --json" in shown
    assert "equal" not in shown


def test_clusters_that_do_not_answer_come_before_differences():
    verdict = Verdict({}, differences=[differing(1)], unreachable=["away"])
    shown = text(verdict_view(verdict))
    assert shown.index("away") < shown.index("has other records")


def test_processes_with_their_state_and_restarts():
    one = Process(
        name="one", kind=ProcessKind.TOWER, cluster="c", command=(), metrics="127.0.0.1:1"
    )
    two = Process(name=EVIL, kind=ProcessKind.STORE, cluster="c", command=(), metrics=None)
    children = [
        Child(one, running=SimpleNamespace(pid=4_711)),
        Child(two, restarts=2, last_exit="signal 9"),
    ]
    shown = text(up_view(children, None))
    for fact in ("4711", "up", "127.0.0.1:1", EVIL, "2 (signal 9)", "restarts in 0.0 s", "Ctrl-C"):
        assert fact in shown
    assert "clusters" not in shown
    status = Status([ClusterStatus("c1", 0, 0, "")], [])
    assert "clusters" in text(up_view(children, status))
