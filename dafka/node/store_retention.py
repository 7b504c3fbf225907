"""What a store drops: by its rules, of ledgers what nobody needs, and late what is held."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.limits import RETAINED_BATCHES_MAX
from dafka.node.chain_retention import ChainRetention
from dafka.process import metrics

if TYPE_CHECKING:
    from dafka.model import Partition
    from dafka.storage.holds import Holds
    from dafka.storage.log import RecordLog
    from dafka.storage.retention import Retainer

log = logging.getLogger(__name__)

TOLD_MAX = 10
"""So many partitions are named in the log at once."""


class StoreRetention:
    """That of one store.

    Args:
        record_log: From which it drops.
        retainer: Says what need not be kept.
        holds: What clusters have of it that must have it.
    """

    def __init__(self, record_log: RecordLog, retainer: Retainer, holds: Holds) -> None:
        self._log, self._retainer, self._holds = record_log, retainer, holds
        self._chains = ChainRetention()
        metrics.RELEASED.labels(record_log.identity)  # an increase from nothing is none
        self._released: dict[Partition, int] = {}
        """Records that were dropped though they were held, and not told of yet."""

    @property
    def behind(self) -> bool:
        """Whether there is more to look at."""
        return self._chains.behind

    def step(self, time_ms: int, generation: int) -> bool:
        """Drop a bounded part of what need not be kept; whether there was something.

        Args:
            time_ms: What time it is for retention.
            generation: The last one of the gateways that the store knows of.

        Raises:
            StorageError: The disk refused.
        """
        due = self._retainer.due(self._log, time_ms, RETAINED_BATCHES_MAX, self._holds.floor)
        address = self._log.identity
        metrics.HOLD_USED.labels(address).set(due.used)
        trims = due.trims | self._chains.due(self._log, RETAINED_BATCHES_MAX, generation)
        if not trims:
            self._log.commit()
            return False
        before = {partition: self._log.extents()[partition].start for partition in trims}
        released = due.released(self._log.extents())
        self._log.append((), trims=trims)
        dropped = sum(self._log.extents()[one].start - start for one, start in before.items())
        metrics.TRIMMED.labels(address).inc(dropped)
        log.info("dropped by retention", extra={"records": dropped, "partitions": len(trims)})
        metrics.RELEASED.labels(address).inc(sum(released.values()))
        for partition, records in released.items():
            self._released[partition] = self._released.get(partition, 0) + records
        return True

    def tell(self) -> None:
        """Say in the log what was dropped though clusters lack it, since that was said last."""
        released, self._released = self._released, {}
        for partition in list(released)[:TOLD_MAX]:
            log.error(
                "records were dropped that a cluster lacks: their hold has reached its bound",
                extra={
                    "topic": partition.topic,
                    "address": partition.address,
                    "records": released[partition],
                    "partitions": len(released),
                },
            )

    def close(self) -> None:
        """Tell metrics nothing any more."""
        metrics.HOLD_USED.remove(self._log.identity)
