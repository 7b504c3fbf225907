import pytest

from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from distributor.testing.positions import LogWorld
from topology.model import OffsetSettings
from topology.testing import topology_of, tree_of

KEY = CommitKey("billing", Partition("orders", "PRODUCER"))


def test_a_world_of_logs_comes_to_rest():
    world = LogWorld(topology_of(tree_of((1, "a", "b"))), OffsetSettings(translation="exact"))
    world.clusters["a"].commit(KEY, Commit(5, 1, 1))
    world.settle()
    assert world.links[0].brought == 1
    assert world.clusters["b"].holds(KEY).position == 5


def test_a_world_that_does_not_come_to_rest_is_told():
    world = LogWorld(topology_of(tree_of((1, "a", "b"))), OffsetSettings(translation="exact"))
    world.clusters["a"].commit(KEY, Commit(5, 1, 1))
    with pytest.raises(AssertionError, match="do not come to rest"):
        world.settle(rounds_max=1)
