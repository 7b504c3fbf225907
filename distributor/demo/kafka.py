"""The data set between Kafka clients: a producer at one cluster, a group at another.

On the way the group's gateway is killed; the steps are here, `distributor.cli.demo` shows them.
"""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from distributor.demo.committed_reading import CommittedReading
from distributor.demo.dataset import TOPICS, rows
from distributor.demo.job import READY_S, ROW_HEADER, STALLED_S, Published
from distributor.errors import PlanError, ProcessError

if TYPE_CHECKING:
    from distributor.local.supervisor import Supervisor
    from topology.model import ClusterSpec, Topology

GROUP = "demo"
PARTITIONS = 4

KILL_AFTER = 50_000
"""So many rows the group has read before its gateway is killed; or all of the first topic."""

_CONSUMED_MAX = 1_000
"""How many records are taken, and committed, at once."""

_POLL_S = 0.1
_ASK_S = 5.0
"""How long a gateway may take to answer what is asked again anyway."""


def gateways_of(topology: Topology) -> tuple[str, str]:
    """Where the producer goes, at the first cluster, and the group, at the last.

    Raises:
        PlanError: One of them has no gateway.
    """
    here, there = topology.clusters[0], topology.clusters[-1]
    return _gateway_of(here), _gateway_of(there)


def _gateway_of(cluster: ClusterSpec) -> str:
    if not cluster.gateways:
        raise PlanError(f"{cluster.name!r} has no gateway: see config/kafka.yaml for one that has")
    gateway = cluster.gateways[0]
    return gateway.advertised_listener or gateway.listen


class KafkaRun:
    """One run of the data set from a producer to a group.

    Args:
        run: What tells its records from those of runs before.
        here: The gateway of the producer.
        there: The gateway of the group.
        limit: At most so many rows of each topic; None for all.
    """

    def __init__(self, run: str, here: str, there: str, limit: int | None) -> None:
        self._run = run
        self._here = here
        self._there = there
        self._limit = limit
        self._failed: list[KafkaError] = []
        self._first_sent = Event()
        self._going_on = Event()
        self._all_sent = Event()
        self._finished = Event()
        self._commits = 0
        self.published = Published()
        self.reading = CommittedReading()

    def make_topics(self, supervisor: Supervisor, ready_s: float = READY_S) -> None:
        """Make the topics at the producer's gateway, and wait until the group's has them.

        Raises:
            ProcessError: They are not there in time.
        """
        deadline = time.monotonic() + ready_s
        made = [NewTopic(topic, PARTITIONS, 1) for topic in TOPICS]
        here, there = (AdminClient(_quiet(one)) for one in (self._here, self._there))
        while True:
            supervisor.watch()
            with suppress(KafkaException):
                here.create_topics(made)
                if set(TOPICS) <= there.list_topics(timeout=_ASK_S).topics.keys():
                    return
            if time.monotonic() > deadline:
                raise ProcessError(f"no topics at {self._there} within {ready_s:.0f} s")
            time.sleep(_POLL_S)

    def publish(self) -> Published:
        """Publish every row by an idempotent producer.

        Before the second topic it waits for `go_on`: something is always under way until then.

        Raises:
            ProcessError: Not all of it is acknowledged.
        """
        producer = Producer(_quiet(self._here) | {"enable.idempotence": True, "linger.ms": 20})
        began = time.monotonic()
        for row in rows(self._limit):
            if row.topic != TOPICS[0] and not self._first_sent.is_set():
                self._flush(producer)
                self._first_sent.set()
                self._going_on.wait()
            header = f"{self._run} {self.published.rows}".encode()
            self._produce(producer, row.topic, row.key, row.value, header)
            self.published.rows += 1
            self.published.size += len(row.key) + len(row.value)
        self._flush(producer)
        self.published.seconds = time.monotonic() - began
        self._all_sent.set()
        return self.published

    def _produce(
        self, producer: Producer, topic: str, key: bytes, value: bytes, header: bytes
    ) -> None:
        while True:
            try:
                producer.produce(
                    topic, value, key, headers=[(ROW_HEADER, header)], on_delivery=self._answered
                )
            except BufferError:  # as many are under way as may be
                producer.poll(_POLL_S)
            else:
                producer.poll(0)
                return

    def _answered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def _flush(self, producer: Producer) -> None:
        missing = producer.flush(STALLED_S)
        if missing or self._failed:
            reason = self._failed[0].str() if self._failed else "no answer"
            raise ProcessError(f"{missing + len(self._failed)} rows are not stored: {reason}")

    @property
    def under_way(self) -> bool:
        """Whether the group has read and committed enough for its gateway to be killed."""
        enough = self._first_sent.is_set() or self.reading.rows >= KILL_AFTER
        return enough and self._commits > 0

    def go_on(self) -> None:
        """Let the second topic be published."""
        self._going_on.set()

    def read(self) -> None:
        """Be the group's member until it has read and committed all rows, or `finish` is called."""
        group = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer(_quiet(self._there) | group | {"session.timeout.ms": 6_000})
        consumer.subscribe(list(TOPICS))
        due = False
        while not self._finished.is_set():
            for message in consumer.consume(_CONSUMED_MAX, _POLL_S):
                if message.error() is None:
                    self._take(message)
                    due = True
            due = due and not self._commit(consumer)
            if self._all_sent.is_set() and self.reading.rows >= self.published.rows and not due:
                break
        consumer.close()

    def _take(self, message: Message) -> None:
        header = dict(message.headers() or ()).get(ROW_HEADER)
        run, _, number = (header.decode() if isinstance(header, bytes) else "").partition(" ")
        if run == self._run:
            place = str(message.topic()), int(message.partition() or 0)
            self.reading.take(place, int(message.offset() or 0), int(number))

    def _commit(self, consumer: Consumer) -> bool:
        """False if nobody has acknowledged it: it is tried again, or the records come again."""
        try:
            offsets = consumer.commit(asynchronous=False) or []
        except KafkaException:
            return False
        self._commits += 1
        self.reading.commit({(one.topic, one.partition): one.offset for one in offsets})
        return True

    def finish(self) -> None:
        """End what goes on."""
        self._finished.set()
        self._going_on.set()


def _quiet(endpoint: str) -> dict[str, str | int | float | bool]:
    """Settings of a client that says nothing by itself."""
    return {"bootstrap.servers": endpoint, "log_level": 0}
