from __future__ import annotations

import json

import pytest

from dafka.model import Partition
from distributor.verify.bisection import Mismatch
from distributor.verify.verdict import (
    DIFFERENCES_MAX,
    Difference,
    DifferenceKind,
    Verdict,
    differences,
)
from topology.output import print_json

PLACE = Partition("orders", "AB" * 16)


def one(kind, **fields):
    return Difference(kind, *PLACE, "c2", **{"first": 5, "last": 9, "others": ("c1",)} | fields)


@pytest.mark.parametrize(
    ("difference", "sentence"),
    [
        (one(DifferenceKind.BEHIND), "c2 lacks 5 to 9, there on c1"),
        (
            one(DifferenceKind.BEHIND, moving=True),
            "c2 lacks 5 to 9, there on c1, and is catching up",
        ),
        (one(DifferenceKind.GONE), "c2 lacks 5 to 9, which nobody keeps any more"),
        (
            one(DifferenceKind.DIFFERS, first=1_234, last=1_234),
            "c2 has other records than c1: 1,234",
        ),
        (
            one(DifferenceKind.UNREADABLE, detail="batch checksum"),
            "c2 cannot read 5 to 9: batch checksum",
        ),
    ],
    ids=str,
)
def test_a_difference_is_a_sentence(difference, sentence):
    assert str(difference) == f"'orders'/ABABABAB: {sentence}"


def test_whoever_is_not_with_the_largest_group_differs():
    finding = Mismatch(2, 4, (("c1", "c3"), ("c2",), ("c5",)), (("c4", "damaged"),), ())
    assert differences(PLACE, finding) == [
        Difference(DifferenceKind.DIFFERS, *PLACE, "c2", 2, 3, ("c1", "c3")),
        Difference(DifferenceKind.DIFFERS, *PLACE, "c5", 2, 3, ("c1", "c3")),
        Difference(DifferenceKind.UNREADABLE, *PLACE, "c4", 2, 3, ("c1", "c3"), "damaged"),
    ]
    lost = Mismatch(2, 4, (), (), ("c2",))
    assert differences(PLACE, lost) == [Difference(DifferenceKind.BEHIND, *PLACE, "c2", 2, 3)]


@pytest.mark.parametrize(
    ("kinds", "unreachable", "code"),
    [
        ([], [], 0),
        ([DifferenceKind.BEHIND], [], 1),
        ([DifferenceKind.BEHIND], ["c3: away"], 4),
        ([], ["c3: away"], 4),
        *(
            ([DifferenceKind.BEHIND, kind], ["c3: away"], 3)
            for kind in DifferenceKind
            if kind is not DifferenceKind.BEHIND
        ),
    ],
)
def test_the_gravest_problem_is_the_exit_code(kinds, unreachable, code):
    verdict = Verdict({"c1": 1}, differences=[one(kind) for kind in kinds], unreachable=unreachable)
    assert verdict.exit_code == code
    assert verdict.equal == (code == 0)
    assert len(verdict.problems) == len(kinds) + len(unreachable)


def test_as_json(capsys):
    verdict = Verdict({"c1": 1}, differences=[one(DifferenceKind.BEHIND)])
    print_json(verdict)
    told = json.loads(capsys.readouterr().out)
    assert told["clusters"] == {"c1": 1}
    (difference,) = told["differences"]
    assert difference == {
        "kind": "behind",
        "topic": "orders",
        "address": "AB" * 16,
        "cluster": "c2",
        "first": 5,
        "last": 9,
        "records": 5,
        "others": ["c1"],
        "detail": "",
        "moving": False,
        "within": "",
    }


def test_no_more_differences_are_kept_than_there_is_room_for():
    verdict = Verdict({})
    verdict.add([one(DifferenceKind.BEHIND)] * (DIFFERENCES_MAX + 3))
    assert (len(verdict.differences), verdict.more) == (DIFFERENCES_MAX, 3)
