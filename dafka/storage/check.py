"""Reading a whole log to see whether it is what it says.

LMDB keeps no checksums of its pages. Record batches have one, and so have the rows of partitions
and tables, which are looked at when they are read. A damaged page can also end the process that
reads it, so whoever wants to go on does this in another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.errors import RecordError, StorageError
from dafka.limits import BATCH_RECORDS_MAX, READ_BYTES_MAX
from dafka.records.batch import checked_count

if TYPE_CHECKING:
    from dafka.model import Batch, Partition
    from dafka.storage.log import Extent, RecordLog

PROBLEMS_MAX = 100
"""A log with so many has more; nobody reads them."""


@dataclass(slots=True)
class CheckReport:
    """What there is, and what is wrong with it."""

    partitions: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0
    problems: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    """No damage: records that no store of the cluster had when this one went on without them."""
    unread: int = 0
    """Partitions that were not looked at, as there was so much wrong with others."""


def check(log: RecordLog) -> CheckReport:
    """Read every batch of `log`; changes nothing.

    Checked are the order and the count of sequences, the checksum of each batch, and the sums the
    log keeps of its partitions.
    """
    findings = CheckReport()
    for partition, extent in sorted(log.extents().items()):
        findings.partitions += 1
        try:
            _check(log, partition, extent, findings)
        except StorageError as error:
            findings.problems.append(f"{_name(partition)}: {error}")
        if len(findings.problems) >= PROBLEMS_MAX:
            findings.unread = len(log.extents()) - findings.partitions
            break
    return findings


def _check(log: RecordLog, partition: Partition, extent: Extent, findings: CheckReport) -> None:
    expected, size = extent.start, 0
    while expected <= extent.head:
        batches = log.read(partition, expected, BATCH_RECORDS_MAX, READ_BYTES_MAX)
        if not batches or batches[0].sequence != expected:
            gap = next(iter(log.outlines(partition, expected, 1)), None)
            if gap is None or gap.size or gap.sequence != expected:
                findings.problems.append(
                    f"{_name(partition)}: records from {expected} on are missing"
                )
                return
            if len(findings.gaps) < PROBLEMS_MAX:
                findings.gaps.append(f"{_name(partition)}: {gap.sequence} to {gap.end - 1}")
            expected = gap.end
            continue
        for batch in batches:
            if batch.sequence != expected:
                break  # told at the next read
            findings.batches += 1
            findings.records += batch.count
            size += len(batch.content)
            problem = _problem(batch)
            if problem is not None:
                findings.problems.append(f"{_name(partition)} at {expected}: {problem}")
            expected = batch.end
    findings.size += size
    if expected != extent.head + 1 or size != extent.size:
        findings.problems.append(
            f"{_name(partition)}: {size:,} bytes up to {expected - 1}, "
            f"it says {extent.size:,} up to {extent.head}"
        )


def _problem(batch: Batch) -> str | None:
    try:
        count = checked_count(batch.content, batch.sequence)
    except RecordError as error:
        return error.reason
    return None if count == batch.count else f"{count} records, it says {batch.count}"


def _name(partition: Partition) -> str:
    return f"{partition.topic}/{partition.address}"
