"""Learning what a group has committed: from every store that answers, the commit that holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.groups.events import AskOffsets, OffsetsAnswered

if TYPE_CHECKING:
    from dafka.groups.commit import Commit
    from dafka.model import Partition

PATIENCE_MS = 1_000
"""How long to wait for the slower stores once one has answered."""

RETRY_MS = 500
"""When to ask a store again that has not answered."""


class Loading:
    """One reading of all stores, page by page.

    A commit is acknowledged by one store at first, so one that is not asked may miss the last.

    Args:
        stores: How many there are.
        token: Repeated in answers: those to another reading are not this one's.
        now_ms: The time.
    """

    def __init__(self, stores: int, token: int, now_ms: int) -> None:
        self._token = token
        self._began_ms = now_ms
        first: tuple[Partition | None, int] = (None, now_ms)
        self._waiting = dict.fromkeys(range(stores), first)
        """Behind what each store is asked next, and when."""
        self._answered = 0
        self.commits: dict[Partition, Commit] = {}
        """What holds."""

    def ask(self, now_ms: int) -> list[AskOffsets]:
        """Ask, or ask again, who has not answered."""
        due = [store for store, (_, due_ms) in self._waiting.items() if due_ms <= now_ms]
        for store in due:
            self._waiting[store] = self._waiting[store][0], now_ms + RETRY_MS
        return [AskOffsets(store, self._token, self._waiting[store][0]) for store in due]

    def answered(self, event: OffsetsAnswered, now_ms: int) -> None:
        """Take an answer in."""
        if event.token != self._token or event.store not in self._waiting:
            return
        for key, commit in event.commits:
            known = self.commits.get(key.partition)
            if known is None or commit.rank() > known.rank():
                self.commits[key.partition] = commit
        if event.more and event.commits:
            self._waiting[event.store] = event.commits[-1][0].partition, now_ms
        else:
            del self._waiting[event.store]
            self._answered += 1

    def complete(self, now_ms: int) -> bool:
        """Whether all stores have answered, or one has and the others take too long."""
        if not self._waiting:
            return True
        return self._answered > 0 and now_ms >= self._began_ms + PATIENCE_MS

    def wakeup_ms(self) -> int:
        """When to ask again, or to go on without the slow ones."""
        due_ms = min(due_ms for _, due_ms in self._waiting.values())
        return min(due_ms, self._began_ms + PATIENCE_MS) if self._answered else due_ms
