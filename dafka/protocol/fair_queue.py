"""What peers have asked that takes long, and has not been done: who asks most waits longest.

Each FETCH has up to 1 MiB read and sent, each GET-HEADS may be answered of 200,000 partitions. Were
they answered as they come, hundreds of one peer would hold up what the others want stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from dafka.model import mark_of

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")
"""What is asked."""


class FairQueue(Generic[T]):
    """What is asked, in turn: of each key, or node where there are no keys, one.

    Args:
        peer_max: Of one of them.
        all_max: Of all.
    """

    def __init__(self, peer_max: int, all_max: int) -> None:
        self._peer_max, self._all_max = peer_max, all_max
        self._waiting: dict[str, dict[tuple[str, Hashable], T]] = {}
        """By peer, in the order of their turns; none of them is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, requester: str, about: Hashable, asked: T) -> bool:
        """Take one in; who asks about the same again wants no more what he wanted before.

        Returns:
            False if there is no room for it.
        """
        peer = mark_of(requester)
        own = self._waiting.get(peer, {})
        place = requester, about
        if place not in own:
            if self._count >= self._all_max or len(own) >= self._peer_max:
                return False
            self._count += 1
        own[place] = asked
        self._waiting[peer] = own
        return True

    def pop(self) -> T | None:
        """The first one of the peer whose turn it is; None if nobody waits."""
        if not self._waiting:
            return None
        peer = next(iter(self._waiting))
        own = self._waiting.pop(peer)
        asked = own.pop(next(iter(own)))
        self._count -= 1
        if own:
            self._waiting[peer] = own
        return asked
