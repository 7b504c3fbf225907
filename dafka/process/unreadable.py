"""What a reader says of records that nobody can read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.process import metrics

if TYPE_CHECKING:
    from dafka.model import Batch

log = logging.getLogger(__name__)


def pass_over(batch: Batch, sequence: int) -> None:
    """Count and tell of the records of a batch from `sequence` on: see `PassedOver`."""
    metrics.UNREADABLE.inc(batch.end - sequence)
    log.error(
        "unreadable records are passed over: their producer made them so, every copy is alike",
        extra={
            "topic": batch.partition.topic,
            "address": batch.partition.address,
            "first": sequence,
            "last": batch.end - 1,
        },
    )
