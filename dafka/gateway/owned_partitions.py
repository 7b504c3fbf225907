"""Which partitions are this gateway's, and which of those it does not serve yet, since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from dafka.gateway.broker import KafkaPartition

SLOW_MS = 30_000
"""A beginning takes a list read and written: longer than this, something is missing for it."""


class OwnedPartitions:
    """Looked at now and then: a beginning that is over between two looks is not seen."""

    def __init__(self) -> None:
        self.owned: Collection[KafkaPartition] = ()
        self._since_ms: dict[KafkaPartition, int] = {}
        """Of those that are not served, when that was first seen."""

    def look(
        self,
        owned: Collection[KafkaPartition],
        shown: Collection[KafkaPartition],
        now_ms: int,
    ) -> None:
        """See how things are.

        Args:
            owned: What is this gateway's.
            shown: What it serves.
            now_ms: The time.
        """
        self.owned = owned
        self._since_ms = {one: self._since_ms.get(one, now_ms) for one in owned if one not in shown}

    @property
    def beginning(self) -> Collection[KafkaPartition]:
        """What it does not serve yet."""
        return self._since_ms.keys()

    def longest_ms(self, now_ms: int) -> int:
        """How long the one that takes longest has not been served; 0 if there is none."""
        return max((now_ms - since for since in self._since_ms.values()), default=0)

    def complaint(self, now_ms: int) -> str:
        """What takes too long, for people; empty if nothing does."""
        late_ms = now_ms - SLOW_MS
        late = [one for one, since_ms in self._since_ms.items() if since_ms <= late_ms]
        if not late:
            return ""
        topic, number = late[0]
        return (
            f"partition {number} of topic {topic!r} and {len(late) - 1:,} more have not been taken "
            f"over for {self.longest_ms(now_ms) // 1_000} s: a majority of the stores has to "
            "answer, and enough of them to have their records"
        )
