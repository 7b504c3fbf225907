"""What the clients of a simulated ledger were told: judged by the invariants of ADR 28."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.gateway.ledger import HOLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from dafka.gateway.events import Offered
    from dafka.gateway.owner import LedgerMachine


@dataclass
class Shown:
    """What clients were ever told, by whichever gateway."""

    start: int = 0
    end: int = 0
    names: dict[int, tuple[str, int]] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    batches: dict[tuple[str, int], int] = field(default_factory=dict)
    """Which batch of a client begins there, each time that it was sent."""
    placed: dict[int, int] = field(default_factory=dict)
    """By batch, the offset of its first record."""
    answered: int = 0
    repeated: int = 0
    """Answers to batches that were there already."""
    deleted: int = 0
    """Clients that were told that offsets begin where they wanted it."""

    def offered(
        self, machine: LedgerMachine, offered: Offered, is_kept: Callable[[str, int], bool]
    ) -> None:
        """Check it against all before; what nobody has any more may be a hole."""
        assert offered.start >= self.start, f"L5: log start {offered.start} after {self.start}"
        assert offered.end >= self.end, f"L5: watermark {offered.end} after {self.end}"
        self.start, self.end = offered.start, offered.end
        last: dict[str, int] = {}
        seen = machine.ledger.start
        for entry in machine.ledger:
            assert entry.offset == seen, f"L1: {entry} where {seen} is next"
            seen = entry.end
            for place in range(max(0, min(entry.end, offered.end) - entry.offset)):
                offset = entry.offset + place
                name = (entry.address, entry.first + place if entry.address != HOLE else 0)
                known = self.names.setdefault(offset, name)
                gone = entry.address == HOLE and not is_kept(*known)
                assert known == name or gone, f"L2: offset {offset} was {known}, is {name}"
                if entry.address != HOLE:
                    also = self.offsets.setdefault(name, offset)
                    assert also == offset, f"L3: {name} has offsets {also} and {offset}"
                    assert last.get(entry.address, -1) < name[1], f"L4: {name}"
                    last[entry.address] = name[1]
                    self._placed(name, offset, is_kept)

    def _placed(
        self, name: tuple[str, int], offset: int, is_kept: Callable[[str, int], bool]
    ) -> None:
        batch = self.batches.get(name)
        if batch is not None:
            also = self.placed.get(batch, offset)
            # What retention has taken, and stores have forgotten, is not known to have been there.
            gone = also != offset and not is_kept(*self.names[also])
            assert gone or also == offset, f"L7: batch {batch} has offsets {also} and {offset}"
            self.placed[batch] = offset
