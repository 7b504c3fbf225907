import pytest

from dafka.errors import QueryError
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from distributor.offsets.events import Brought, PassedOver, Unanswered
from distributor.offsets.rounds import turn
from distributor.offsets.translation import SkipReason
from distributor.testing.positions import LogEnds, LogWorld
from topology.model import OffsetSettings
from topology.testing import topology_of, tree_of

KEY = CommitKey("billing", Partition("orders", "PRODUCER"))


class Broken(LogEnds):
    """A target that takes no commits."""

    def write(self, commits):
        raise QueryError("no answer")


@pytest.fixture
def link():
    world = LogWorld(topology_of(tree_of((1, "a", "b"))), OffsetSettings(margin_ms=0))
    world.publish(KEY.partition, [(100, None, b""), (200, None, b"")])
    return world.links[0]


def ends_of(link, kind=LogEnds):
    return kind(link.link, link.source, link.target)


def test_one_turn_asks_everything_that_is_needed_and_writes(link):
    link.source.commit(KEY, Commit(2, 1, 1))
    assert list(turn(link.machine, link.follower, ends_of(link), 0)) == [Brought(1)]
    assert link.target.holds(KEY).position == 1


def test_what_is_passed_over_is_told(link):
    link.source.commit(KEY, Commit(2, 1, 1))
    link.target.live.add("billing")
    assert list(turn(link.machine, link.follower, ends_of(link), 0)) == [
        PassedOver(SkipReason.LIVE, 1)
    ]


def test_a_turn_that_fails_half_way_is_made_up_for_by_the_next(link):
    link.source.commit(KEY, Commit(2, 1, 1))
    with pytest.raises(QueryError):
        list(turn(link.machine, link.follower, ends_of(link, Broken), 0))
    link.machine.handle(Unanswered())
    assert list(turn(link.machine, link.follower, ends_of(link), 0)) == [Brought(1)]
