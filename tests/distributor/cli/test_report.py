"""The demo's report shows flaws as plainly as success."""

from __future__ import annotations

from rich.console import Console

from dafka.model import Record
from distributor.cli import report as module
from distributor.cli.report import report
from distributor.demo.job import Proof, Published
from distributor.verify import Verdict
from topology import load, plan


def test_lost_and_duplicated_rows_and_the_flags_of_a_record_are_shown(four, monkeypatch):
    the_plan = plan(load(four))
    names = [cluster.name for cluster in the_plan.topology.clusters]
    flags = dict(zip(names, (0b0000, 0b0001, 0b0100, 0b0101), strict=True))
    copies = {
        name: Record("flights", "AB" * 16, 0, 0, b"k", b"v", (), flags[name], 1) for name in names
    }
    monkeypatch.setattr(module, "one_record_everywhere", lambda topology, published: copies)
    published = Published(rows=1_000, size=10_000_000, seconds=2.0)
    proofs = [Proof(name, found=998, lost=7, duplicated=5, disordered=3) for name in names]
    console = Console(width=120)
    with console.capture() as captured:
        report(the_plan, [], published, proofs, Verdict(dict.fromkeys(names, 998)), 9.5, console)
    text = captured.get()
    for part in ("998", "7", "5", "3", "0000", "0001", "0100", "0101", "500/s", "5.0 MB/s"):
        assert part in text
    assert "cluster-3, level 1" in text
    assert "9.5 s after the start" in text
