"""Groups consume at one cluster, it is lost at a random moment, they go on at another: by seeds.

Time runs in steps of 10 ms. In every step each partition gets a record, which reaches the other
clusters with a lag of its own; groups process some, and commit now and then; links bring what they
see at intervals of their own.
"""

import random

import pytest

from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from distributor.testing.positions import LogWorld
from topology.model import OffsetSettings
from topology.testing import topology_of, tree_of

STEP_MS = 10
COMMIT_MS = 200
ROUND_MS = 50
HOPS_MAX = 2
LAG_MS_MAX = 300
GROUPS = ("billing", "audit", "search")
PLACES = [Partition("orders", f"PRODUCER-{number}") for number in range(3)]


class Journey:
    """One run: what groups have processed at c1, and where they stand at c4 after its loss."""

    def __init__(self, seed, offsets):
        self.chance = random.Random(seed)
        topology = topology_of(tree_of((3, (1, "c1", "c2"), (1, "c3", "c4"))))
        self.world = LogWorld(topology, offsets)
        self.lags = {
            (place, name): 0 if name == "c1" else self.chance.randint(0, LAG_MS_MAX)
            for place in PLACES
            for name in self.world.clusters
        }
        self.processed = {(group, place): 0 for group in GROUPS for place in PLACES}
        self.phases = {id(link): self.chance.randrange(ROUND_MS) for link in self.world.links}
        self.now_ms = 0

    def step(self):
        self.now_ms += STEP_MS
        for (place, name), lag_ms in self.lags.items():
            if self.now_ms > lag_ms:
                cluster = self.world.clusters[name]
                cluster.publish(place, [(self.now_ms - lag_ms, None, b"")])
        for group in GROUPS:
            self.consume(group)
        for link in self.world.links:
            if (self.now_ms + self.phases[id(link)]) % ROUND_MS < STEP_MS:
                link.round(self.now_ms)

    def consume(self, group):
        for place in PLACES:
            end = self.world.clusters["c1"].log.heads().get(place, -1) + 1
            done = self.processed[group, place]
            self.processed[group, place] = min(end, done + self.chance.choice((0, 1, 1, 3)))
            if self.now_ms % COMMIT_MS == 0:
                commit = Commit(self.processed[group, place], epoch=1, commit_ms=self.now_ms)
                self.world.clusters["c1"].commit(CommitKey(group, place), commit)

    def read_again(self):
        """By group and partition, how many records c4 gives to it that it has processed."""
        fourth = self.world.clusters["c4"]
        again = {}
        for (group, place), done in self.processed.items():
            held = fourth.holds(CommitKey(group, place))
            again[group, place] = done - (0 if held is None else held.position)
        return again


def run(seed, offsets):
    journey = Journey(seed, offsets)
    for _ in range(journey.chance.randint(80, 160)):
        journey.step()
    return journey.read_again()


def bound(margin_ms):
    """Records processed since the last commit that can have reached c4, and the margin's.

    A step processes 3 records of a partition at most, one of them for each 10 ms of its time.
    """
    since_ms = COMMIT_MS + HOPS_MAX * ROUND_MS + 2 * STEP_MS
    return 3 * since_ms // STEP_MS + (margin_ms + LAG_MS_MAX) // STEP_MS


@pytest.mark.parametrize("seed", range(6))
def test_no_record_is_unseen_and_few_are_seen_twice_by_timestamp(seed):
    again = run(seed, OffsetSettings(translation="timestamp", margin_ms=250))
    assert min(again.values()) >= 0  # below 0, records would be passed over
    assert max(again.values()) <= bound(250)


@pytest.mark.parametrize("seed", range(6))
def test_no_record_is_unseen_and_few_are_seen_twice_exactly(seed):
    again = run(seed, OffsetSettings(translation="exact"))
    assert min(again.values()) >= 0
    assert max(again.values()) <= bound(-LAG_MS_MAX)
