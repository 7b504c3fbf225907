from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.records.envelope import Envelope

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


def test_a_report_that_cannot_be_written_is_refused_before_the_job(run, pair, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = run("audit", pair.file, "--report", tmp_path / "file" / "r")
    assert code == 2
    assert "cannot write to" in err
    assert "say another --report" in err


def test_natively_it_is_another_command(run, pair):
    code, _, err = run("audit", pair.file, "--engine", "native")
    assert code == 2
    assert "distributor verify" in err
