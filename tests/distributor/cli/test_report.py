from __future__ import annotations

from types import SimpleNamespace

import pytest
from rich.console import Console

from dafka.model import Partition
from dafka.records.envelope import Envelope
from distributor.cli.report import report
from distributor.demo.job import Published, ReadProof
from distributor.verify.verdict import Difference, DifferenceKind, Verdict
from topology import plan

pytestmark = pytest.mark.net

EVIL = Partition("[red]x[/red]", "AB" * 16)


def test_the_report_shows_proof_flags_and_rates_with_names_as_they_are(pair, make_batch):
    pair.fill(1, make_batch([b"1"], partition=EVIL))
    pair.fill(2, make_batch([b"1"], partition=EVIL, envelope=Envelope(1, 1)))
    console = Console(
        width=200, record=True, file=SimpleNamespace(write=lambda _: None, flush=lambda: None)
    )
    published = Published(rows=1_000, size=2_000_000, homes={EVIL: "c1"}, seconds=0.5)
    proofs = [ReadProof("c1", found=1_000), ReadProof("c2", found=990, lost=10)]
    with pair.running():
        lacking = Difference(DifferenceKind.BEHIND, "rows", "A", "c2", 990, 999, ("c1",))
        verdict = Verdict({"c1": 1_000, "c2": 990}, differences=[lacking])
        report(plan(pair.topology), [], published, proofs, verdict, 2.5, console)
    shown = console.export_text()
    assert "every one of 1,000 rows" in shown
    assert "c2 lacks 990 to 999" in shown
    assert "[red]x[/red]/ABABABAB/0" in shown
    assert "0001" in shown
    assert "c1, level 1" in shown
    assert "published here" in shown
    assert "(2,000/s, 4.0 MB/s)" in shown
    assert "all 2,000 copies in place 2.5 s after the start" in shown
