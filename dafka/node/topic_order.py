"""What the owner of `__topics` or `__changes` reads there, in the order of its offsets."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.gateway.catalog import CONTROLLED, decoded_emptied, decoded_state, decoded_topic
from dafka.gateway.effects import ChangesOrdered, TopicsOrdered
from dafka.node.store_watch import AGAIN_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dafka.gateway.broker import KafkaPartition
    from dafka.gateway.effects import GatewayEvent
    from dafka.gateway.ledger import LedgerEntry
    from dafka.node.record_reader import RecordReader

    Ordered = Callable[[KafkaPartition, int, int], tuple[int, tuple[LedgerEntry, ...]]]

log = logging.getLogger(__name__)


class TopicOrder:
    """Reads what is new, in a thread of its own.

    Args:
        ordered: See `GatewayMachine.ordered`.
        reader: That of the thread that asks.
        post: Takes what is read to the gateway's node.
    """

    def __init__(
        self,
        ordered: Ordered,
        reader: Callable[[], RecordReader],
        post: Callable[[GatewayEvent], None],
    ) -> None:
        self._ordered, self._reader, self._post = ordered, reader, post
        self._read: dict[KafkaPartition, tuple[int, int]] = {}
        """Of which epoch, and up to which offset, each has been read."""
        self._thread = ThreadPoolExecutor(1, "dafka-topics")
        self._closing = threading.Event()
        self._failure: BaseException | None = None

    def grown(self, partition: KafkaPartition, end: int) -> None:
        """Clients may be told of more: read it."""
        epoch, read = self._read.get(partition, (0, 0))
        now_epoch, entries = self._ordered(partition, read, end)
        if now_epoch != epoch:
            read = 0
            now_epoch, entries = self._ordered(partition, read, end)
        self._read[partition] = now_epoch, end
        self._thread.submit(self._guarded, partition, now_epoch, read, entries)

    def unwell(self) -> str:
        """Why something was not read, for people; empty if all was."""
        return "" if self._failure is None else f"topics are not read: {self._failure}"

    def close(self) -> None:
        """End."""
        self._closing.set()
        self._thread.shutdown()

    def _guarded(
        self, partition: KafkaPartition, epoch: int, start: int, entries: Sequence[LedgerEntry]
    ) -> None:
        try:
            self._take(partition, epoch, start, entries)
        except BaseException as error:
            self._failure = error
            log.critical("topics are not read any more", exc_info=True)

    def _take(
        self, partition: KafkaPartition, epoch: int, start: int, entries: Sequence[LedgerEntry]
    ) -> None:
        while not self._closing.is_set():
            try:
                values = [
                    (entry.offset + sequence - entry.first, value)
                    for entry in entries
                    for sequence, value in self._reader().values(partition.topic, entry)
                ]
            except QueryError as error:
                log.warning("cannot read topics, it is tried again: %s", error)
                self._closing.wait(AGAIN_S)
                continue
            new = [(offset, value) for offset, value in values if offset >= start]
            self._post(_event(partition, epoch, new))
            return


def _event(
    partition: KafkaPartition, epoch: int, values: Sequence[tuple[int, bytes | None]]
) -> TopicsOrdered | ChangesOrdered:
    if partition == CONTROLLED:
        topics = (decoded_topic(value) for _, value in values)
        return TopicsOrdered(epoch, tuple(topic for topic in topics if topic is not None))
    changes = (
        (offset + 1, decoded_emptied(value) or decoded_state(value)) for offset, value in values
    )
    return ChangesOrdered(
        epoch, tuple((number, change) for number, change in changes if change is not None)
    )
