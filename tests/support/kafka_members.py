"""Consumers of three makes as members of groups, each in a thread of its own."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread

import aiokafka
import confluent_kafka
import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

WAIT_S = 120
POLL_S = 0.1


class Member:
    """A consumer of one topic. What it has read it commits before it reads on, if it is told to.

    Args:
        endpoint: Of a gateway.
        topic: Which.
        group: Which.
        instance: The name of a static member.
        cooperative: Whether partitions stay where they are while others are given away.
        commits: Whether it commits.
        session_s: After so much silence it is taken for dead.
        assigned_by_coordinator: Whether it speaks the protocol of KIP-848; the session is the
            coordinator's then.
    """

    def __init__(
        self,
        endpoint,
        topic,
        group="billing",
        *,
        instance=None,
        cooperative=False,
        commits=True,
        session_s=10,
        assigned_by_coordinator=False,
    ):
        self.endpoint, self.topic, self.group, self.instance = endpoint, topic, group, instance
        self.cooperative, self.commits, self.session_s = cooperative, commits, session_s
        self.assigned_by_coordinator = assigned_by_coordinator
        self.got = []
        """Numbers of partitions, and offsets."""
        self.assigned = frozenset()
        """Numbers of partitions."""
        self.history = []
        """What it was assigned, one after the other."""
        self.error = None
        self._calls = SimpleQueue()
        self._ends = False
        self._thread = Thread(target=self._main, name=f"member-{type(self).__name__}")
        self._thread.start()

    def call(self, work):
        """Do something in its thread; returns what that returns."""
        done = Future()
        self._calls.put((work, done))
        return done.result(WAIT_S)

    def commit(self, offsets, metadata=""):
        """By number of partition."""
        self.call(lambda: self._commit(offsets, metadata))

    def committed(self, number):
        """Offset and metadata."""
        return self.call(lambda: self._committed(number))

    def leave(self):
        self._ends = True
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()
        assert self.error is None, self.error

    def _main(self):
        try:
            self._open()
            try:
                while not self._ends:
                    self._turn()
            finally:
                self._close()
        except Exception as error:
            self.error = error
            raise

    def _turn(self):
        found = self._poll()
        if found and self.commits:
            self._commit({number: offset + 1 for number, offset in found}, "")
        self.got += found
        assigned = self._assignment()
        if assigned != self.assigned:
            self.assigned = assigned
            self.history.append(assigned)
        try:
            work, done = self._calls.get_nowait()
        except Empty:
            return
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - whoever called is told
            done.set_exception(error)


class Librdkafka(Member):
    def _open(self):
        settings = {
            "bootstrap.servers": self.endpoint,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
        if self.assigned_by_coordinator:
            settings["group.protocol"] = "consumer"
        else:
            settings |= {
                "session.timeout.ms": round(self.session_s * 1_000),
                "heartbeat.interval.ms": round(self.session_s * 200),
                "partition.assignment.strategy": (
                    "cooperative-sticky" if self.cooperative else "range"
                ),
            }
        if self.instance is not None:
            settings["group.instance.id"] = self.instance
        self.consumer = confluent_kafka.Consumer(settings)
        self.consumer.subscribe([self.topic])

    def _poll(self):
        message = self.consumer.poll(POLL_S)
        if message is None:
            return []
        assert message.error() is None, message.error()
        return [(message.partition(), message.offset())]

    def _assignment(self):
        return frozenset(one.partition for one in self.consumer.assignment())

    def _commit(self, offsets, metadata):
        self.consumer.commit(
            offsets=[
                confluent_kafka.TopicPartition(self.topic, number, offset, metadata)
                for number, offset in offsets.items()
            ],
            asynchronous=False,
        )

    def _committed(self, number):
        place = confluent_kafka.TopicPartition(self.topic, number)
        (found,) = self.consumer.committed([place], WAIT_S)
        return found.offset, found.metadata or ""

    def _close(self):
        self.consumer.close()


class KafkaPython(Member):
    def _open(self):
        assignors = {}
        if self.cooperative:
            assignors = {"partition_assignment_strategy": [CooperativeStickyAssignor]}
        self.consumer = kafka.KafkaConsumer(
            self.topic,
            bootstrap_servers=self.endpoint,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=round(self.session_s * 1_000),
            heartbeat_interval_ms=round(self.session_s * 200),
            **assignors,
        )

    def _poll(self):
        found = self.consumer.poll(timeout_ms=round(POLL_S * 1_000), max_records=10)
        return [(one.partition, one.offset) for batch in found.values() for one in batch]

    def _assignment(self):
        return frozenset(one.partition for one in self.consumer.assignment())

    def _commit(self, offsets, metadata):
        self.consumer.commit(
            {
                kafka.TopicPartition(self.topic, number): kafka.OffsetAndMetadata(
                    offset, metadata, -1
                )
                for number, offset in offsets.items()
            }
        )

    def _committed(self, number):
        place = kafka.TopicPartition(self.topic, number)
        found = self.consumer.committed(place, metadata=True)
        return (found.offset, found.metadata) if found else (-1, "")

    def _close(self):
        self.consumer.close()


class Aiokafka(Member):
    def _open(self):
        self.loop = asyncio.new_event_loop()

        async def begin():
            self.consumer = aiokafka.AIOKafkaConsumer(
                self.topic,
                bootstrap_servers=self.endpoint,
                group_id=self.group,
                group_instance_id=self.instance,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=round(self.session_s * 1_000),
                heartbeat_interval_ms=round(self.session_s * 200),
            )
            await self.consumer.start()

        self.loop.run_until_complete(begin())

    def _poll(self):
        found = self.loop.run_until_complete(
            self.consumer.getmany(timeout_ms=round(POLL_S * 1_000), max_records=10)
        )
        return [(one.partition, one.offset) for batch in found.values() for one in batch]

    def _assignment(self):
        return frozenset(one.partition for one in self.consumer.assignment())

    def _commit(self, offsets, metadata):
        commits = {
            aiokafka.TopicPartition(self.topic, number): (offset, metadata)
            for number, offset in offsets.items()
        }
        self.loop.run_until_complete(self.consumer.commit(commits))

    def _committed(self, number):
        place = aiokafka.TopicPartition(self.topic, number)
        offset = self.loop.run_until_complete(self.consumer.committed(place))
        return offset, None  # it does not tell

    def _close(self):
        self.loop.run_until_complete(self.consumer.stop())
        self.loop.close()


MAKES = [Librdkafka, KafkaPython, Aiokafka]


def until(holds, *members):
    """Wait until something holds, for as long as the members are well."""
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        for member in members:
            assert member.error is None, member.error
        said = [(type(one).__name__, one.assigned, len(one.got)) for one in members]
        assert time.monotonic() < deadline_s, said
        time.sleep(0.01)
