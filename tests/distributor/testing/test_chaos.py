"""Its short form: one tree of real processes, broken a few times. The long one is `make chaos`."""

from __future__ import annotations

import os
import random

import pytest

from distributor.testing.chaos import FaultKind, drawn, free_block, grown, run
from topology import load

STORES = ("c1-store-1", "c1-store-2")
OTHERS = (*STORES, "c1-tower-1", "c1-level-1", "c2-store-1")


def test_a_seed_draws_the_same_again_and_each_process_once():
    rounds = [drawn(random.Random(seed), STORES, OTHERS) for seed in range(300)]
    assert rounds == [drawn(random.Random(seed), STORES, OTHERS) for seed in range(300)]
    assert {fault.kind for faults in rounds for fault in faults} == {*FaultKind}
    for faults in rounds:
        assert len({fault.process for fault in faults}) == len(faults)
        gone = [fault.process for fault in faults if fault.kind is FaultKind.EMPTY]
        assert len(gone) <= 1, "an only copy is not to be lost"
        assert {*gone} <= {*STORES}
        full = {fault.process for fault in faults if fault.kind is FaultKind.FULL}
        assert all("-store-" in process for process in full)


@pytest.mark.parametrize("seed", range(20))
def test_what_grows_can_be_run(seed, tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text(repr(grown(random.Random(seed), tmp_path, 20_000)))
    assert 2 <= len(load(file).clusters) <= 4


@pytest.mark.net
@pytest.mark.slow
def test_a_tree_of_processes_heals_and_loses_nothing(tmp_path):
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    rounds, problems = run(3, 3, tmp_path, free_block(29_000 + 500 * worker))
    assert problems == []
    assert len(rounds) == 3
