from __future__ import annotations

import ast
import shutil
from functools import partial

import pytest

from distributor.testing.mutant_list import MUTANTS, Mutant
from distributor.testing.mutants import HANGS, PACKAGES, ROOT, mutated, verdict_of


def test_their_names_tell_them_apart():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 45


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_still_fits_the_product_and_is_python(mutant, tmp_path):
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    shutil.copy(ROOT / mutant.file, copy)
    mutated(mutant, tmp_path)
    assert copy.read_text() != (ROOT / mutant.file).read_text()
    ast.parse(copy.read_text())


def test_one_that_does_not_fit_is_named(tmp_path):
    for package in PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "dafka" / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(AssertionError, match=r"twice: dafka/a\.py has changed"):
        mutated(Mutant("twice", "dafka/a.py", "x = 1", "x = 2"), tmp_path)


@pytest.mark.slow
def test_a_fault_is_seen_and_none_is_not():
    verdict = partial(verdict_of, simulators={"agreement": "dafka.testing.membership"})
    (early,) = [mutant for mutant in MUTANTS if "before others have given back" in mutant.name]
    assert verdict(early, 20).seen["agreement"].startswith("seed ")
    (elsewhere,) = [mutant for mutant in MUTANTS if mutant.name == "a copy is not flagged"]
    assert verdict(elsewhere, 5).seen == {"agreement": None}
    twice = dict.fromkeys(("agreement", "again"), "dafka.testing.membership")
    assert [*verdict_of(early, 20, twice, first=True).seen] == ["agreement"]
    broken = Mutant("no module", "dafka/testing/membership.py", "def run(", "def walk(")
    assert verdict(broken, 1).seen == {"agreement": "ends"}
    nameless = Mutant(
        "no name", "dafka/groups/member.py", "        self._life += 1", "        nobody"
    )
    assert verdict(nameless, 3).seen == {"agreement": "ends"}, "that shows nothing"


@pytest.mark.slow
@pytest.mark.parametrize("still", ["while True: pass", "threading.Event().wait()"])
def test_one_that_hangs_is_ended_and_said_to(still):
    mutant = Mutant(
        "stands still",
        "dafka/testing/membership.py",
        "\ndef run(",
        f"\ndef run(seed):\n    import threading\n    {still}\n\n\ndef ran(",
    )
    simulators = {"agreement": "dafka.testing.membership"}
    assert verdict_of(mutant, 3, simulators, seed_s=0.2).seen == {"agreement": HANGS}
