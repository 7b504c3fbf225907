"""The distributor over logs in memory: every row of the table of edge cases, and whole trees."""

import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dafka.errors import QueryError
from dafka.groups.commit import TOPIC, Commit, CommitKey
from dafka.model import Partition
from dafka.storage.memory import MemoryLog
from distributor.offsets.distributor import OffsetsDistributor, OffsetsRound
from distributor.offsets.translation import SkipReason, version
from distributor.testing.positions import LogCluster, LogWorld
from topology import plan
from topology.model import OffsetSettings
from topology.testing import random_topology, topology_of, tree_of

repeatable = settings(derandomize=True, deadline=None, max_examples=60)

PLACE = Partition("orders", "PRODUCER")
KEY = CommitKey("billing", PLACE)
EXACT = OffsetSettings(translation="exact")
NO_MARGIN = OffsetSettings(translation="timestamp", margin_ms=0)
PAIR = topology_of(tree_of((1, "a", "b")))


def pair(offsets=NO_MARGIN):
    """Two clusters, and the way from the first to the second."""
    return LogWorld(PAIR, offsets)


def every(times):
    return [(time, None, b"") for time in times]


def brought(world, position, commit_ms=1_000):
    """Commit at a; what comes of it at b."""
    world.clusters["a"].commit(KEY, Commit(position, epoch=1, commit_ms=commit_ms))
    world.settle()
    there = world.clusters["b"].holds(KEY)
    return None if there is None else there.position


def skipped(world):
    return world.links[0].skipped


def test_in_the_middle_of_the_log_the_time_of_the_last_processed_counts():
    world = pair(OffsetSettings(translation="timestamp", margin_ms=25))
    world.publish(PLACE, every(range(100, 200, 10)))
    assert brought(world, 8) == 5  # the last one processed is of 170
    assert world.clusters["b"].holds(KEY).record_ms == 170


def test_at_the_end_of_the_log():
    world = pair()
    world.publish(PLACE, every([100, 200, 300]))
    assert brought(world, 3) == 2


def test_where_nothing_is_processed():
    world = pair()
    assert brought(world, 0) == 0


def test_gone_by_retention_at_the_source():
    world = pair()
    world.publish(PLACE, every([100]))
    world.publish(PLACE, every([200]))
    world.clusters["a"].log.append((), trims={PLACE: 1})
    assert brought(world, 1) == 1


def test_a_new_cluster_that_never_saw_1_to_24():
    world = pair(OffsetSettings(translation="timestamp", margin_ms=20))
    for sequence in range(36):
        world.clusters["a"].publish(PLACE, every([1_000 + 10 * sequence]))
    target = world.clusters["b"].log
    target.append((), skips={PLACE: 25})
    for sequence in range(25, 36):
        world.clusters["b"].publish(PLACE, every([1_000 + 10 * sequence]))
    assert brought(world, 35) == 32


def test_the_targets_log_starts_behind_the_position():
    world = pair()
    world.clusters["a"].publish(PLACE, every([100, 200, 300]))
    world.clusters["b"].log.append((), skips={PLACE: 3})
    world.clusters["b"].publish(PLACE, every([400]))
    assert brought(world, 2) == 2


def test_a_partition_of_which_the_target_keeps_nothing():
    world = pair()
    world.publish(PLACE, every([100, 200]))
    world.clusters["b"].log.append((), trims={PLACE: 2})
    assert brought(world, 2) == 2


def test_what_the_target_does_not_have_yet_is_waited_for_and_counted_once():
    world = pair()
    world.clusters["a"].publish(PLACE, every([100, 200]))
    assert brought(world, 2) is None
    world.settle()
    assert skipped(world) == {SkipReason.BEHIND: 1}
    assert world.links[0].distributor.ages(3_000) == {"billing": 2_000}
    world.clusters["b"].publish(PLACE, every([100, 200]))
    world.settle()
    assert world.clusters["b"].holds(KEY).position == 1
    assert world.links[0].distributor.ages(3_000) == {"billing": 0}


def test_what_the_sources_store_does_not_have_yet_is_waited_for():
    world = pair()
    world.clusters["b"].publish(PLACE, every([100, 200]))
    assert brought(world, 2) is None
    assert skipped(world) == {SkipReason.AHEAD: 1}
    world.clusters["a"].publish(PLACE, every([100, 200]))
    world.settle()
    assert world.clusters["b"].holds(KEY).position == 1


def test_exact_positions_wait_for_nothing():
    world = pair(EXACT)
    assert brought(world, 7) == 7


@pytest.mark.parametrize(
    ("times", "position", "there"),
    [([300, 100, 200, 400], 3, 0), ([100, 300, 200, 400], 3, 1), ([5, 5, 5, 5], 3, 0)],
    ids=["out of order", "out of order later", "equal"],
)
def test_times_that_do_not_rise(times, position, there):
    world = pair()
    world.publish(PLACE, every(times))
    assert brought(world, position) == there


def test_tombstones_are_records_like_any_other():
    world = pair()
    world.publish(PLACE, [(100, b"k", b"v"), (200, b"k", None), (300, b"k", b"v")])
    assert brought(world, 2) == 1


def test_a_forgotten_position_is_forgotten_there():
    world = pair(EXACT)
    assert brought(world, 5) == 5
    assert brought(world, None, commit_ms=2_000) is None
    assert world.clusters["b"].holds(KEY) == replace(Commit(None, 1, 2_000), origin=1, copy_flags=1)


def test_what_an_application_wrote_into_a_commit_comes_along():
    world = pair(EXACT)
    world.clusters["a"].commit(KEY, Commit(3, 2, 5, metadata="at noon"))
    world.settle()
    assert world.clusters["b"].holds(KEY) == Commit(
        3, 2, 5, origin=1, copy_flags=1, metadata="at noon"
    )


def test_topics_that_are_not_copied_are_passed_over():
    world = pair(EXACT)
    world.clusters["a"].commit(CommitKey("billing", Partition("_own", "P")), Commit(3, 1, 5))
    world.settle()
    assert skipped(world) == {SkipReason.TOPIC: 1}
    assert world.clusters["b"].arrivals == []


def test_a_newer_commit_at_the_target_stays():
    world = pair(EXACT)
    world.clusters["b"].commit(KEY, Commit(9, epoch=2, commit_ms=1))
    assert brought(world, 50) == 9
    assert skipped(world)[SkipReason.STALE] == 1
    assert world.clusters["a"].holds(KEY).position == 9


def test_an_intended_step_back_is_taken_everywhere():
    world = pair(EXACT)
    assert brought(world, 50) == 50
    assert brought(world, 10, commit_ms=2_000) == 10


def test_the_margin_does_not_undo_what_the_target_has():
    world = pair(OffsetSettings(translation="timestamp", margin_ms=1_000))
    world.publish(PLACE, every(range(100, 200)))
    world.clusters["b"].commit(KEY, Commit(40, epoch=1, commit_ms=1))
    assert brought(world, 50) == 40


def test_a_group_that_returns_is_not_taken_back_where_it_has_been():
    world = pair(OffsetSettings(translation="timestamp", margin_ms=1_000))
    world.publish(PLACE, every(range(0, 10_000, 100)))
    assert brought(world, 50) == 39
    world.clusters["b"].commit(KEY, Commit(100, epoch=2, commit_ms=2_000))
    world.settle()
    back = world.clusters["a"].holds(KEY)
    assert (back.position, back.processed) == (89, 100)
    # It goes on there, a margin behind, and leaves again before it has come as far as it was.
    home = Commit(92, epoch=3, commit_ms=3_000, processed=back.reached)
    world.clusters["a"].commit(KEY, home)
    world.settle()
    assert world.clusters["b"].holds(KEY).position == 100


def test_one_clock_that_is_ahead_costs_no_more_than_so_many_records():
    world = pair(OffsetSettings(translation="timestamp", margin_ms=10, margin_records=20))
    for sequence in range(100):
        world.publish(PLACE, every([3_600_000 if sequence == 10 else sequence]))
    assert brought(world, 100) == 80


def test_a_group_with_live_members_is_not_overwritten_until_they_are_gone():
    world = pair(EXACT)
    world.clusters["b"].live.add("billing")
    assert brought(world, 5) is None
    world.settle()
    assert skipped(world) == {SkipReason.LIVE: 1}
    assert world.links[0].distributor.ages(9_000) == {"billing": 0}
    world.clusters["b"].live.clear()
    world.settle()
    assert world.clusters["b"].holds(KEY).position == 5


def test_a_target_that_lost_its_disk_gets_everything_again():
    world = pair(EXACT)
    assert brought(world, 5) == 5
    target = world.clusters["b"]
    target.log = MemoryLog("NEW")
    world.links[0].round(now_ms=1_000)
    assert target.holds(KEY) is None
    world.links[0].round(now_ms=60_000)
    assert target.holds(KEY).position == 5


def test_a_link_that_begins_anew_writes_nothing_again():
    world = pair(OffsetSettings(translation="timestamp", margin_ms=50))
    world.publish(PLACE, every(range(100, 200)))
    assert brought(world, 90) == 39
    before = len(world.clusters["b"].arrivals)
    world.links[0] = world.link(plan(PAIR).links[0])
    world.settle()
    assert len(world.clusters["b"].arrivals) == before


def test_a_store_that_was_started_again_is_in_sync_once_it_has_everything():
    world = pair(EXACT)
    source, target = world.clusters["a"], world.clusters["b"]
    (link,) = (one for one in world.links if one.distributor._target is target)
    source.commit(KEY, Commit(5, 1, 1_000))
    for now_ms in (0, 250, 500):
        link.round(now_ms)
    assert target.holds(KEY).position == 5
    # While it is away a group goes on elsewhere, and comes back with it.
    source.commit(KEY, Commit(9, 2, 2_000))
    target.restart(3_000)
    target.live.add("billing")  # a member that waits beats, too
    assert not target.link_sync.in_sync(3_000)
    for now_ms in (3_000, 3_250, 3_500):
        link.round(now_ms)
        held = target.holds(KEY).position
        assert held == 9 or not target.link_sync.in_sync(now_ms), "never before"
    assert target.link_sync.in_sync(3_500)
    source.commit(KEY, Commit(12, 3, 4_000))
    link.round(4_000)
    assert target.holds(KEY).position == 9, "it has begun there"


def test_while_members_wait_for_another_link_this_one_brings_what_it_hears_of():
    world = pair(EXACT)
    source, target = world.clusters["a"], world.clusters["b"]
    (link,) = (one for one in world.links if one.distributor._target is target)
    source.commit(KEY, Commit(5, 1, 1_000))
    link.round(0)
    target.tell_link("another", in_sync=True)
    target.restart(3_000)
    target.live.add("billing")  # a member that waits beats, too
    link.round(3_000)
    # Where the other link went instead: it comes the way of this one, which was in sync before.
    source.commit(KEY, Commit(9, 2, 2_000))
    link.round(3_250)
    assert target.holds(KEY).position == 9
    target.tell_link("another", in_sync=True)
    source.commit(KEY, Commit(12, 3, 4_000))
    link.round(5_500)
    assert target.holds(KEY).position == 9, "it has begun there"


def test_what_has_to_wait_at_the_target_does_not_keep_it_from_being_in_sync():
    world = pair(EXACT)
    source, target = world.clusters["a"], world.clusters["b"]
    target.live.add("billing")
    source.commit(KEY, Commit(5, 1, 1_000))
    world.links[0].round(0)
    assert target.link_sync.told("1 at level 1", 0, in_sync=False).known
    assert target.holds(KEY) is None, "nobody waits for a link that has never come"


def test_margins_do_not_add_up_along_the_way():
    world = LogWorld(
        topology_of(tree_of((3, (1, "a", "b"), (1, "c", "d")))),
        OffsetSettings(translation="timestamp", margin_ms=10),
    )
    world.publish(PLACE, every(range(100)))
    world.clusters["a"].commit(KEY, Commit(50, 1, 1))
    world.settle()
    positions = {name: one.holds(KEY).position for name, one in world.clusters.items()}
    assert positions == {"a": 50, "b": 39, "c": 39, "d": 39}


class Troubled(LogCluster):
    """A cluster of which some requests are not answered, and what it is asked."""

    def __init__(self, name, number):
        super().__init__(name, number)
        self.broken = set()
        self.unanswered = set()
        self.asked = []
        self.meanwhile = None

    def asks(self, request, *about):
        self.asked.append((request, *about))
        if request in self.broken:
            raise QueryError(f"no answer to {request}")

    def ranges(self, topic):
        self.asks("ranges", topic)
        return super().ranges(topic)

    def groups(self):
        self.asks("groups")
        return super().groups()

    def offsets(self, group):
        self.asks("offsets", group)
        return super().offsets(group)

    def is_live(self, group):
        self.asks("is_live", group)
        return super().is_live(group)

    def find(self, partition, timestamp_ms):
        self.asks("find", partition, timestamp_ms)
        return super().find(partition, timestamp_ms)

    def read(self, partition, sequence, count_max, bytes_max):
        self.asks("read", partition, sequence)
        if partition in self.unanswered:
            raise QueryError(f"no answer to what is asked of {partition.address}")
        return super().read(partition, sequence, count_max, bytes_max)

    def write(self, commits):
        self.asks("write", [commit.position for _, commit in commits])
        super().write(commits)
        if self.meanwhile is not None:
            self.meanwhile()

    def turn_away(self):
        self.asked.append(("turn_away",))


@pytest.fixture
def source():
    one = Troubled("a", 1)
    one.publish(PLACE, every([100, 200]))
    return one


@pytest.fixture
def target():
    one = Troubled("b", 2)
    one.publish(PLACE, every([100, 200]))
    return one


def distributor(source, target, offsets=EXACT, **limits):
    return OffsetsDistributor(
        level=1, source=source, target=target, offsets=offsets, wants=lambda _topic: True, **limits
    )


def asked(cluster):
    """What it was asked since this was last called, without what is new at it."""
    found = [one for one in cluster.asked if one[-1] != TOPIC and one[0] != "groups"]
    cluster.asked.clear()
    return found


def test_one_round_asks_what_is_needed_in_order_and_writes(source, target):
    one = distributor(source, target, NO_MARGIN)
    source.commit(KEY, Commit(2, 1, 1))
    assert one.round(0) == OffsetsRound(brought=1)
    assert asked(source) == [("offsets", "billing"), ("read", PLACE, 1)]
    assert asked(target) == [
        ("offsets", "billing"),
        ("is_live", "billing"),
        ("find", PLACE, 200),
        ("write", [1]),
    ]
    assert one.round(1) == OffsetsRound()
    assert asked(source) == asked(target) == []


def test_what_is_skipped_is_told_once(source, target):
    one = distributor(source, target, NO_MARGIN)
    source.commit(KEY, Commit(2, 1, 1))
    target.live.add("billing")
    assert one.round(0) == OffsetsRound(skipped={SkipReason.LIVE: 1})
    assert one.round(1) == OffsetsRound()
    assert one.ages(10) == {"billing": 0}


def test_a_partition_nobody_answers_for_keeps_back_only_what_is_of_it(source, target):
    others = [Partition("orders", f"PRODUCER{number}") for number in range(20)]
    for place in others:
        source.publish(place, every([100, 200]))
        target.publish(place, every([100, 200]))
    one = distributor(source, target, NO_MARGIN)
    source.unanswered.add(PLACE)
    for place in [*others[:10], PLACE, *others[10:]]:
        source.commit(CommitKey("billing", place), Commit(2, 1, 1))
    for _ in range(16):
        one.round(0)
        one.check()
    assert all(target.holds(CommitKey("billing", place)) for place in others)
    source.commit(CommitKey("billing", others[0]), Commit(1, 2, 2))
    done = one.round(0)
    assert (done.brought, done.error) == (1, "no answer to what is asked of PRODUCER")
    assert target.holds(KEY) is None
    source.unanswered.clear()
    source.commit(CommitKey("billing", others[1]), Commit(1, 2, 2))
    assert one.round(0) == OffsetsRound(brought=2)
    assert target.holds(KEY).position == 1


@pytest.mark.parametrize(
    ("of_source", "request_"),
    [(True, one) for one in ("ranges", "groups", "offsets", "read")]
    + [(False, one) for one in ("offsets", "is_live", "find", "write")],
)
def test_what_is_not_answered_is_asked_again_of_other_stores(source, target, of_source, request_):
    one = distributor(source, target, NO_MARGIN)
    source.commit(KEY, Commit(2, 1, 1))
    broken = source if of_source else target
    broken.broken.add(request_)
    for _ in range(2):
        assert one.round(0) == OffsetsRound(error=f"no answer to {request_}")
        assert source.asked[-1] == target.asked[-1] == ("turn_away",)
        one.check()
    broken.broken.clear()
    assert one.round(0) == OffsetsRound(brought=1)
    assert target.holds(KEY).position == 1
    one.check()


def test_after_a_failure_everything_the_source_has_is_read_again(source, target):
    one = distributor(source, target)
    one.round(0)
    source.broken.add("ranges")
    one.round(1)
    source.broken.clear()
    source.asked.clear()
    one.round(2)
    assert ("groups",) in source.asked
    source.asked.clear()
    one.round(3)
    assert ("groups",) not in source.asked


def test_what_was_skipped_before_a_failure_is_counted_once(source, target):
    one = distributor(source, target)
    source.commit(KEY, Commit(5, 1, 1))
    source.commit(CommitKey("other", PLACE), Commit(6, 1, 1))
    target.live.add("billing")
    target.broken.add("write")
    skipped = {SkipReason.LIVE: 1}
    assert one.round(0) == OffsetsRound(skipped=skipped, error="no answer to write")
    assert one.round(0) == OffsetsRound(error="no answer to write")


def test_a_commit_that_comes_during_a_round_is_brought_by_the_next(source, target):
    one = distributor(source, target)
    source.commit(KEY, Commit(5, 1, 1))
    target.meanwhile = lambda: source.commit(KEY, Commit(6, 1, 2))
    assert one.round(0).brought == 1
    target.meanwhile = None
    target.broken.add("is_live")
    assert one.round(1).brought == 0
    assert one.ages(10) == {"billing": 8}
    target.broken.clear()
    assert one.round(2).brought == 1
    assert [commit.position for _, commit in target.arrivals] == [5, 6]


def test_more_positions_than_may_be_are_counted(source, target):
    one = distributor(source, target, positions_max=1)
    source.commit(CommitKey("first", PLACE), Commit(5, 1, 1))
    one.round(0)
    source.commit(KEY, Commit(5, 1, 1))
    source.commit(CommitKey("first", PLACE), Commit(6, 1, 2))
    assert one.round(1) == OffsetsRound(brought=1, skipped={SkipReason.FULL: 1})
    assert target.holds(KEY) is None


def test_what_waits_does_not_keep_others_from_their_turn(source, target):
    one = distributor(source, target, round_max=1)
    target.live.add("billing")
    source.commit(KEY, Commit(5, 1, 1))
    other = CommitKey("other", PLACE)
    source.commit(other, Commit(6, 1, 1))
    assert [one.round(0).brought for _ in range(4)] == [0, 1, 0, 0]
    assert target.holds(other).position == 6


@given(
    times=st.lists(st.integers(0, 200), min_size=1, max_size=40),
    position=st.integers(0, 40),
    margin_ms=st.integers(0, 100),
    gone=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    behind=st.integers(0, 40),
)
@repeatable
def test_what_is_translated_never_passes_what_was_processed(
    times, position, margin_ms, gone, behind
):
    world = pair(OffsetSettings(translation="timestamp", margin_ms=margin_ms))
    position = min(position, len(times))
    there = times[: max(0, len(times) - behind)]
    for cluster, records in ((world.clusters["a"], times), (world.clusters["b"], there)):
        for time in records:
            cluster.publish(PLACE, every([time]))
    for cluster, start in zip(world.clusters.values(), gone, strict=True):
        cluster.log.append((), trims={PLACE: min(start, cluster.log.heads().get(PLACE, -1) + 1)})
    reached = brought(world, position)
    assert reached is None or reached <= position


@given(seed=st.integers(0, 10**6), exact=st.booleans())
@example(seed=1, exact=True)
@repeatable
def test_every_cluster_gets_every_commit_once_and_the_last_writer_wins(seed, exact):
    chance = random.Random(seed)
    topology = random_topology(chance, chance.randint(2, 7))
    world = LogWorld(
        topology,
        EXACT
        if exact
        else OffsetSettings(translation="timestamp", margin_ms=chance.randint(0, 50)),
    )
    world.publish(PLACE, every(sorted(chance.randint(0, 300) for _ in range(60))))
    newest = None
    for step in range(chance.randint(1, 5)):
        home = chance.choice(list(world.clusters.values()))
        commit = Commit(chance.randint(0, 60), chance.randint(1, 3), 1_000 + step)
        home.commit(KEY, commit)
        before = {name: len(one.arrivals) for name, one in world.clusters.items()}
        if newest is None or version(commit, home.number) > newest[0]:
            newest = version(commit, home.number), commit.position
            world.settle()
            arrived = {
                name: len(one.arrivals) - before[name] for name, one in world.clusters.items()
            }
            assert arrived == {name: int(one is not home) for name, one in world.clusters.items()}
    for cluster in world.clusters.values():
        held = cluster.holds(KEY)
        assert version(held, cluster.number) == newest[0]
        assert held.position <= newest[1]


@given(seed=st.integers(0, 10**6))
@repeatable
def test_commits_made_at_once_come_to_rest_at_the_newest(seed):
    chance = random.Random(seed)
    topology = random_topology(chance, chance.randint(2, 6))
    world = LogWorld(topology, EXACT)
    for step in range(12):
        home = chance.choice(list(world.clusters.values()))
        epoch = chance.randint(1, 2)
        home.commit(KEY, Commit(chance.randint(0, 60), epoch, 1_000 + step))
        for link in chance.sample(world.links, chance.randint(0, len(world.links))):
            link.round()
    world.settle()
    versions = {version(one.holds(KEY), one.number) for one in world.clusters.values()}
    assert len(versions) == 1
