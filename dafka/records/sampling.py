"""Which records of a batch their senders want to be traced: W3C's trace context, in a header.

`traceparent` is version, trace, span and flags in lower-case hex digits, `00-…-…-01`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import RecordError
from dafka.records.batch import is_compressed, raw_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.model import Batch, Partition

SAMPLED_MAX = 16
"""Of one batch: what a sender may cost a link is bounded."""

HEADER = "traceparent"

_WORD = HEADER.encode()
_CONTEXT = re.compile(
    rb"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?", re.S
)
_SAMPLED = 1


class SampledRecord(NamedTuple):
    """A record and the span of its sender."""

    partition: Partition
    sequence: int
    trace_id: int
    span_id: int


def sampled_in(batch: Batch) -> tuple[SampledRecord, ...]:
    """Return the sampled records of a batch that was checked, the first `SAMPLED_MAX` of them."""
    if _WORD not in batch.content and not is_compressed(batch.content):
        return ()
    found: list[SampledRecord] = []
    try:
        for one in _sampled(batch):
            found.append(one)
            if len(found) == SAMPLED_MAX:
                break
    except RecordError:
        # Readers pass over what cannot be read, and say so; here the rest is not traced.
        pass
    return tuple(found)


def _sampled(batch: Batch) -> Iterator[SampledRecord]:
    for record in raw_records(batch.content):
        for name, value in record.headers:
            match = _CONTEXT.fullmatch(value or b"") if name == HEADER else None
            if match is None or not int(match[3], 16) & _SAMPLED:
                continue
            trace_id, span_id = int(match[1], 16), int(match[2], 16)
            if trace_id and span_id:
                yield SampledRecord(batch.partition, record.sequence, trace_id, span_id)
            break
