"""Its short form: one cluster of Spark, broken a few times. The long one is `make spark-faults`."""

from __future__ import annotations

import os
import random

import pytest

from dafka.errors import MisuseError
from dafka.spark.session import ensure_java
from distributor.testing.spark_driver import ORDERED, READ, SHUFFLED
from distributor.testing.spark_faults import (
    GIVEN_UP_S,
    STORES,
    SparkFaultKind,
    drawn,
    free_block,
    grown,
    proved,
    run,
)
from distributor.testing.standalone import WORKERS
from topology import load


def test_a_seed_draws_the_same_again_and_each_kind_once_a_round():
    rounds = [drawn(random.Random(seed)) for seed in range(300)]
    assert rounds == [drawn(random.Random(seed)) for seed in range(300)]
    assert {fault.kind for faults in rounds for fault in faults} == {*SparkFaultKind}
    for faults in rounds:
        assert len({fault.kind for fault in faults}) == len(faults)
        for fault in faults:
            if fault.kind is SparkFaultKind.FROZEN:
                assert fault.seconds > GIVEN_UP_S, "it is given up before it goes on"
            assert fault.place <= max(WORKERS, *STORES.values())


def test_what_grows_can_be_run(tmp_path):
    file = tmp_path / "file.yaml"
    file.write_text(repr(grown(tmp_path, 20_000)))
    assert {one.name: len(one.stores) for one in load(file).clusters} == STORES


@pytest.mark.parametrize(
    ("logs", "found"),
    [
        ([[0, 2, 4], [1, 3]], (0, 0, 0)),
        ([[0, 2, 4], [1]], (1, 0, 0)),
        ([[0, 2, 4], [1, 3, 3]], (0, 1, 1)),
        ([[2, 0, 4], [1, 3]], (0, 0, 1)),
        ([[0, 2, 4, 4], [1, 3]], (0, 1, 1)),
        ([[0, 2, 4], [1, 3, 7]], (0, 1, 0)),
    ],
)
def test_what_is_lost_twice_or_out_of_order_is_counted(logs, found):
    keyed = [[(b"%d" % (number % 2), number) for number in log] for log in logs]
    for topic in (READ, ORDERED, SHUFFLED):
        proof = proved(topic, "c1", keyed, 5)
        disordered = found[2] * (topic != SHUFFLED)
        assert (proof.lost, proof.twice, proof.disordered) == (*found[:2], disordered)


@pytest.mark.net
@pytest.mark.slow
def test_sinks_and_a_link_are_exact_after_faults(tmp_path):
    try:
        ensure_java()
    except MisuseError as error:
        pytest.skip(str(error))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    rounds, proofs, problems = run(3, 2, tmp_path, free_block(25_000 + 100 * worker))
    assert problems == []
    assert len(rounds) == 2
    assert len(proofs) == 6
    assert all(proof.flawless and proof.records for proof in proofs)
