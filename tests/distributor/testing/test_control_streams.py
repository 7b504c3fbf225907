"""Streams break, and processes freeze."""

from __future__ import annotations

import pytest

from distributor.control.controller import ControllerState
from tests.support.control_commands import copied, pair


@pytest.mark.parametrize("noticed", [True, False])
def test_a_stream_that_is_cut_is_replaced(noticed):
    world, controller, replica = pair()
    replica.streams[0].cut(noticed=noticed)
    world.run_until(5_000)
    assert controller.machines["r1"].state is ControllerState.ACTIVE
    assert len(replica.streams) == 2
    assert sum(controller.ended.values()) == 1


def test_a_frozen_replica_goes_on_where_it_was():
    world, controller, replica = pair()
    replica.frozen = True
    assert not copied(world, controller, replica)
    assert controller.machines["r1"].state is not ControllerState.ACTIVE
    replica.thaw()
    assert copied(world, controller, replica)
    assert controller.machines["r1"].state is ControllerState.ACTIVE
