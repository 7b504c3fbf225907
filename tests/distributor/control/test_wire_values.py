"""Flows and frontiers as Protobuf: read as they were written, and refused where they are none."""

from __future__ import annotations

import pytest
from hypothesis import given

from dafka.limits import ADDRESS_BYTES_MAX
from dafka.model import Partition
from distributor.control.wire_values import (
    NotUnderstoodError,
    flow_message,
    flow_of,
    frontier_message,
    frontier_of,
)
from tests.support.control_messages import ends, flows


@given(flows)
def test_flows_are_read_as_they_were_written(flow):
    assert flow_of(flow_message(flow)) == flow


@given(ends)
def test_frontiers_are_read_as_they_were_written(frontier):
    message = frontier_message(frontier)
    assert frontier_of(message) == frontier
    assert len(message.topics) == len({partition.topic for partition in frontier})


def test_names_are_bounded():
    longest = {Partition("orders", "A" * ADDRESS_BYTES_MAX): 1}
    assert frontier_of(frontier_message(longest)) == longest
    longer = {Partition("orders", "A" * (ADDRESS_BYTES_MAX + 1)): 1}
    with pytest.raises(NotUnderstoodError, match="256 octets"):
        frontier_of(frontier_message(longer))
