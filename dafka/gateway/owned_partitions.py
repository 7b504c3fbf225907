"""Which partitions are this gateway's, and which of those it does not serve yet, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.plural import counted

if TYPE_CHECKING:
    from collections.abc import Collection

    from dafka.gateway.broker import KafkaPartition


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


class LateTakeovers:
    """What owners wait for whose partitions are not served long after they became theirs.

    `complaint` may be asked from any thread.
    """

    def __init__(self) -> None:
        self._waiting: dict[KafkaPartition, str] = {}

    def note(self, partition: KafkaPartition, waits_for: str) -> bool:
        """Take in what one waits for; whether people should be told.

        Of the first, the tenth, the hundredth and so on that is late: there may be thousands.
        """
        is_new = partition not in self._waiting
        self._waiting[partition] = waits_for
        return is_new and str(len(self._waiting)).rstrip("0") == "1"

    def over(self, partition: KafkaPartition) -> None:
        """It is served, or another's."""
        self._waiting.pop(partition, None)

    def complaint(self) -> str:
        """What is late, for people; empty if nothing is."""
        waiting = dict(self._waiting)
        if not waiting:
            return ""
        (topic, number), waits_for = next(iter(waiting.items()))
        return (
            f"{counted(len(waiting), 'partition')} of its own it does not serve yet: "
            f"{topic}/{number} waits for {waits_for}"
        )
