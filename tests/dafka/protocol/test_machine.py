from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dafka.protocol.machine import earliest


@given(st.lists(st.none() | st.integers()))
def test_the_least_that_is_set_counts(dues):
    assert earliest(*dues) == min((due for due in dues if due is not None), default=None)
