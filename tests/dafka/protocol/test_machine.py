from __future__ import annotations

from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.protocol.machine import Lifecycle, earliest


class Light(Enum):
    RED = "red"
    GREEN = "green"
    AMBER = "amber"


LIGHTS = {Light.RED: {Light.GREEN}, Light.GREEN: {Light.AMBER}, Light.AMBER: {Light.RED}}


@given(st.lists(st.sampled_from(Light)))
def test_a_lifecycle_changes_as_its_table_says_and_not_otherwise(wanted):
    lifecycle, state = Lifecycle(LIGHTS), Light.RED
    for following in wanted:
        if following is state or following in LIGHTS[state]:
            lifecycle.become(following)
            state = following
        else:
            with pytest.raises(AssertionError, match=f"{state} does not become {following}"):
                lifecycle.become(following)
        assert lifecycle.state is state


@given(st.lists(st.none() | st.integers()))
def test_the_least_that_is_set_counts(dues):
    assert earliest(*dues) == min((due for due in dues if due is not None), default=None)
