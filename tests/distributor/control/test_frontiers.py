"""How far something has come."""

from __future__ import annotations

from hypothesis import given

from distributor.control.frontiers import beyond, joined, reaches
from tests.support.control_commands import A, B, frontiers


def test_what_is_not_named_is_at_its_beginning():
    assert reaches({}, {A: 0})
    assert not reaches({B: 5}, {A: 1})
    assert beyond({A: 0}, {}) == {}


@given(frontiers, frontiers)
def test_a_join_is_the_least_that_reaches_both(one, other):
    both = joined(one, other)
    assert reaches(both, one)
    assert reaches(both, other)
    assert all(end in (one.get(which), other.get(which)) for which, end in both.items())
    assert both == joined(other, one)


@given(frontiers, frontiers)
def test_what_is_beyond_is_all_that_is_missing(one, other):
    assert joined(other, beyond(one, other)) == joined(one, other)
    assert reaches(other, one) == (not beyond(one, other))
