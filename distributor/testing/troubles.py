"""What goes wrong with the records themselves: disks are lost, logs trimmed, histories differ.

Messages, crashes and slow disks are `dafka.testing.world.Faults` and common to all runs; of these a
run has one, by its seed. Each knows what it owes: how links have to be set, and what has to be
true in the end beside what the checker says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.retention import Retention
from dafka.testing.checker import condensed
from dafka.testing.timing import dropped_young
from distributor.link.events import StopReason
from distributor.link.settings import LinkSettings
from distributor.testing.checkers import contents
from distributor.testing.links import SimSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.testing.nodes import SimStore
    from distributor.testing.clusters import SimCluster
    from distributor.testing.links import SimLink
    from distributor.testing.world import SimWorld

BACK_MS_MAX = 2_000
"""How long a store stays away that has lost its disk."""


WRONG_MS = 3_600_000
"""By how much a clock is wrong that is."""

LONG_MS_MAX = 20_000
"""The same of one that takes longer than it is waited for."""


class Trouble:
    """None of these: flags alone decide."""

    settings = SimSettings()
    stores = 1
    """How many a cluster has at least."""
    topics: tuple[str, ...] = ("flights", "weather")
    retention: tuple[Retention, ...] = ()
    """What stores need not keep."""
    shares = True
    """Whether stores may share the slots; not where one is taken for its cluster."""
    moves = True
    """Whether slots may move meanwhile, where they may be shared; not where disks are lost."""
    steers = True
    """Whether links may be told to serve other targets meanwhile."""
    flags_tell = True
    """Whether the flags in the end are those of each record's way: nothing was pulled."""

    def __init__(self, sim: SimWorld) -> None:
        self._sim = sim
        self._chance = sim.world.random

    def happen(self) -> None:
        """Let something go wrong, perhaps, in the middle of the traffic."""

    def mend(self) -> None:
        """All that can settle by itself has had its time: do what is left to the operator."""

    def again(self) -> None:
        """All has settled: let something go wrong in that quiet, perhaps."""

    def wrong(self) -> list[str]:
        """What is wrong in the end, as sentences."""
        return []


class NewDisks(Trouble):
    """Stores lose their disks, at any moment at which others have what was on them."""

    settings = SimSettings(link=LinkSettings(survey_interval_ms=1_000, repair_after_ms=6_000))
    moves = False
    flags_tell = False

    def happen(self) -> None:
        """Lose one."""
        if self._chance.random() < 0.15:
            self.again()

    def again(self) -> None:
        """Lose one of those that can be lost."""
        spare = [store for store in self._stores() if self._sim.is_spare(store)]
        if spare:
            self._lose(self._chance.choice(spare))

    def _stores(self) -> list[SimStore]:
        return self._sim.stores

    def _lose(self, store: SimStore) -> None:
        if store.alive:
            self._sim.world.after(self._chance.randint(1, BACK_MS_MAX), store.boot)
        store.lose_disk()  # who is down comes back anyway


class NewDisksOfReceiver(NewDisks):
    """The same of a cluster that publishes nothing: what they had brought, links bring again.

    Nothing is pulled, so every link has to go on serving the target that it had.
    """

    settings = SimSettings(link=LinkSettings(survey_interval_ms=1_000, repair_after_ms=None))
    steers = False
    flags_tell = True

    def __init__(self, sim: SimWorld) -> None:
        super().__init__(sim)
        self._receiver: SimCluster = self._chance.choice([*sim.clusters.values()])
        sim.silent.add(self._receiver.name)

    def _stores(self) -> list[SimStore]:
        return self._receiver.stores


class WrongClocks(Trouble):
    """Stores drop by age, and the clocks of one cluster are wrong by an hour, now and then."""

    settings = SimSettings(
        link=LinkSettings(
            survey_interval_ms=1_000, repair_after_ms=None, skips=lambda topic: topic == "readings"
        )
    )
    topics = ("flights", "readings")
    retention = (Retention(topics="readings", age_ms=20_000),)

    def __init__(self, sim: SimWorld) -> None:
        super().__init__(sim)
        self._wrong: SimCluster = self._chance.choice([*sim.clusters.values()])
        self._late: dict[str, int] = {}
        """By how much clocks of its producers were behind."""

    def happen(self) -> None:
        """Set them all, forward or back."""
        if self._chance.random() < 0.2:
            wrong_ms = self._chance.choice((-WRONG_MS, 0, WRONG_MS))
            for node in [*self._wrong.stores, *self._wrong.producers]:
                node.machine_clock.ahead_ms = wrong_ms
                self._late[node.name] = max(-wrong_ms, self._late.get(node.name, 0))

    def wrong(self) -> list[str]:
        """Whether something was dropped that was not old."""
        (rule,) = self.retention
        assert rule.age_ms is not None
        history = self._sim.world.history
        return condensed(dropped_young(history, {rule.topics: rule.age_ms}, self._late))


class _Trimming(Trouble):
    """Logs are trimmed: above all of what a target lacks."""

    shares = False

    def _trim(
        self, store: SimStore, lacking: Mapping[Partition, int], kept: Mapping[Partition, int]
    ) -> None:
        """Drop some of a partition's records, but nothing beyond these heads.

        Args:
            store: Whose.
            lacking: Partitions that a target lacks something of, each with its end there.
            kept: How far it may go in each.
        """
        ranges = {
            partition: range(
                max(extent.start, lacking.get(partition, 0)) + 1,
                min(extent.head, kept.get(partition, -1)) + 2,
            )
            for partition, extent in sorted(store.log.extents().items())
        }
        some = [partition for partition, ends in ranges.items() if ends]
        some = [partition for partition in some if partition in lacking] or some
        if some:
            partition = self._chance.choice(some)
            store.trim(partition, self._chance.choice(ranges[partition]))

    def _lacking(self, cluster: SimCluster) -> dict[Partition, int]:
        """What a target of a cluster's links has begun with and not got to the end of."""
        return {
            partition: head + 1
            for link in self._sim.links
            if link.link.source == cluster.name
            for partition, head in link.target.store.log.heads().items()
            if head < cluster.store.log.heads().get(partition, -1)
        }


class UnevenRetention(_Trimming):
    """Of each cluster's stores one keeps everything, from the others retention takes."""

    stores = 2

    def __init__(self, sim: SimWorld) -> None:
        super().__init__(sim)
        self._keepers = [self._chance.choice(one.stores) for one in sim.clusters.values()]

    def happen(self) -> None:
        """Let retention take what the keeper has, too, which may be away for long then."""
        clusters = zip(self._sim.clusters.values(), self._keepers, strict=True)
        cluster, keeper = self._chance.choice([*clusters])
        kept = keeper.log.heads()
        for store in cluster.stores:
            if store is not keeper and store.awake:
                self._trim(store, self._lacking(cluster), kept)
        if keeper.awake and self._chance.random() < 0.3:
            keeper.crash()
            self._sim.world.after(self._chance.randint(1, LONG_MS_MAX), keeper.boot)

    def wrong(self) -> list[str]:
        """Whether keepers lack something that nobody has taken from them."""
        return [
            f"{keeper.name} begins {partition} at {extent.start}"
            for keeper in self._keepers
            for partition, extent in keeper.log.extents().items()
            if extent.start
        ]


class OvertakingRetention(_Trimming):
    """Retention takes what has not been copied yet; of one topic links go on by themselves."""

    settings = SimSettings(
        link=LinkSettings(
            survey_interval_ms=1_000, repair_after_ms=6_000, skips=lambda topic: topic == "weather"
        )
    )
    flags_tell = False

    def happen(self) -> None:
        """Let it take from all stores of a cluster."""
        cluster = self._chance.choice([*self._sim.clusters.values()])
        if self._chance.random() < 0.4:
            lacking = self._lacking(cluster)
            for store in cluster.stores:
                if store.awake:
                    self._trim(store, lacking, store.log.heads())
        links = [one for one in self._sim.links if one.link.source == cluster.name and one.awake]
        if links and self._chance.random() < 0.2:
            link = self._chance.choice(links)
            link.crash()  # so that there is something to be overtaken
            self._sim.world.after(self._chance.randint(1, BACK_MS_MAX), link.boot)

    def mend(self) -> None:
        """Go on behind what nobody has any more: not before, and only where links have stopped."""
        for link in self._sim.links:
            for partition, stop in link.stops.items():
                if stop.reason is StopReason.OVERTAKEN:
                    link.pass_over(partition.topic)

    def wrong(self) -> list[str]:
        """Whether a link has gone on by itself behind a hole."""
        return [
            f"{link.name} has left out {lost} of what its target has the beginning of"
            for link in self._sim.links
            for lost in link.left_out
            if lost.partition.topic != "weather"
        ]


QUIET_MS = 20_000
"""For so long nothing is copied once all has settled: several surveys and pulls."""


class EmptyingRetention(Trouble):
    """Clusters drop, each at its own time, what all have, and forget what is empty then."""

    settings = SimSettings(
        link=LinkSettings(survey_interval_ms=1_000, repair_after_ms=6_000, forget_after_ms=500),
        forget_after_ms=200,
    )
    flags_tell = False

    def happen(self) -> None:
        """Let retention empty a partition that has come everywhere, on some cluster."""
        ends = [store.log.ends() for store in self._sim.stores]
        common = set.intersection(*(set(held.items()) for held in ends))
        if common and self._chance.random() < 0.6:
            partition, end = self._chance.choice(sorted(common))
            for store in self._chance.choice([*self._sim.clusters.values()]).stores:
                if store.alive and partition in store.log.extents():
                    store.trim(partition, end)

    def again(self) -> None:
        """Empty many, let them be forgotten, begin links anew, and let producers go on."""
        for _ in range(20):
            self.happen()
        self._sim.world.run_until(self._sim.world.now_ms + 1_000)
        for link in self._sim.links:
            if link.alive:
                link.crash()
                link.boot()
        for _ in range(3):
            self._sim.send_somewhere("flights", 1)

    def wrong(self) -> list[str]:
        """Whether anything is copied though all is there, or was forgotten."""
        self._sim.world.run_until(self._sim.world.now_ms + BACK_MS_MAX)  # ACKs may be under way
        before = [(link.forwarded, link.pulled) for link in self._sim.links]
        self._sim.world.run_until(self._sim.world.now_ms + QUIET_MS)
        return [
            f"{link.name} copies again and again"
            for link, copied in zip(self._sim.links, before, strict=True)
            if (link.forwarded, link.pulled) != copied
        ]


class OtherHistories(Trouble):
    """Clusters have other records under one name, and no word in them of their producers."""

    shares = False

    CONTESTED = Partition("flights", "TWIN")

    def __init__(self, sim: SimWorld) -> None:
        super().__init__(sim)
        sim.contested.add(self.CONTESTED)
        for cluster in sim.clusters.values():
            self._write(cluster, self._chance.choice((b"ours", b"theirs")))

    def wrong(self) -> list[str]:
        """Whether a store has some of both, or a link does not say that its ends differ."""
        return [
            f"{store.name} has records of two histories"
            for store in self._sim.stores
            if len(set(self.values(store))) > 1
        ] + [
            f"{link.name} does not say that its ends differ"
            for link in self._sim.links
            if self._differ(link) and self._stop(link) is not StopReason.DIVERGED
        ]

    def _differ(self, link: SimLink) -> bool:
        ends = self._sim.clusters[link.link.source].store, link.target.store
        ours, theirs = (set(self.values(store)) for store in ends)
        return bool(ours and theirs) and ours != theirs

    def _stop(self, link: SimLink) -> StopReason | None:
        stop = link.stops.get(self.CONTESTED)
        return None if stop is None else stop.reason

    def values(self, store: SimStore) -> list[bytes | None]:
        """What a store has of it."""
        return [record.value for record in contents(store.log).get(self.CONTESTED, ())]

    def _write(self, cluster: SimCluster, value: bytes) -> None:
        batches = []
        end = 0
        for _ in range(self._chance.randint(1, 4)):
            builder = BatchBuilder(1 << 16)
            for _ in range(self._chance.randint(1, 3)):
                builder.append(0, None, value, ())
            content = enclosed(builder.build(), end)
            batches.append(Batch(self.CONTESTED, end, builder.count, content))
            end = batches[-1].end
        for store in cluster.stores:
            store.crash()
            store.log.append(batches)
            store.boot()


TROUBLES = (
    Trouble,
    NewDisks,
    UnevenRetention,
    OvertakingRetention,
    WrongClocks,
    EmptyingRetention,
    Trouble,
    OtherHistories,
    UnevenRetention,
    OvertakingRetention,
    NewDisksOfReceiver,
    WrongClocks,
    EmptyingRetention,
)
"""By the seed; thirteen, so that all meet pairs of stores and links that are steered."""
