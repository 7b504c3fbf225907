"""What is wrong with the ledger of a Kafka partition, as far as its stores show it (ADR 28)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.gateway.chains import folded, listed, readable
from dafka.gateway.ledger import HOLE
from dafka.groups.membership import blocking_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.gateway.broker import KafkaPartition
    from dafka.gateway.events import LedgerLine, StoreRead
    from dafka.gateway.ledger import Ledger


@dataclass(frozen=True, slots=True)
class CheckedLedger:
    """The ledger of a Kafka partition as its stores have it.

    Attributes:
        topic: Whose.
        partition: Its number there.
        epoch: Of the newest chain that is whole; 0 if there is none.
        start: The first offset that may name a record.
        stored: The offset behind what enough stores have, lines and records.
        end: The offset behind the list.
        runs: Entries of the list.
        holes: Offsets that name no record.
        problems: What should not be, in words; what is under way is here as well.
    """

    topic: str
    partition: int
    epoch: int
    start: int
    stored: int
    end: int
    runs: int
    holes: int
    problems: tuple[str, ...]


def check_ledger(
    partition: KafkaPartition, reads: Mapping[str, StoreRead], stores: int
) -> CheckedLedger:
    """Check the ledger of one Kafka partition.

    Args:
        partition: Which.
        reads: What each store that answers has of it, by what people call the store.
        stores: How many there are.
    """
    whole: dict[str, Sequence[LedgerLine]] = {}
    problems: list[str] = []
    for name, read in reads.items():
        chains = [chain for chain in map(readable, read.lines.values()) if chain]
        if any(folded(chain) is None for chain in chains):
            problems.append(f"{name} has lines that no owner can have written (L1, L4)")
        if chains:
            whole[name] = max(chains, key=lambda one: (one[0].epoch, one[-1].number))
    epoch = max((chain[0].epoch for chain in whole.values()), default=0)
    newest = {name: chain for name, chain in whole.items() if chain[0].epoch == epoch}
    if not newest:
        return CheckedLedger(*partition, 0, 0, 0, 0, 0, 0, ("no store has a whole beginning",))
    enough = blocking_of(stores)
    if len(newest) < enough:
        problems.append(f"{len(newest)} of {stores} stores have the newest beginning")
    problems += _differing(newest)
    ledger = listed(newest.values()).ledger
    lines = sorted((chain[-1].number for chain in newest.values()), reverse=True)
    known = lines[enough - 1] if len(lines) >= enough else -1
    longest = max(newest.values(), key=lambda chain: chain[-1].number)
    there = listed([[line for line in longest if line.number <= known]]).ledger
    stored, lacking = _stored(there, reads, enough)
    problems += lacking
    unlisted = sum(end > ledger.listed(address) for address, end in _ends(reads, enough).items())
    if unlisted:
        problems.append(f"records of {unlisted} Dafka partitions have no offset (L3)")
    holes = sum(entry.records for entry in ledger if entry.address == HOLE)
    extent = ledger.start, stored, ledger.end
    return CheckedLedger(*partition, epoch, *extent, len(ledger), holes, tuple(problems))


def _differing(chains: Mapping[str, Sequence[LedgerLine]]) -> list[str]:
    """Stores that have another line at a place than those before."""
    known: dict[int, LedgerLine] = {}
    found = []
    for name, chain in chains.items():
        for line in chain:
            if known.setdefault(line.number, line) != line:
                found.append(f"{name} has another line {line.number} of epoch {line.epoch} (L2)")
                break
    return found


def _stored(ledger: Ledger, reads: Mapping[str, StoreRead], enough: int) -> tuple[int, list[str]]:
    """Behind which offset something lacks, and what."""
    ends = _ends(reads, enough)
    for entry in ledger:
        have = ends.get(entry.address, 0) - entry.first
        if entry.address != HOLE and have < entry.records:
            last = entry.first + entry.records
            lacks = f"not enough stores have the records of {entry.address} below {last} (L8)"
            return entry.offset + max(0, have), [lacks]
    return ledger.end, []


def _ends(reads: Mapping[str, StoreRead], enough: int) -> dict[str, int]:
    """By address, the sequence below which so many stores have had all."""
    stops: dict[str, list[int]] = {}
    for read in reads.values():
        for address, kept in read.kept.items():
            stops.setdefault(address, []).append(kept.stop)
    return {
        address: sorted(found, reverse=True)[enough - 1]
        for address, found in stops.items()
        if len(found) >= enough
    }
