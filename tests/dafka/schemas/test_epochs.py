from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dafka.schemas.epochs import CLUSTERS_MAX, EPOCH_MAX, id_range, next_epoch
from topology.naming import REGISTRIES_ID_MAX

NUMBERS = st.integers(1, CLUSTERS_MAX)
KNOWN = st.integers(0, EPOCH_MAX - CLUSTERS_MAX)


@given(KNOWN, KNOWN, NUMBERS, NUMBERS)
def test_two_clusters_never_open_the_same_epoch_whatever_they_know(here, there, one, other):
    ours, theirs = next_epoch(here, one), next_epoch(there, other)
    assert ours > here
    assert (ours == theirs) <= (one == other)
    if ours != theirs:
        assert not set(id_range(ours)) & set(id_range(theirs))


@given(KNOWN, NUMBERS)
def test_no_epoch_of_a_cluster_is_left_out(known, number):
    assert next_epoch(known, number) <= known + CLUSTERS_MAX


def test_the_first_epoch_of_the_first_cluster_begins_with_id_1():
    assert next_epoch(0, 1) == 1
    assert id_range(1)[0] == 1
    assert next_epoch(1, 1) == CLUSTERS_MAX + 1


def test_ids_fit_31_bits():
    assert id_range(EPOCH_MAX)[-1] < 2**31


def test_the_topology_lets_no_cluster_have_a_registry_that_has_no_epochs():
    assert REGISTRIES_ID_MAX == CLUSTERS_MAX
