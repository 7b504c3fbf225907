"""The link: one arrow of the plan, from a cluster to a target across one tree level.

On its source cluster it is a consumer, on its target a mirror; in between it decides by the copy
flags. It keeps nothing on disk: where to begin a partition it asks the target's stores.

    source mesh ─▶ ConsumerMachine ─Deliver─▶ decide ─Mirrored─▶ MirrorMachine ─▶ target mesh
                        ▲                        │skip                │Stored
                        └──────── Drained ◀──────┴────────────────────┘

What is delivered and not yet stored at the target counts as the consumer's buffer, so its bound
is the link's bound. Source: Axual distribution model, "Copy flags and algorithm".
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.model import Batch
from dafka.protocol.effects import Deliver, Dropped, Effect, Lost, PartitionFound, Stored, Wanted
from dafka.protocol.events import Consumed, Mirrored, Received, Seek, Woke
from dafka.protocol.machine import Lifecycle, earliest
from dafka.rate import Rate
from dafka.records.batch import compressed_content, without_first
from dafka.records.envelope import Envelope, stamped, unpack
from dafka.records.sampling import sampled_in
from dafka.wire.messages import Head
from distributor.link.comparison import Comparison
from distributor.link.events import (
    AskHeads,
    HeadsRead,
    HeadsUnread,
    Held,
    Hold,
    Hopped,
    PassOver,
    Permit,
    Resumed,
    Side,
    SidedEffect,
    SidedEvent,
    Skipped,
    Stopped,
    Stops,
)
from distributor.link.flow_control import Hops, InflightBatch
from distributor.link.progress import TargetEnds
from topology.copyflags import EVERY_FLAG, in_epoch, should_forward, with_copied
from topology.model import INTERNAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.model import Partition
    from dafka.protocol.consumer import ConsumerMachine
    from dafka.protocol.mirror import MirrorMachine
    from distributor.link.progress import LinkProgress
    from distributor.link.settings import LinkSettings

ASK_AGAIN_MS = 500
"""Wait before the target's heads are asked for again: after no answer, and between rewinds."""

PASSED_BY_MS = 30_000
"""A partition is refused of which nothing is stored while batches are that were sent so much later:
what was lost on its way is repeated within seconds."""

STALLED_MS = 10_000
"""The same of those that take most room, where nothing at all is stored for so long."""

STALLED_SHARE = 4
"""And the others have such a part of the room at most."""


class LinkState(Enum):
    """What a link does."""

    COPYING = "copying"
    SURVEYING = "surveying"
    """It copies, and has asked both ends what they hold."""
    HOLDING = "holding"
    """It copies nothing more. What is under way is still brought to its end."""


LINK_STATES = {
    # It is time for a survey, or a partition waits for one; it is to make way for another link.
    LinkState.COPYING: {LinkState.SURVEYING, LinkState.HOLDING},
    # The survey has come, or nobody answers; it is to make way.
    LinkState.SURVEYING: {LinkState.COPYING, LinkState.HOLDING},
    LinkState.HOLDING: frozenset[LinkState](),
}

# Asked for every event, and to look a member up costs as much as a call (Python 3.11).
_COPYING, _HOLDING = LinkState.COPYING, LinkState.HOLDING


class LinkMachine:
    """One link.

    Args:
        level: Level of the tree node it crosses.
        origin: Number of the source cluster, written into records that were published there.
        epoch: Of the tree's levels: flags that were set in another one bind this link to nothing.
        source: A consumer of the source mesh: all topics, assigned positions, committed only.
        mirror: A mirror on the target mesh.
        settings: See there.
        permitted: Whether it may write; if not, it finds out how far both ends are and is ready,
            until `Permit`.
    """

    def __init__(
        self,
        *,
        level: int,
        origin: int,
        source: ConsumerMachine,
        mirror: MirrorMachine,
        settings: LinkSettings,
        epoch: int = 0,
        permitted: bool = True,
    ) -> None:
        self._permitted = self._binding = permitted
        """Whether it may write, and whether it might when the survey under way was begun: where the
        target was before is no place to begin, as others have written since."""
        self._ends = TargetEnds()
        self._level = level
        self._origin, self._epoch = origin, epoch
        self._source, self._mirror = source, mirror
        self._settings = settings
        self._comparison = Comparison(settings.repair_after_ms)
        self._rate = Rate(settings.bytes_per_s, settings.records_per_s)
        self._owed = 0
        """Room that the consumer gets back when the rate allows."""
        self._hops = Hops()
        self._moved_ms: dict[Partition, int] = {}
        """When each partition last came forward."""
        self._unplaced: dict[Partition, None] = {}
        """Partitions found that have no position until the heads are read."""
        self._named: frozenset[Partition] = frozenset()
        """Those of them that were asked about by name last."""
        self._pulling: dict[Partition, int] = {}
        """Sequence below which a partition is copied whatever its flags say."""
        self.stops = Stops()
        """Partitions that are not copied at present."""
        self._passing: dict[Partition, int] = {}
        """Partitions that go on behind a hole by hand, with its end: until something of them is
        stored or skipped, or the target is there by another way."""
        self.shortened: set[Partition] = set()
        """Partitions that the target has without what the source kept no more."""
        self._empty: frozenset[Partition] = frozenset()
        """Partitions of which the target keeps nothing any more."""
        self._kept: frozenset[Partition] = frozenset()
        """Partitions that it keeps something of, or may, though its store that spoke has none."""
        self._begins: Mapping[Partition, int] = {}
        """Where logs begin by the word of all stores of the source, where that is above 0."""
        self._sent: dict[Partition, int] = {}
        """The end of what was copied of each partition."""
        self._lifecycle = Lifecycle(LINK_STATES)
        self._wanted = False
        """Somebody at the target asks for what the mirror does not hold any more."""
        self._unread = False
        """Whether the target's stores did not say what they hold when they were asked last."""
        self._stalled = False
        """Whether partitions were stopped as the target took nothing at all, and still does not."""
        self._taken_ms = 0
        """When the target last took something, or nothing waited for it."""
        self._latency_ms = 0
        """How long it took to store what it stored last."""
        self._ask_due_ms = 0
        self._survey_due_ms: int | None = None
        """When to compare the ends again; None before the first survey."""

    def handle(self, event: SidedEvent, now_ms: int) -> list[SidedEffect]:
        """Take one event in, with the side that it came from; see `Machine`."""
        side, happened = event
        holding = self._lifecycle.state is _HOLDING
        match happened:
            case HeadsRead():
                effects = [] if holding else self._surveyed(happened, now_ms)
            case HeadsUnread():
                effects = [] if holding else self._unanswered(now_ms)
            case Hold():
                self._lifecycle.become(LinkState.HOLDING)
                return [(Side.SOURCE, Held(dict(self._sent)))]
            case PassOver():
                effects = [] if holding else self._pass_over(happened.topic, now_ms)
            case Permit():
                self._permitted = True
                self._ask_due_ms = self._survey_due_ms = now_ms
                effects = []
            case Woke():
                # A wake-up is nobody's in particular: whoever is due takes it.
                effects = self._from_target(self._mirror.handle(happened, now_ms), now_ms)
                if not holding:
                    effects += self._from_source(self._source.handle(happened, now_ms), now_ms)
                    effects += self._drain(0, now_ms)
            case _ if side is Side.SOURCE:
                if holding:
                    return []  # the next link will ask for it again
                effects = self._from_source(self._source.handle(happened, now_ms), now_ms)
            case _:
                effects = self._from_target(self._mirror.handle(happened, now_ms), now_ms)
        return effects if holding else effects + self._ask(now_ms)

    def wakeup_ms(self) -> int | None:
        """When any of the parts has something to do because time has passed."""
        if self._lifecycle.state is _HOLDING:
            return self._mirror.wakeup_ms()
        return earliest(
            self._mirror.wakeup_ms(),
            self._source.wakeup_ms(),
            self._rate.due_ms if self._owed else None,
            self._next_ask_ms,
        )

    def check(self) -> None:
        """Assert the invariants of the parts, and that what is taken in is not given back twice."""
        self._source.check()
        self._mirror.check()
        assert self._owed >= 0

    @property
    def state(self) -> LinkState:
        """What it does."""
        return self._lifecycle.state

    def lag(self, now_ms: int) -> tuple[int, int]:
        """Records that the source has and this link has not finished with, and for how long.

        The time, in ms, is the age of the oldest batch in hand; where a partition has none in hand,
        how long ago it moved.
        """
        records = longest_ms = 0
        for partition, head in self._source.heads.items():
            missing = head + 1 - self._done(partition)
            if missing > 0:
                records += missing
                hop = self._hops.oldest(partition)
                since_ms = hop.taken_ms if hop else self._moved_ms.get(partition, now_ms)
                longest_ms = max(longest_ms, now_ms - since_ms)
        return records, longest_ms

    def stuck_ms(self, now_ms: int) -> int:
        """For how long the target has taken none of what waits for it; 0 if it takes, or none does.

        Whatever the reason: no node of it is found, it refuses, or its stores do not say where to
        begin. To be asked often: what waits in between is not noticed.
        """
        if not self._hops and not self._stalled and not (self._unread and self._unplaced):
            self._taken_ms = now_ms
        return now_ms - self._taken_ms

    @property
    def late_ms(self) -> int:
        """How late the target stores what it is sent; 0 if nothing waits for it."""
        return self._latency_ms if self._hops else 0

    def progress(self) -> LinkProgress:
        """How far it is, in each partition."""
        stops = self.stops.by_partition
        done = {one: self._done(one) for one in self._source.heads}
        taken = {one: stops[one].first if one in stops else self._source.next(one) for one in done}
        return self._ends.progress(taken, done)

    def standstill(self, now_ms: int) -> tuple[int, int]:
        """How many partitions the target lacks something of, and how long one stands still (ms).

        From the heads of both ends, so it cannot be 0 because the link is stuck.
        """
        return self._comparison.standstill(now_ms)

    def _done(self, partition: Partition) -> int:
        """Sequence below which the link has nothing left to do, or can do nothing."""
        stop = self.stops.by_partition.get(partition)
        taken = self._source.next(partition) if stop is None else stop.first
        low = self._mirror.low(partition)
        return taken if low is None else min(low, taken)

    @property
    def _next_ask_ms(self) -> int | None:
        """When both ends are to be asked; at once where a partition cannot go on without."""
        if self._lifecycle.state is not _COPYING:
            return None
        if self._permitted and (self._unplaced or self._wanted):
            return self._ask_due_ms
        if self._survey_due_ms is None:
            return None if self._permitted else self._ask_due_ms
        return max(self._ask_due_ms, self._survey_due_ms)

    def _ask(self, now_ms: int) -> list[SidedEffect]:
        due_ms = self._next_ask_ms
        if due_ms is None or now_ms < due_ms:
            return []
        self._lifecycle.become(LinkState.SURVEYING)
        self._comparison.begin()
        self._binding = self._permitted
        self._named = frozenset(self._unplaced if self._permitted else ())
        return [(Side.TARGET, AskHeads(self._named))]

    def _unanswered(self, now_ms: int) -> list[SidedEffect]:
        self._lifecycle.become(LinkState.COPYING)
        self._unread = True
        self._ask_due_ms = now_ms + ASK_AGAIN_MS
        return []

    def _surveyed(self, heads: HeadsRead, now_ms: int) -> list[SidedEffect]:
        """Begin new partitions; go back where the target lost something or nobody serves it."""
        self._lifecycle.become(LinkState.COPYING)
        self._unread = heads.hidden
        self._ends.surveyed(heads)
        if not self._binding:
            return self._watched(heads, now_ms)
        if self._wanted:
            self._wanted = False
            self._ask_due_ms = now_ms + ASK_AGAIN_MS
        self._survey_due_ms = now_ms + self._settings.survey_interval_ms
        self._empty, self._kept = heads.empty, heads.kept
        self._begins = heads.begins if heads.certain else {}
        effects = self._stop_and_resume(heads, now_ms)
        effects += self._stop_refused(now_ms)
        effects += self._place(heads, now_ms)
        effects += self._confirm(heads.source, now_ms)
        placed = self._source.heads.keys() - self.stops.by_partition.keys()
        findings = self._comparison.take(heads.source, heads.target, now_ms, heads.begins)
        for partition, end in findings.lost.items():
            if partition in placed and end < self._done(partition):
                effects += self._rewind(partition, end, now_ms)
        for partition, end in findings.stalled.items():
            # What this link has under way, or has still to look at, needs nobody's help.
            if partition in placed and self._done(partition) > end:
                self._pulling[partition] = heads.source[partition] + 1
                effects += self._rewind(partition, end, now_ms)
        self._forget(heads.source, now_ms)
        return effects

    def _watched(self, heads: HeadsRead, now_ms: int) -> list[SidedEffect]:
        """Begin nothing; hear of what there is, and look again: at once, if it may write now."""
        interval_ms = 0 if self._permitted else self._settings.survey_interval_ms
        self._survey_due_ms = now_ms + interval_ms
        return self._confirm(heads.source, now_ms)

    def _forget(self, source: Mapping[Partition, int], now_ms: int) -> None:
        """Know nothing more of what the source has forgotten: heard of again, it is placed anew.

        Not of what is under way or stopped. Nor at once: its producer may be idle, and say HEAD.
        """
        old_ms = now_ms - self._settings.forget_after_ms
        unlisted = self._moved_ms.keys() - source.keys() if source else set()
        for partition in unlisted - self.stops.by_partition.keys() - self._unplaced.keys():
            under_way = self._hops.oldest(partition) or self._mirror.low(partition) is not None
            if self._moved_ms[partition] > old_ms or under_way:
                continue
            if self._source.forget(partition):
                self._mirror.leave(partition)
                del self._moved_ms[partition]
                self._sent.pop(partition, None)
                self._pulling.pop(partition, None)
                self._passing.pop(partition, None)
                self.shortened.discard(partition)

    def _confirm(self, heads: Mapping[Partition, int], now_ms: int) -> list[SidedEffect]:
        """Ask the source's stores where they have more than was heard of from them."""
        effects: list[SidedEffect] = []
        if heads:
            self._source.surveyed(now_ms)
        for partition, head in heads.items():
            if head >= self._source.acknowledged(partition):
                told = Received(Head(*partition, head, stored=True))
                effects += self._from_source(self._source.handle(told, now_ms), now_ms)
        return effects

    def _stop_and_resume(self, heads: HeadsRead, now_ms: int) -> list[SidedEffect]:
        """Give up what is under way where histories differ; go on where nothing stands against it.

        What comes of a stopped partition is left out.
        """
        effects: list[SidedEffect] = []
        for partition, end in [*self._passing.items()]:
            if heads.target.get(partition, -1) + 1 >= end:
                del self._passing[partition]  # the word was for that hole
        begun, ended = self.stops.take(heads, now_ms)
        for partition in begun:
            effects += self._stop(partition, now_ms)
        for partition in ended:
            effects.append((Side.TARGET, Resumed(partition)))
            self._moved_ms[partition] = now_ms
            effects += self._rewind(partition, heads.target.get(partition, -1) + 1, now_ms)
        return effects

    def _stop_refused(self, now_ms: int) -> list[SidedEffect]:
        """Give up what is under way of partitions of which the target takes nothing.

        All share one buffer: they would leave no room for others.
        """
        refused = self._hops.passed_by(PASSED_BY_MS)
        if self._hops and now_ms - self._taken_ms >= STALLED_MS:
            refused = self._hops.largest(self._source.buffer_bytes_max // STALLED_SHARE)
            self._stalled = self._stalled or bool(refused)
        effects: list[SidedEffect] = []
        for partition in refused:
            first, end = self._done(partition), self._sent[partition]
            self.stops.refused(partition, first, end, now_ms)
            effects += self._stop(partition, now_ms)
        return effects

    def _stop(self, partition: Partition, now_ms: int) -> list[SidedEffect]:
        """A partition is not copied from now on; what is under way of it is given up."""
        self._hops.forget(partition)
        effects = self._drain(self._mirror.forget(partition), now_ms)
        stopped = Stopped(partition, self.stops.by_partition[partition])
        return [*effects, (Side.TARGET, stopped)]

    def _lost(self, lost: Lost) -> list[SidedEffect]:
        """No store of the source that was asked has the next records any more.

        One that is down may have them, so all have to have said so lately. A target that keeps
        nothing begins where the source's log does. To one that keeps something another link may
        still bring what is missing, so it stops, unless it shall go on; what is under way still
        gets there. Of another history nothing is due, and what is missing is found out again.
        """
        partition = lost.partition
        if self.stops.differs(partition):
            return []
        hole = self._settings.passes.get(partition)
        known = hole is not None and hole.has(lost.start, lost.end)
        by_hand = known or partition in self._passing
        unsure = not by_hand and self._begins.get(partition, 0) <= lost.start
        skips = by_hand or self._settings.skips(partition.topic)
        listed = bool(self._comparison.end(partition)) and partition not in self._empty
        holds = listed or partition in self._kept
        if unsure or (holds and not skips):
            stop = self.stops.overtaken(partition, lost.start, lost.end, unsure=unsure)
            return [(Side.TARGET, Stopped(partition, stop))]
        if partition in self._passing:
            self._passing[partition] = lost.end
        self.shortened.add(partition)
        self._mirror.begins(partition, lost.end)
        return [(Side.SOURCE, lost)]

    def _pass_over(self, topic: str, now_ms: int) -> list[SidedEffect]:
        effects: list[SidedEffect] = []
        for partition, stop in self.stops.pass_over(topic).items():
            self._passing[partition] = stop.end
            effects.append((Side.TARGET, Resumed(partition)))
            self._moved_ms[partition] = now_ms
            # The source says once more where its log begins: retention goes on meanwhile.
            effects += self._rewind(partition, stop.first, now_ms)
        return effects

    def _place(self, heads: HeadsRead, now_ms: int) -> list[SidedEffect]:
        """Begin each new partition behind what the target has."""
        effects: list[SidedEffect] = []
        unplaced = self._unplaced.keys() - self.stops.by_partition.keys()
        waiting = unplaced & heads.waiting
        # What was found meanwhile the target may have forgotten: it is asked about at once.
        unnamed = unplaced - self._named - heads.source.keys() - heads.target.keys()
        self._unplaced = dict.fromkeys(waiting | unnamed)
        if waiting:
            self._ask_due_ms = now_ms + ASK_AGAIN_MS
        for partition in sorted(unplaced - self._unplaced.keys()):
            self._moved_ms[partition] = now_ms
            position = Seek(partition, heads.target.get(partition, -1) + 1)
            effects += self._from_source(self._source.handle(position, now_ms), now_ms)
            if not self._source.receives(partition):
                # There is no room. It is tried again, when there may be some.
                self._unplaced[partition] = None
                self._ask_due_ms = now_ms + self._settings.survey_interval_ms
        return effects

    def _rewind(self, partition: Partition, sequence: int, now_ms: int) -> list[SidedEffect]:
        self._hops.forget(partition)
        effects = self._drain(self._mirror.forget(partition), now_ms)
        position = Seek(partition, sequence)
        return effects + self._from_source(self._source.handle(position, now_ms), now_ms)

    def _from_source(self, effects: list[Effect], now_ms: int) -> list[SidedEffect]:
        sided: list[SidedEffect] = []
        for effect in effects:
            match effect:
                case Deliver():
                    sided += self._decide(effect, now_ms)
                case PartitionFound():
                    self._unplaced[effect.partition] = None
                case Lost():
                    sided += self._lost(effect)
                case _:
                    sided.append((Side.SOURCE, effect))
        return sided

    def _from_target(self, effects: list[Effect], now_ms: int) -> list[SidedEffect]:
        sided: list[SidedEffect] = []
        freed = 0
        for effect in effects:
            match effect:
                case Stored():
                    sided += self._stored(effect, now_ms)
                    freed += effect.size
                case Wanted():
                    # It may be a consumer that reads from the beginning; a survey tells.
                    self._wanted = True
                case _:
                    sided.append((Side.TARGET, effect))
        # Once for all that came together.
        return sided + self._drain(freed, now_ms) if freed else sided

    def _decide(self, delivered: Deliver, now_ms: int) -> list[SidedEffect]:
        """Forward a batch or not: the algorithm, once per batch."""
        batch = delivered.batch
        partition = batch.partition
        self._moved_ms[partition] = now_ms
        size = len(batch.content)
        if partition in self.stops:
            return [(Side.SOURCE, Dropped("stopped")), *self._drain(size, now_ms)]
        envelope = unpack(batch.content)
        assert envelope is not None  # the consumer takes no batch without one
        pulled = self._is_pulled(batch)
        flags = in_epoch(envelope.copy_flags, envelope.epoch, self._epoch)
        if should_forward(flags, self._level):
            pulled, flags = False, with_copied(flags, self._level)
        elif pulled:
            flags = EVERY_FLAG
        else:
            self._passing.pop(partition, None)
            return [(Side.SOURCE, Skipped(batch.count)), *self._drain(size, now_ms)]
        effects: list[SidedEffect] = []
        if batch.sequence < delivered.start:
            try:
                batch = without_first(batch, delivered.start - batch.sequence)
            except RecordError as error:
                return [(Side.SOURCE, Dropped(error.reason)), *self._drain(size, now_ms)]
        copied = self._copied(batch, envelope, flags)
        sent = len(copied.content)
        if not self._hops:
            self._taken_ms = now_ms
        sampled = sampled_in(batch) if self._settings.traced else ()
        hop = InflightBatch(batch.end, batch.count, sent, now_ms, pulled, sampled)
        self._hops.add(partition, hop)
        self._sent[partition] = batch.end
        self._rate.sent(sent, batch.count, now_ms)
        effects += self._from_target(self._mirror.handle(Mirrored(copied), now_ms), now_ms)
        return effects + self._drain(size - sent, now_ms)

    def _is_pulled(self, batch: Batch) -> bool:
        """Whether the batch was asked for because nobody brings it to the target."""
        goal = self._pulling.get(batch.partition)
        if goal is None:
            return False
        if batch.end >= goal:
            del self._pulling[batch.partition]
        return batch.sequence < goal

    def _copied(self, batch: Batch, envelope: Envelope, flags: int) -> Batch:
        """The batch as it stands in the target: the same records under new flags."""
        envelope = Envelope(envelope.origin or self._origin, flags, self._epoch)
        content = stamped(compressed_content(batch.content, self._settings.codec), envelope)
        return Batch(batch.partition, batch.sequence, batch.count, content)

    def _stored(self, stored: Stored, now_ms: int) -> list[SidedEffect]:
        sided: list[SidedEffect] = []
        self._comparison.stored(stored.partition, stored.end)
        self._passing.pop(stored.partition, None)
        self.stops.stored(stored.partition)
        for hop in self._hops.stored(stored.partition, stored.end):
            self._moved_ms[stored.partition] = self._taken_ms = now_ms
            self._stalled = False
            self._latency_ms = now_ms - hop.taken_ms
            internal = stored.partition.topic.startswith(INTERNAL)
            hopped = Hopped(
                hop.records, hop.size, self._latency_ms, hop.pulled, hop.sampled, internal
            )
            sided.append((Side.TARGET, hopped))
        return sided

    def _drain(self, size: int, now_ms: int) -> list[SidedEffect]:
        """Give room back to the consumer, which may go on fetching; not before the rate allows."""
        self._owed += size
        if not self._owed or now_ms < self._rate.due_ms:
            return []
        size, self._owed = self._owed, 0
        return self._from_source(self._source.handle(Consumed(size), now_ms), now_ms)
