"""In which order runs come in a topic, and that each is ended before the next one is begun.

The register of a topic has the run that was placed there last. Whoever comes with another one ends
that first: publishes what of it is not published, wherever it has rows, and says so to the run's
key. So what a dead driver has left is ended by the next one, and a driver that comes back after
others have gone on finds that its run is whole.

A run is placed in its topics in the order of their names. So when one is found in a topic, all that
came before it in earlier topics are whole, and ending it needs to end others in later ones only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.errors import DafkaError, MisuseError, QueryError
from dafka.groups.membership import NOBODY, majority_of
from dafka.groups.runs import (
    RECENT_RUNS,
    SESSION_MS,
    AgreedRun,
    RunState,
    TopicSink,
    enrolled_run,
    enrolled_sink,
    group_of_key,
    run_in,
    sink_in,
)
from dafka.query.agreement import PATIENCE_MS, Register
from dafka.spark.publication import LostRowsError
from dafka.spark.topic_sinks import group_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.cluster import Cluster
    from dafka.groups.membership import Membership
    from dafka.groups.runs import Manifest
    from dafka.query.cluster_client import ClusterClient
    from dafka.spark.publication import CommitPorts, Publisher

log = logging.getLogger(__name__)


class RepeatedError(DafkaError):
    """A run that is repeated comes too late, is another one, or cannot be ended any more."""


class Placing:
    """Places runs in their topics. Used by one thread at a time.

    Args:
        cluster: Whose stores agree.
        stores: How they are asked.
        publisher: What publishes them.
        ports: What is around it.
        patience_ms: For how long stores are asked to agree.
    """

    def __init__(
        self,
        cluster: Cluster,
        stores: ClusterClient,
        publisher: Publisher,
        ports: CommitPorts,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        self._cluster = cluster
        self._stores = stores
        self._publisher = publisher
        self._ports = ports
        self._patience_ms = patience_ms
        self._registers: dict[str, Register] = {}
        self._seen: dict[str, TopicSink] = {}
        """What topics' registers had when they were last looked at: that it is old is noticed when
        it shall be changed."""

    def claim(self, topic: str, partitions: int) -> None:
        """Let sinks have so many partitions in a topic, unless they have some.

        Raises:
            MisuseError: They have another number.
            QueryError: Not enough stores answer.
        """
        register = self._register(group_for(self._cluster, topic))
        sink = sink_in(register.read())
        if sink is None:
            first = TopicSink(1, self._ports.draw(), (0,) * partitions)
            enrolled = enrolled_sink(first, len(self._cluster.stores))
            sink = _sink(
                topic, register.change(lambda there: enrolled if there == NOBODY else there)
            )
        if len(sink.ends) != partitions:
            raise MisuseError(
                f"rows for topic {topic!r} were dealt to {partitions} partitions, and sinks have "
                f"{len(sink.ends)} there: nothing of them is published. Leave the option "
                f"'partitions' out, or say {len(sink.ends)}; if it was not said, run it again"
            )
        self._seen[topic] = sink

    def agreed(self, mine: Manifest) -> AgreedRun:
        """Agree with others who have the same key on its next run; returns the last that there is.

        Raises:
            RepeatedError: The run before this one cannot be ended.
            MisuseError: It has too many tasks and topics.
            NotStoredError: Not enough stores acknowledge.
            QueryError: Not enough stores answer.
        """
        register = self._register(group_of_key(mine.key))
        found = run_in(register.read())
        while found is None or found.manifest.run < mine.run:
            if found is not None:
                self.end_earlier(found)
            found = run_in(register.change(self._offer(found, AgreedRun(mine))))
        return found

    def end_earlier(self, found: AgreedRun) -> None:
        """End the run of a key that was agreed on before.

        Raises:
            RepeatedError: It cannot be ended.
        """
        if found.state is RunState.OPEN:
            self.end(found.manifest, mine=False)
        elif found.state is RunState.LOST:
            raise _lost(found.manifest, "as the run that came next in its topic has found")

    def end(self, manifest: Manifest, *, mine: bool) -> None:
        """Place a run in all its topics, and publish it; returns when stores have all of it.

        Args:
            manifest: That was agreed on, if anybody else may know its key.
            mine: Whether it is this driver's own: others are let do what they are at.

        Raises:
            RepeatedError: It cannot be ended: what was staged is kept no more.
            NotStoredError: Not enough stores acknowledge.
            QueryError: Not enough stores answer.
        """
        try:
            for topic in manifest.topics:
                if not self._end_in(topic, manifest, mine=mine):
                    return
        except LostRowsError as error:
            raise _lost(manifest, str(error)) from error

    def _end_in(self, topic: str, manifest: Manifest, *, mine: bool) -> bool:
        """Place a run in one topic, and publish it; False if others have ended it everywhere."""
        sink = self._seen.get(topic)
        if sink is None:
            sink = _sink(topic, self._register(group_for(self._cluster, topic)).read())
        if manifest.is_that_of(sink.last):
            self._publisher.complete(topic, sink, patient=not mine)
            return True
        since = sink.generation
        while not manifest.is_that_of(sink.last):
            if self._is_ended(topic, manifest, sink, mine=mine):
                return False
            if sink.generation > since + RECENT_RUNS:
                raise QueryError(
                    f"so many runs were placed in topic {topic!r} meanwhile that it is not known "
                    f"whether {manifest.key} was among them"
                )
            sink = self._placed(topic, manifest, sink)
        self._publisher.publish(topic, sink)
        return True

    def _placed(self, topic: str, manifest: Manifest, before: TopicSink) -> TopicSink:
        """Place a run behind what is there; returns what is there then, this run or another."""
        whole = before.last is None or self._settled(topic, before, before.last)
        after = before.after(topic, manifest, None if whole else self._ports.draw())
        enrolled = enrolled_sink(after, len(self._cluster.stores))
        register = self._register(group_for(self._cluster, topic))

        def offer(there: Membership) -> Membership:
            # If somebody came between, what was made of what was there is void.
            return enrolled if there.generation == before.generation else there

        sink = self._seen[topic] = _sink(topic, register.change(offer))
        return sink

    def _settled(self, topic: str, sink: TopicSink, last: Manifest) -> bool:
        """End the last run of a topic, and tell who may ask for it.

        Returns:
            Whether all that the topic has of it is published; if it never can be, these partitions
            have a hole, and nobody can go on in them.
        """
        lost: list[RepeatedError] = []
        try:
            self._publisher.complete(topic, sink, patient=True)
        except LostRowsError as error:
            lost.append(_lost(last, str(error)))
        whole = not lost
        if len(last.topics) > 1:
            try:
                self.end(last, mine=False)
            except RepeatedError as error:
                lost.append(error)
        for one in lost:
            log.error("rows are lost: %s", one)
        self._tell(topic, last, RunState.LOST if lost else RunState.WHOLE)
        return whole

    def _tell(self, topic: str, last: Manifest, state: RunState) -> None:
        """Say of a run how far it is, where who comes back with it, or ends it elsewhere, asks."""
        if last.shared:
            register = self._register(group_of_key(last.key))
            before = run_in(register.read())
            if before is not None and _is_open(before, last):
                register.change(self._offer(before, AgreedRun(last, state)))
            return
        first = min(last.topics)
        if first != topic:
            register = self._register(group_for(self._cluster, first))
            register.change(lambda there: self._released(first, there, last))

    def _released(self, topic: str, there: Membership, last: Manifest) -> Membership:
        sink = _sink(topic, there)
        if not last.is_that_of(sink.last):
            return there
        return enrolled_sink(sink.without_last(), len(self._cluster.stores))

    def _is_ended(self, topic: str, manifest: Manifest, sink: TopicSink, *, mine: bool) -> bool:
        """Whether a run that is not a topic's last one is whole, or it was never placed there.

        What tells is read after the topic's register: who takes its place there has said so before.

        Raises:
            RepeatedError: It is lost.
        """
        if manifest.shared:
            found = run_in(self._register(group_of_key(manifest.key)).read())
            if found is None:
                raise _forgotten(f"the run of {manifest.key}")
            if mine and manifest.is_that_of(found.manifest) and found.state is RunState.LOST:
                raise _lost(manifest, "as the run that came next in its topic has found")
            return not _is_open(found, manifest)
        first = min(manifest.topics)
        if topic == first:
            return not mine or manifest.key in sink.recent
        home = _sink(first, self._register(group_for(self._cluster, first)).read())
        return not manifest.is_that_of(home.last)

    def _offer(
        self, before: AgreedRun | None, mine: AgreedRun
    ) -> Callable[[Membership], Membership]:
        def offer(there: Membership) -> Membership:
            # If somebody came between, what was made of what was there is void.
            if run_in(there) != before:
                return there
            return enrolled_run(mine, there.generation + 1, len(self._cluster.stores))

        return offer

    def stores_agree(self) -> bool:
        """Whether so many stores answer that they could agree on anything."""
        answers = self._stores.all(lambda store: store.health())
        return len(answers.given) >= majority_of(len(self._cluster.stores))

    def _register(self, group: str) -> Register:
        register = self._registers.get(group)
        if register is None:
            register = self._registers[group] = Register(
                *(self._cluster, group, SESSION_MS),
                patience_ms=self._patience_ms,
                stores=self._stores,
                clock=self._ports.clock,
                name=self._ports.draw(),
            )
        return register


def _sink(topic: str, membership: Membership) -> TopicSink:
    sink = sink_in(membership)
    if sink is None:
        raise _forgotten(f"what sinks have in topic {topic!r}")
    return sink


def _forgotten(what: str) -> QueryError:
    return QueryError(
        f"{what} is not known any more to the stores, which agreed on it: as many as block a "
        "majority have new disks; of this run nothing further is published"
    )


def _is_open(found: AgreedRun, manifest: Manifest) -> bool:
    return manifest.is_that_of(found.manifest) and found.state is RunState.OPEN


def _lost(manifest: Manifest, reason: str) -> RepeatedError:
    return RepeatedError(
        f"run {manifest.run} of {manifest.key} cannot be ended: not all of it is published, and "
        f"what was staged of that is kept no more: {reason}. Begin with a new checkpoint or runId"
    )
