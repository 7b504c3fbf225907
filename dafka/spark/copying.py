"""What a task of the sink for whole batches does: publish each under the name it has.

The names make it repeatable: stores drop what they have, whoever sends it how often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.model import Batch, Partition
from dafka.records.envelope import Envelope, stamped, unpack
from dafka.spark.publisher import mirror_of
from dafka.spark.topic_log import SILENCE_S
from dafka.wire.octets import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from dafka.spark.options import SinkOptions
    from dafka.spark.topic_log import Attempt

_ALL = (1 << 64) - 1


def copy(tables: Iterable[pa.RecordBatch], options: SinkOptions, _: Attempt) -> tuple[str, ...]:
    """Publish rows of whole batches; returns when stores have all.

    No topics: whoever copies takes names as they are, so nothing has to be said of them.

    Raises:
        NotStoredError: No store acknowledges, or one waits for records that are not among these.
        RecordError: A row's content is no batch.
    """
    options.access.introduce(options.servers, options.towers)
    mirror = mirror_of(options.towers, options.min_acks, options.access)
    begun: set[Partition] = set()
    try:
        for table in tables:
            for batch in _batches(table):
                if batch.partition not in begun:
                    begun.add(batch.partition)
                    # A mirror that wrote here before a failure would go on behind that.
                    mirror.forget((batch.partition,))
                    start = options.log_starts.get(batch.partition)
                    if start is not None:
                        mirror.begins(batch.partition, start)
                mirror.publish(batch, SILENCE_S)
        mirror.flush(SILENCE_S)
    finally:
        mirror.forget(begun)
    return ()


def _batches(table: pa.RecordBatch) -> Iterator[Batch]:
    for row in table.to_pylist():
        envelope = unpack(row["content"])
        if envelope is None:
            raise RecordError("envelope")
        envelope = Envelope(row["origin"], row["copy_flags"] & _ALL, envelope.epoch)
        partition = Partition(text(row["topic"]), text(row["partition"]))
        content = stamped(row["content"], envelope)
        yield Batch(partition, row["offset"], row["records"], content)
