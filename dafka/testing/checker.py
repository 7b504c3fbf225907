"""Judges a history: which of the named anomalies does it show? Pure; linear in the history.

| name | what must never be |
|---|---|
| I1 inconsistent-sequence | one place (partition and sequence) seen with two values |
| I2 duplicate | one value at two places |
| I3 lost-write | an acknowledged value that nobody read, though a later one was read |
| I4 unseen | an acknowledged value that, in the end, a reader or a store does not have |
| I5 aborted-read | the value of a refused send was read |
| I6 phantom | a value was read that nobody sent, or by who did not ask for its topic or slot |
| I7 skip | a consumer was given a record behind a hole |
| I8 nonmonotonic-poll | a consumer was given again what it had |
| I9 nonmonotonic-send | a later send of one producer got a lower sequence |
| I10 head-regression | a store told a lower head than before |
| I11 gap | a store holds a partition with a hole, or its log start went back |
| I12 replicas-differ | in the end, stores hold different records |
| I13 ack-not-durable | an acknowledgement before enough disks had the record |
| I14 not-fenced | one place acknowledged to two sends |
| I15 lost-after-crash | a store came back without what its disk had had |
| I16 not-stored | a consumer of what is stored got what no disk had |
| I17 dropped-young | retention by age took what was not that old |
| I18 starved | a consumer waited for what is stored, while it got what came later |
| I19 given-up | a store gave up slots though no other that keeps them had all that it had |

The names are those of Jepsen's Kafka workload where it has one. Differences: sequences are dense
and a partition is one producer's, so a hole shows at once and a duplicate is never legal.

I13 and I19 are judged where `Durable` was recorded; I4 and I12 only after `Settled`; I17 and I18 by
`dafka.testing.timing`. What retention has taken from any store is owed to nobody; a store that has
lost its disk owes all the same. Who begins at the latest record is owed whole what begins when he
knows what there was before.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations, repeat
from typing import TYPE_CHECKING

from dafka.model import ALL_SLOTS, Partition, Slots
from dafka.testing.history import (
    Acknowledged,
    Began,
    DiskLost,
    Durable,
    Ended,
    Erased,
    Fault,
    HeadTold,
    Polled,
    Positioned,
    ReadBack,
    Reopened,
    SendRefused,
    Sent,
    Settled,
    SkippedOver,
    SlotsKept,
    Trimmed,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dafka.testing.history import Event, History


class Name(Enum):
    """The anomalies; see the table above."""

    INCONSISTENT = "I1 inconsistent-sequence"
    DUPLICATE = "I2 duplicate"
    LOST = "I3 lost-write"
    UNSEEN = "I4 unseen"
    ABORTED_READ = "I5 aborted-read"
    PHANTOM = "I6 phantom"
    SKIP = "I7 skip"
    NONMONOTONIC_POLL = "I8 nonmonotonic-poll"
    NONMONOTONIC_SEND = "I9 nonmonotonic-send"
    HEAD_REGRESSION = "I10 head-regression"
    GAP = "I11 gap"
    REPLICAS_DIFFER = "I12 replicas-differ"
    ACK_NOT_DURABLE = "I13 ack-not-durable"
    NOT_FENCED = "I14 not-fenced"
    LOST_AFTER_CRASH = "I15 lost-after-crash"
    NOT_STORED = "I16 not-stored"
    YOUNG = "I17 dropped-young"
    STARVED = "I18 starved"
    GIVEN_UP = "I19 given-up"
    FAILED = "failed"
    VACUOUS = "vacuous"


LOSS_MS_MAX = 11_000
"""By then everybody knows that a disk is lost who is not suspended for longer. Until then it counts
for what is acknowledged: it had been when it said so. Never beside the one in its place."""

KNOWN_MS = 31_000
"""By then a consumer knows which partitions there were before it."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that must not be.

    Attributes:
        name: Which kind.
        text: What was seen, with the place.
    """

    name: Name
    text: str

    def __str__(self) -> str:
        return f"{self.name.value}: {self.text}"


def check(
    history: History, *, repair: bool = True, contested: Collection[Partition] = ()
) -> list[Anomaly]:
    """Return every anomaly that `history` shows; none is a pass.

    Args:
        history: The run.
        repair: Whether every store must have everything in the end. Where stores do not repair
            each other, as those of the C implementation do not, one of them must.
        contested: Partitions that have two producers: stores may hold other records there, as long
            as they are not those of an acknowledged place. Nothing of them is ever dropped.
    """
    durability = any(isinstance(event, Durable) for event in history)
    judge = _Judge(repair=repair, durability=durability, contested=contested)
    for event in history:
        judge.take(event)
    return judge.verdict()


def vacuous(
    history: History, *, acknowledged_min: int = 1, read_min: int = 1, faults_min: int = 0
) -> list[Anomaly]:
    """Say if so little happened that finding nothing says nothing.

    Args:
        history: The run.
        acknowledged_min: Records that must have been acknowledged.
        read_min: Records that must have been read, by consumers or out of stores.
        faults_min: Faults that must have happened.
    """
    sizes = {event.op: len(event.values) for event in history if isinstance(event, Sent)}
    counts = {
        "records acknowledged": (
            sum(sizes.get(one.op, 0) for one in history if isinstance(one, Acknowledged)),
            acknowledged_min,
        ),
        "records read": (
            sum(len(one.values) for one in history if isinstance(one, Polled | ReadBack)),
            read_min,
        ),
        "faults": (sum(isinstance(one, Fault) for one in history), faults_min),
    }
    return [
        Anomaly(Name.VACUOUS, f"{count} {what}, at least {least} are needed to say anything")
        for what, (count, least) in counts.items()
        if count < least
    ]


def condensed(anomalies: Iterable[Anomaly], each_max: int = 8) -> list[str]:
    """Return lines for people: the first few of each name, and how many more there are."""
    by_name: dict[Name, list[Anomaly]] = defaultdict(list)
    for anomaly in anomalies:
        by_name[anomaly.name].append(anomaly)
    lines: list[str] = []
    for name, found in by_name.items():
        lines += [str(anomaly) for anomaly in found[:each_max]]
        if len(found) > each_max:
            lines.append(f"{name.value}: {len(found) - each_max} more")
    return lines


def _place(partition: Partition, sequence: int) -> str:
    return f"{partition.topic}/{partition.address}/{sequence}"


@dataclass(slots=True)
class _Reader:
    """A consumer, or a store that is read at the end."""

    topics: tuple[str, ...] | None
    """None for a store: it has all."""
    earliest: bool
    slots: Slots = ALL_SLOTS
    """What of the ring a store keeps."""
    stored: bool = False
    """Whether it is given what is stored only."""
    began_ms: int = 0
    expected: dict[Partition, int] = field(default_factory=dict)
    """Sequence that comes next."""
    seen: set[tuple[Partition, int]] = field(default_factory=set)
    starts: dict[Partition, int] = field(default_factory=dict)
    """Where it was told to begin; nothing below is owed to it."""
    gaps: dict[Partition, list[range]] = field(default_factory=dict)
    """What a store has passed over; nothing inside is owed to it."""

    def end(self, partition: Partition) -> int:
        """Where a partition goes on that it has read, or that nothing is kept of."""
        return self.expected.get(partition, self.starts.get(partition, 0))

    def owed(self, partition: Partition, sequence: int) -> bool:
        if not self.slots.keeps(*partition):
            return False
        if self.topics is not None and partition.topic not in self.topics:
            return False
        if any(sequence in gap for gap in self.gaps.get(partition, ())):
            return False
        start = self.starts.get(partition, 0 if self.earliest else None)
        return start is not None and sequence >= start


class _Judge:
    """Walks through a history once, then looks at what it has gathered."""

    def __init__(self, *, repair: bool, durability: bool, contested: Collection[Partition]) -> None:
        self.repair = repair
        self.durability = durability
        self.contested = contested
        self.found: list[Anomaly] = []
        self.sent: dict[int, Sent] = {}
        self.senders: dict[bytes, str] = {}
        self.refused: set[bytes] = set()
        self.acknowledged: dict[tuple[Partition, int], tuple[int, bytes]] = {}
        self.begun_ms: dict[Partition, int] = {}
        """When the first record of a partition was sent, of those that were acknowledged."""
        self.last_acknowledged: dict[tuple[str, Partition], tuple[int, int]] = {}
        self.values: dict[tuple[Partition, int], bytes] = {}
        self.places: dict[bytes, tuple[Partition, int]] = {}
        self.read: set[tuple[Partition, int]] = set()
        self.highest_read: dict[Partition, int] = {}
        self.lowest_kept: dict[Partition, int] = {}
        self.durable: dict[Partition, dict[str, int]] = defaultdict(dict)
        self.kept: dict[str, Slots] = {}
        """What of the ring stores keep, as far as they have said so."""
        self.lost: dict[tuple[str, Partition], tuple[int, int]] = {}
        """Until when a store's last disk counts that was lost, and what it had."""
        self.heads: dict[tuple[str, Partition], int] = {}
        self.starts: dict[tuple[str, Partition], int] = {}
        self.taken: dict[Partition, int] = defaultdict(int)
        """Below which sequence retention has taken something, from any store, ever."""
        self.gaps: dict[tuple[str, Partition], list[range]] = defaultdict(list)
        self.consumers: dict[str, _Reader] = {}
        self.stores: dict[str, _Reader] = {}
        self.held: dict[tuple[Partition, int], set[bytes]] = defaultdict(set)
        """What stores hold in contested partitions."""
        self.told_stored: list[Polled] = []
        """What was read of these by who is given what is stored only."""
        self.settled = False

    def add(self, name: Name, text: str) -> None:
        self.found.append(Anomaly(name, text))

    def take(self, event: Event) -> None:
        match event:
            case Sent():
                self.sent[event.op] = event
                self.senders.update(dict.fromkeys(event.values, event.process))
            case Acknowledged():
                self.take_acknowledged(event)
            case SendRefused():
                self.refused.update(self.sent[event.op].values)
            case Settled():
                self.settled = True
                kept = map(Slots, event.slots) if event.slots else repeat(ALL_SLOTS)
                self.stores = {
                    node: _Reader(None, earliest=True, slots=slots)
                    for node, slots in zip(event.stores, kept, strict=False)
                }
            case Began() | Ended() | Positioned() | Polled():
                self.take_consumer(event)
            case ReadBack():
                self.take_held(event)
            case Durable() | Reopened() | HeadTold() | Trimmed():
                self.take_store(event)
            case SlotsKept():
                self.take_kept(event)
            case SkippedOver() | DiskLost() | Erased() | Fault():
                self.take_loss(event)

    def take_acknowledged(self, event: Acknowledged) -> None:
        sent = self.sent[event.op]
        partition = Partition(sent.topic, event.address)
        begun_ms = self.begun_ms.get(partition, sent.at_ms)
        self.begun_ms[partition] = min(begun_ms, sent.at_ms)
        for sequence, value in enumerate(sent.values, event.sequence):
            other_op, other = self.acknowledged.setdefault((partition, sequence), (event.op, value))
            if other_op != event.op:
                where = _place(partition, sequence)
                self.add(Name.NOT_FENCED, f"{where} acknowledged for {other!r} and {value!r}")
            self.observe(partition, sequence, value)
        last = self.last_acknowledged.get((sent.process, partition))
        for earlier_op, earlier in [last] if last else []:
            if (earlier_op < event.op) != (earlier < event.sequence):
                self.add(
                    Name.NONMONOTONIC_SEND,
                    f"{sent.process}: send {event.op} at {_place(partition, event.sequence)}, "
                    f"send {earlier_op} at {earlier}",
                )
        self.last_acknowledged[sent.process, partition] = event.op, event.sequence
        if self.durability:
            self.judge_durability(partition, event, event.sequence + len(sent.values))

    def judge_durability(self, partition: Partition, event: Acknowledged, end: int) -> None:
        disks = sum(one >= end for one in self.ends(partition, event.at_ms))
        if disks < event.min_acks:
            self.add(
                Name.ACK_NOT_DURABLE,
                f"{_place(partition, end - 1)} acknowledged with {disks} of {event.min_acks} disks",
            )

    def ends(self, partition: Partition, at_ms: int) -> Iterable[int]:
        """How far each store has a partition on disk, as far as can be known at a time."""
        ends = {
            node: end
            for node, end in self.durable[partition].items()
            if self.kept.get(node, ALL_SLOTS).keeps(*partition)
        }
        if not self.lost:
            return ends.values()
        gone = {
            node: end
            for (node, lost), (until_ms, end) in self.lost.items()
            if lost == partition and at_ms < until_ms
        }
        return [max(ends.get(node, 0), gone.get(node, 0)) for node in {**ends, **gone}]

    def take_consumer(self, event: Began | Ended | Positioned | Polled) -> None:
        if isinstance(event, Began):
            self.consumers[event.process] = _Reader(
                event.topics,
                earliest=event.earliest,
                stored=event.stored,
                began_ms=event.at_ms,
            )
        elif isinstance(event, Ended):
            self.consumers.pop(event.process, None)
        elif isinstance(event, Positioned):
            reader = self.consumers[event.process]
            reader.expected[event.partition] = event.sequence
            reader.starts.setdefault(event.partition, 0 if reader.earliest else event.sequence)
        else:
            self.take_polled(event)

    def take_polled(self, event: Polled) -> None:
        unasked = _Reader((event.partition.topic,), earliest=False)
        reader = self.consumers.setdefault(event.process, unasked)
        partition = event.partition
        where = f"{event.process} got {_place(partition, event.sequence)}"
        if reader.topics is not None and partition.topic not in reader.topics:
            self.add(Name.PHANTOM, f"{where}, a topic it did not ask for")
        default = 0 if reader.earliest else event.sequence
        expected = reader.expected.get(partition, default)
        reader.starts.setdefault(partition, expected)
        if event.sequence > expected:
            self.add(Name.SKIP, f"{where}, expected {expected}")
        elif event.sequence < expected:
            self.add(Name.NONMONOTONIC_POLL, f"{where} again, expected {expected}")
        end = reader.expected[partition] = event.sequence + len(event.values)
        if (
            reader.stored
            and self.durability
            and max(self.ends(partition, event.at_ms), default=0) < end
        ):
            self.add(Name.NOT_STORED, f"{where}, which no store has up to {end}")
        if reader.stored and partition in self.contested:
            self.told_stored.append(event)
        self.take_read(reader, event)

    def take_held(self, event: ReadBack) -> None:
        reader = self.stores[event.node]
        partition = event.partition
        expected = reader.expected.get(partition)
        if expected is None:
            expected = self.behind_gap(
                event.node, partition, self.starts.get((event.node, partition), 0)
            )
            lowest = self.lowest_kept.get(partition, expected)
            self.lowest_kept[partition] = min(expected, lowest)
        expected = self.behind_gap(event.node, partition, expected)
        if not reader.slots.keeps(*partition):
            where = _place(partition, event.sequence)
            self.add(Name.PHANTOM, f"{event.node} holds {where}, of a slot that it does not keep")
        if event.sequence != expected:
            where = _place(partition, event.sequence)
            self.add(Name.GAP, f"{event.node} holds {where} where {expected} belongs")
        reader.expected[partition] = event.sequence + len(event.values)
        if partition in self.contested:
            for sequence, value in enumerate(event.values, event.sequence):
                self.held[partition, sequence].add(value)
        self.take_read(reader, event)

    def behind_gap(self, node: str, partition: Partition, sequence: int) -> int:
        """Where what a store has goes on, if it has passed over `sequence`."""
        for gap in self.gaps[node, partition]:
            if sequence in gap:
                sequence = gap.stop
        return sequence

    def take_read(self, reader: _Reader, event: Polled | ReadBack) -> None:
        """Somebody has read values: they are what they should be, and nobody's invention."""
        partition = event.partition
        for sequence, value in enumerate(event.values, event.sequence):
            where = _place(partition, sequence)
            if value not in self.senders:
                self.add(Name.PHANTOM, f"{where} holds {value!r}, which nobody sent")
            elif value in self.refused:
                self.add(Name.ABORTED_READ, f"{where} holds {value!r}, whose send was refused")
            self.observe(partition, sequence, value)
            self.read.add((partition, sequence))
            reader.seen.add((partition, sequence))
        highest = self.highest_read.get(partition, -1)
        self.highest_read[partition] = max(highest, event.sequence + len(event.values) - 1)

    def observe(self, partition: Partition, sequence: int, value: bytes) -> None:
        """A value stands at a place, whoever says so."""
        if partition in self.contested:
            there = self.acknowledged.get((partition, sequence), (0, value))[1]
        else:
            there = self.values.setdefault((partition, sequence), value)
        if there != value:
            where = _place(partition, sequence)
            self.add(Name.INCONSISTENT, f"{where} holds {there!r} and {value!r}")
        place = self.places.setdefault(value, (partition, sequence))
        if place != (partition, sequence):
            self.add(
                Name.DUPLICATE,
                f"{value!r} stands at {_place(*place)} and {_place(partition, sequence)}",
            )

    def take_store(self, event: Durable | Reopened | HeadTold | Trimmed) -> None:
        key = event.node, event.partition
        ends = self.durable[event.partition]
        before = ends.get(event.node, 0)
        if isinstance(event, Durable):
            ends[event.node] = max(before, event.end)
        elif isinstance(event, Reopened):
            if event.end < before:
                where = _place(event.partition, before - 1)
                self.add(
                    Name.LOST_AFTER_CRASH, f"{event.node} had {where}, and has {event.end - 1}"
                )
            ends[event.node] = event.end
        elif isinstance(event, HeadTold):
            told = self.heads.get(key, -1)
            if event.sequence < told:
                where = _place(event.partition, event.sequence)
                self.add(Name.HEAD_REGRESSION, f"{event.node} tells {where} after {told}")
            self.heads[key] = max(told, event.sequence)
        else:
            start = self.starts.get(key, 0)
            if event.start < start:
                where = _place(event.partition, event.start)
                self.add(Name.GAP, f"{event.node} begins at {where} after {start}")
            self.starts[key] = event.start
            if not event.given_up:
                self.taken[event.partition] = max(self.taken[event.partition], event.start)

    def take_kept(self, event: SlotsKept) -> None:
        """Slots have gone: what was on that disk another has that keeps them."""
        before = self.kept.get(event.node, Slots(0))
        self.kept[event.node] = after = Slots(event.kept)
        gone = before.without(after)
        for partition, ends in self.durable.items():
            if not gone or after.keeps(*partition) or not before.keeps(*partition):
                continue
            end = ends.get(event.node, 0)
            if max(self.ends(partition, event.at_ms), default=0) < end:
                where = _place(partition, end - 1)
                self.add(Name.GIVEN_UP, f"{event.node} keeps {where} no more, nor does another")

    def take_loss(self, event: SkippedOver | DiskLost | Erased | Fault) -> None:
        if isinstance(event, SkippedOver):
            self.gaps[event.node, event.partition].append(range(event.start, event.end))
            ends = self.durable[event.partition]
            ends[event.node] = max(event.end, ends.get(event.node, 0))
        elif isinstance(event, DiskLost):
            self.forget(event.node, event.at_ms)
        elif isinstance(event, Erased):
            key = event.node, event.partition
            self.durable[event.partition].pop(event.node, None)
            for told in (self.heads, self.starts, self.gaps):
                told.pop(key, None)

    def forget(self, node: str, at_ms: int) -> None:
        """A store begins again: what it had and has told of that binds it to nothing."""
        for partition, ends in self.durable.items():
            if node in ends:
                self.lost[node, partition] = at_ms + LOSS_MS_MAX, ends.pop(node)
        for known in (self.heads, self.starts, self.gaps):
            for key in [key for key in known if key[0] == node]:
                del known[key]

    def verdict(self) -> list[Anomaly]:
        for (partition, sequence), (_, value) in self.acknowledged.items():
            owed_from = max(self.lowest_kept.get(partition, 0), self.taken[partition])
            if (partition, sequence) in self.read or sequence < owed_from:
                continue
            if sequence < self.highest_read.get(partition, -1):
                self.add(
                    Name.LOST, f"{value!r} at {_place(partition, sequence)} was read by nobody"
                )
        self.place()
        self.judge_gaps()
        if self.settled:
            self.judge_end()
        return self.found

    def place(self) -> None:
        """Where each reader begins to be owed what there is."""
        for (node, partition), start in self.starts.items():
            if node in self.stores:
                self.stores[node].starts[partition] = start
        late = [reader for reader in self.consumers.values() if not reader.earliest]
        for reader in late:
            for partition, begun_ms in self.begun_ms.items():
                if begun_ms >= reader.began_ms + KNOWN_MS:
                    reader.starts[partition] = 0

    def judge_end(self) -> None:
        """All was healed and had its time: who lacks what?"""
        readers = [*self.consumers.items()]
        if self.repair:
            readers += self.stores.items()
            self.judge_replicas(sorted(self.stores.items()))
        elif self.stores:
            readers.append(("every store", self.union()))
        for name, reader in readers:
            self.judge_unseen(name, reader)
        self.judge_told_stored()

    def judge_told_stored(self) -> None:
        """What one of two producers sent is stored only where a store holds it."""
        for event in self.told_stored:
            for sequence, value in enumerate(event.values, event.sequence):
                if value not in self.held[event.partition, sequence]:
                    where = f"{event.process} got {_place(event.partition, sequence)}"
                    self.add(Name.NOT_STORED, f"{where}, {value!r}, which no store holds")

    def judge_gaps(self) -> None:
        """What a store has passed over is nobody's any more, since retention took it."""
        for (node, partition), gaps in self.gaps.items():
            if node in self.stores:
                self.stores[node].gaps[partition] = gaps
            for gap in gaps:
                dropped = range(self.taken[partition])
                for place, sequence in self.acknowledged:
                    if place == partition and sequence in gap and sequence not in dropped:
                        where = _place(partition, sequence)
                        self.add(Name.GAP, f"{node} has passed over {where}, which nobody dropped")

    def union(self) -> _Reader:
        """All stores as one."""
        union = _Reader(None, earliest=True)
        for reader in self.stores.values():
            union.seen |= reader.seen
        return union

    def judge_unseen(self, name: str, reader: _Reader) -> None:
        for place, (_, value) in self.acknowledged.items():
            partition, sequence = place
            if sequence < self.taken[partition] or place in reader.seen:
                continue
            if reader.owed(partition, sequence):
                self.add(Name.UNSEEN, f"{name} never got {value!r} at {_place(*place)}")

    def judge_replicas(self, stores: Sequence[tuple[str, _Reader]]) -> None:
        for (first_name, first), (name, reader) in combinations(stores, 2):
            for partition in sorted({*first.expected, *reader.expected}):
                if not all(one.slots.keeps(*partition) for one in (first, reader)):
                    continue
                ends = [
                    self.behind_gap(one, partition, store.end(partition))
                    for one, store in ((first_name, first), (name, reader))
                ]
                if partition in self.contested:
                    continue
                if ends[0] != ends[1] and max(ends) > self.taken[partition]:
                    where = f"{partition.topic}/{partition.address}"
                    self.add(
                        Name.REPLICAS_DIFFER,
                        f"{where} ends at {ends[0]} on {first_name}, at {ends[1]} on {name}",
                    )
