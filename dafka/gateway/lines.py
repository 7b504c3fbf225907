"""How the lines of a ledger are kept: each a record's value in a log of its own (ADR 28).

Each ownership of a Kafka partition has a *chain*: a partition of the internal topic `__ledger`
whose records are the lines, in their order. So a line's number is its sequence, and stores
acknowledge lines as they do all records. A chain's address says which partition and epoch it is
of, so that whoever takes over reads the newest alone.

| octets of an address | what |
|---|---|
| 16 hex digits | as its gateway's address begins |
| 8 hex digits | CRC-32 of the Kafka partition's topic, NUL and number |
| 8 hex digits | epoch |

| bytes of a line, big-endian | what |
|---|---|
| 1 | kind |
| 8 | offset |
| 8 | first sequence; in a beginning the epoch |
| 4 | count of records; in a beginning the partition's number |
| 8, 2, 4 | producer id, epoch and base sequence; -1 each for none |
| the rest | address; in a beginning the topic |
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from dafka.gateway.broker import KafkaPartition
from dafka.gateway.events import LedgerLine, LineKind, Produced
from dafka.limits import ADDRESS_BYTES_MAX
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LEDGER = "__ledger"
"""The topic of all chains. Like everything that begins so it stays in its cluster."""

EPOCH_MAX = 2**31 - 1
"""Kafka's leader epochs have 31 bits."""

PLACE_MAX = 2**62
"""Offsets and sequences are below, so that what is added to them has room."""

_LINE = struct.Struct(">BqqIqhi")
_KINDS = (
    *(LineKind.BEGIN, LineKind.ENTRY, LineKind.OPEN, LineKind.TRIM, LineKind.SKIP),
    *(LineKind.PRODUCED, LineKind.SETTLED),
)
_OCTETS = {kind: octet for octet, kind in enumerate(_KINDS)}
_NOBODY = (-1, -1, -1)
_CHAIN = re.compile("[0-9A-F]{16}([0-9A-F]{8})([0-9A-F]{8})")


class ChainName(NamedTuple):
    """What the address of a chain says: `mark` is the same for few partitions, the epoch is its."""

    mark: int
    epoch: int


def mark_of_partition(partition: KafkaPartition) -> int:
    """Return what the address of a partition's chains has of it."""
    return zlib.crc32(b"%b\0%d" % (octets_of(partition.topic), partition.number))


def chain_address(gateway: str, partition: KafkaPartition, epoch: int) -> str:
    """Return the address of a gateway's chain."""
    assert 0 < epoch <= EPOCH_MAX
    return f"{gateway[:16]}{mark_of_partition(partition):08X}{epoch:08X}"


def chain_name(address: str) -> ChainName | None:
    """Read the address of a chain; None if it is none."""
    found = _CHAIN.fullmatch(address)
    return None if found is None else ChainName(int(found[1], 16), int(found[2], 16))


def encoded(line: LedgerLine, partition: KafkaPartition) -> bytes:
    """Return the value that a line of a partition's chain is kept as."""
    begins = line.kind is LineKind.BEGIN
    return _LINE.pack(
        _OCTETS[line.kind],
        line.offset,
        line.epoch if begins else line.first,
        partition.number if begins else line.records,
        *(line.produced[:3] if line.produced else _NOBODY),
    ) + octets_of(partition.topic if begins else line.address)


def kind_of(value: bytes | None) -> LineKind | None:
    """Return of what kind a line is, which is all that is looked at; None if it is none."""
    return _KINDS[value[0]] if value and value[0] < len(_KINDS) else None


def decoded(
    value: bytes | None, epoch: int, number: int
) -> tuple[LedgerLine, KafkaPartition | None] | None:
    """Read a line; of a beginning also whose chain it is. None if it is none."""
    if value is None or not _LINE.size <= len(value) <= _LINE.size + ADDRESS_BYTES_MAX:
        return None
    octet, offset, first, records, producer_id, producer_epoch, base = _LINE.unpack_from(value)
    if octet >= len(_KINDS) or not 0 <= offset <= PLACE_MAX or not 0 <= first <= PLACE_MAX:
        return None
    kind, name = _KINDS[octet], text(value[_LINE.size :])
    if kind is LineKind.BEGIN:
        return LedgerLine(first, number, kind, offset), KafkaPartition(name, records)
    if kind in (LineKind.ENTRY, LineKind.PRODUCED) and not records:
        return None
    produced = None
    if producer_id >= 0:
        produced = Produced(producer_id, producer_epoch, base, records)
    return LedgerLine(epoch, number, kind, offset, name, first, records, produced), None


def chain_of(
    values: Iterable[tuple[int, bytes | None]], partition: KafkaPartition, epoch: int
) -> Sequence[LedgerLine]:
    """Read a chain from its first beginning on, as far as its values are what they should be.

    Nothing, if it is another partition's or epoch's: their addresses may begin alike.

    Args:
        values: With their sequences.
        partition: Whose it has to be.
        epoch: Likewise.
    """
    lines: list[LedgerLine] = []
    for number, value in values:
        read = decoded(value, epoch, number)
        if read is None:
            break
        line, of = read
        if of is not None and (of, line.epoch) != (partition, epoch):
            break
        if lines or of is not None:
            lines.append(line)
    return lines
