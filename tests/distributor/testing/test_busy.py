"""Its short form: a tree of two clusters, seconds. The long one is `make busy`."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dafka.process.logs import KeyValueFormatter
from distributor.demo.job import ReadProof
from distributor.testing.busy import (
    LOAD_PER_CORE,
    RATE,
    SHIPPED,
    BusyRun,
    BusyTree,
    arguments,
    cores,
    failovers_in,
    loops,
)
from topology import load

WELL = BusyRun((10.0, 12.0), (), (), 800, 40.0, (ReadProof("c1", 800), ReadProof("c2", 800)))


def test_an_hour_of_the_shipped_tree_at_what_is_wanted_for_each_core():
    given = arguments([])
    assert (given.minutes, given.loops, given.rate) == (60, LOAD_PER_CORE * cores(), RATE)
    assert len(load(given.file).clusters) == 4
    assert given.file == SHIPPED


def test_what_is_said_holds():
    given = arguments(["--minutes", "0.5", "--loops", "0", "--rate", "20", "--file", "x.yaml"])
    assert vars(given) == {"minutes": 0.5, "loops": 0, "rate": 20, "file": Path("x.yaml")}


@pytest.mark.parametrize(
    "words",
    [
        ("--minutes", "0"),
        ("--minutes", "-1"),
        ("--minutes", "nan"),
        ("--minutes", "long"),
        ("--loops", "-1"),
        ("--loops", "1.5"),
        ("--rate", "19"),
    ],
)
def test_what_cannot_be_done_is_refused(words, capsys):
    with pytest.raises(SystemExit) as refused:
        arguments(words)
    assert refused.value.code == 2
    assert words[0] in capsys.readouterr().err


def line(message, **facts):
    record = logging.makeLogRecord({"msg": message, "levelname": "WARNING", "name": "d"} | facts)
    return KeyValueFormatter().format(record)


def test_links_that_left_their_targets_are_found_and_those_that_were_told_to_are_not(tmp_path):
    file, other = tmp_path / "c1-level-3.log", tmp_path / "c2-level-1.log"
    left = line("link is retargeted", source="c1", level=3, target="c3", planned=False)
    told = line("link is retargeted", source="c1", level=3, target="c4", planned=True)
    file.write_text("\n".join([line("link goes on", stall_ms=7), left, told]))
    other.write_text("")
    assert failovers_in([file, other]) == (f"c1-level-3: {left}",)


def test_what_must_not_be_is_said():
    assert WELL.problems == []
    lacking = ReadProof("c2", 790, lost=10)
    broken = replace(
        WELL, failovers=("c1-level-3: left",), restarts=("c1-store-1",), proofs=(lacking,)
    )
    assert broken.problems == [
        "a link left its target: c1-level-3: left",
        "started again: c1-store-1",
        "c2: 10 lost, 0 twice, 0 out of order",
    ]
    assert replace(WELL, published=0).problems == ["nothing was published"]
    assert "11.0 on average, 10.0 to 12.0 in 2 looks; 0 failovers" in str(WELL)
    assert "800 records published, 40.0 a second on each cluster" in str(WELL)


def test_loops_compute_and_end(until):
    def children():
        return Path("/proc/thread-self/children").read_text().split()

    before = children()
    with loops(2):
        (first, second) = [one for one in children() if one not in before]
        for one in (first, second):
            assert os.getsid(int(one)) == int(one), "not all of them as one process's share"
            until(lambda one=one: int(Path(f"/proc/{one}/stat").read_text().split()[13]) > 5)
    assert children() == before


@pytest.mark.net
@pytest.mark.slow
def test_a_tree_beside_a_loop_stays_as_it_is(pair):
    came = BusyTree(pair.file, RATE).run(3.0, 1)
    assert came.problems == []
    assert [proof.cluster for proof in came.proofs] == ["c1", "c2"]
    assert 0 < came.rate <= RATE
    assert all(proof.found == came.published > 0 for proof in came.proofs)
