"""What each step of a record's way costs by itself: a batch of a thousand records of 100 B."""

from __future__ import annotations

import timeit
from typing import TYPE_CHECKING

from benchmarks.storage import RECORDS, P, batch_of
from dafka.model import replace
from dafka.process.metrics import traffic
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings
from dafka.protocol.events import Consumed, Received
from dafka.records.batch import BatchBuilder, checked_count, enclosed, records_of, values_of
from dafka.records.envelope import Envelope, stamped
from dafka.wire import messages, rfc46

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness import Results

SIZE = 100
RUNS = 50
COPIED = Envelope(origin=1, copy_flags=1)


def steps(results: Results) -> None:
    """Nanoseconds a record, or microseconds a batch, whichever the step is paid by."""
    value = bytes(SIZE)
    values = [value] * RECORDS
    batch = batch_of(0, SIZE)
    content = batch.content
    message = messages.Records(P.topic, P.address, 0, RECORDS, content)
    frames = rfc46.encode(message)
    machine = ConsumerMachine("C" * 32, ConsumerSettings(topics=(P.topic,)))
    tally = traffic("bench", "in")
    next_sequence = 0

    def append_each() -> None:
        builder = BatchBuilder(1 << 24)
        for one in values:
            builder.append(0, None, one, ())

    def append_all() -> None:
        BatchBuilder(1 << 24).extend(0, values, 0)

    def iterate() -> None:
        for _ in records_of(batch):
            pass

    def receive() -> None:
        nonlocal next_sequence
        machine.handle(Received(replace(message, sequence=next_sequence)), 0)
        machine.handle(Consumed(len(content)), 0)
        next_sequence += RECORDS

    built = BatchBuilder(1 << 24)
    built.extend(0, values, 0)
    records_octets = built.build()
    by_record: dict[str, Callable[[], object]] = {
        "append a record": append_each,
        "append values in bulk": append_all,
        "iterate records": iterate,
        "take values in bulk": lambda: values_of(batch),
    }
    by_batch: dict[str, Callable[[], object]] = {
        "enclose a batch": lambda: enclosed(records_octets, 7),
        "encode its message": lambda: rfc46.encode(message),
        "decode its message": lambda: rfc46.decode(frames),
        "check structure and CRC32C": lambda: checked_count(content, 0),
        "stamp new flags on a copy": lambda: stamped(content, COPIED),
        "pass through the consumer's machine": receive,
        "count it in the metrics": lambda: tally.add(RECORDS, len(content)),
    }
    for name, step in by_record.items():
        results.add(f"step: {name}", "ns/record", _seconds(step) / RECORDS * 1e9)
    for name, step in by_batch.items():
        results.add(f"step: {name}", "us/batch", _seconds(step) * 1e6)


def _seconds(step: Callable[[], object]) -> float:
    """The fastest of a few: the others were disturbed."""
    return min(timeit.repeat(step, number=RUNS, repeat=5)) / RUNS
