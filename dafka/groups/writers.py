"""Who writes what at a store's cluster, as they say it again and again (ADR 43).

Two may write the same without harm; the one of the earlier epoch does it in vain, and hears of the
other here. Who has not been heard for a while counts no more: nothing of this outlives its writers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import WireError
from dafka.limits import WRITERS_MAX, WRITERS_OF_FLOW_MAX

if TYPE_CHECKING:
    from dafka.model import PartitionShare

HEARD_MS = 10_000
"""So long a writer counts after it was heard."""


class _Writer(NamedTuple):
    epoch: int
    at_ms: int


class Writers:
    """Those that one store has heard of."""

    def __init__(self) -> None:
        self._flows: dict[str, dict[PartitionShare, _Writer]] = {}
        self._shares = 0

    def heard(self, flow: str, share: PartitionShare, epoch: int, now_ms: int) -> int:
        """Hear of a writer; return the latest epoch in which any of the same is written.

        Args:
            flow: What it writes.
            share: Which of its partitions.
            epoch: In which.
            now_ms: The time.

        Raises:
            WireError: There are too many.
        """
        before = self._flows.get(flow, {}).get(share)
        if before is None:
            self._make_room(flow, now_ms)
            self._shares += 1
        known = self._flows.setdefault(flow, {})
        if before is None or epoch >= before.epoch or not _counts(before, now_ms):
            known[share] = _Writer(epoch, now_ms)
        living = (one for other, one in known.items() if other.meets(share))
        return max(one.epoch for one in living if _counts(one, now_ms))

    def _make_room(self, flow: str, now_ms: int) -> None:
        if not self._is_full(flow):
            return
        self._forget(now_ms)
        if self._is_full(flow):
            raise WireError("writers")

    def _is_full(self, flow: str) -> bool:
        here = len(self._flows.get(flow, ()))
        return self._shares >= WRITERS_MAX or here >= WRITERS_OF_FLOW_MAX

    def _forget(self, now_ms: int) -> None:
        """Keep nothing that counts no more."""
        living = {
            flow: {share: one for share, one in known.items() if _counts(one, now_ms)}
            for flow, known in self._flows.items()
        }
        self._flows = {flow: known for flow, known in living.items() if known}
        self._shares = sum(map(len, self._flows.values()))


def _counts(heard: _Writer, now_ms: int) -> bool:
    return now_ms < heard.at_ms + HEARD_MS
