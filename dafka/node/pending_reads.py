"""What a store was asked for by FETCH and has not read yet: who asks for most waits longest.

Each FETCH has up to 1 MiB read and sent. Were they answered as they come, hundreds of one peer
would hold up what the others want stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import PENDING_READS_MAX, PENDING_READS_PEER_MAX
from dafka.model import mark_of

if TYPE_CHECKING:
    from dafka.model import Partition
    from dafka.protocol.effects import ReadRange


class PendingReads:
    """FETCHes in turn: of each key, or node where there are no keys, one.

    Args:
        peer_max: Of one of them.
        all_max: Of all.
    """

    def __init__(
        self, peer_max: int = PENDING_READS_PEER_MAX, all_max: int = PENDING_READS_MAX
    ) -> None:
        self._peer_max, self._all_max = peer_max, all_max
        self._waiting: dict[str, dict[tuple[str, Partition], ReadRange]] = {}
        """By peer, in the order of their turns; none of them is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, read: ReadRange) -> bool:
        """Take one in; who asks for a partition again wants no more what he wanted before.

        Returns:
            False if there is no room for it.
        """
        peer = mark_of(read.requester)
        own = self._waiting.get(peer, {})
        place = read.requester, read.partition
        if place not in own:
            if self._count >= self._all_max or len(own) >= self._peer_max:
                return False
            self._count += 1
        own[place] = read
        self._waiting[peer] = own
        return True

    def pop(self) -> ReadRange | None:
        """The first one of the peer whose turn it is; None if nobody waits."""
        if not self._waiting:
            return None
        peer = next(iter(self._waiting))
        own = self._waiting.pop(peer)
        read = own.pop(next(iter(own)))
        self._count -= 1
        if own:
            self._waiting[peer] = own
        return read
