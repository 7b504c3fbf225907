"""Which links have brought a store's groups their positions since it was opened.

A cluster comes back, and the members of its groups with it. What they have done elsewhere meanwhile
links bring, a moment later; who begins before that reads all of it again. So a store says with its
commits whether its links are in sync, and members wait for that, but not for ever.

| table | key | value |
|---|---|---|
| `links` | name of a link | empty |

It has the links that were in sync before the store was opened: those are waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import WireError
from dafka.limits import LINKS_MAX
from dafka.storage.log import TableEntry
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from dafka.storage.log import RecordLog

TABLE = "links"

SYNC_MS_MAX = 15_000
"""So long after its opening a store waits for links; those that have not come are forgotten."""


class LinkStanding(NamedTuple):
    """How a link stands with a store.

    Attributes:
        known: It has been in sync since the store was opened.
        awaited: Members of groups wait there, for it or for another link.
    """

    known: bool
    awaited: bool


class LinkSync:
    """The links that end at one store.

    Args:
        log: Where they are kept.
        now_ms: When it was opened.
    """

    def __init__(self, log: RecordLog, now_ms: int) -> None:
        self._log = log
        self._due_ms = now_ms + SYNC_MS_MAX
        known = log.scan(TABLE, b"", LINKS_MAX)
        self._awaited = {text(name) for name, _ in known}
        self._kept = set(self._awaited)
        self._in_sync: set[str] = set()

    def told(self, link: str, now_ms: int, *, in_sync: bool) -> LinkStanding:
        """Hear of a link; return how it stands.

        Args:
            link: Its name.
            now_ms: The time.
            in_sync: Whether it is: all that its source has is here, too.

        Raises:
            StorageError: The disk refused.
            WireError: There are too many.
        """
        if in_sync:
            self._note(link)
        return LinkStanding(link in self._in_sync, not self.in_sync(now_ms))

    def _note(self, link: str) -> None:
        if link not in self._kept:
            if len(self._kept) >= LINKS_MAX:
                raise WireError("links")
            self._log.append((), entries=[TableEntry(TABLE, octets_of(link), b"")])
            self._kept.add(link)
        self._in_sync.add(link)
        self._awaited.discard(link)

    def in_sync(self, now_ms: int) -> bool:
        """Whether no link is waited for.

        Raises:
            StorageError: The disk refused.
        """
        if self._awaited and now_ms >= self._due_ms:
            gone = [TableEntry(TABLE, octets_of(link), None) for link in self._awaited]
            self._log.append((), entries=gone)
            self._kept -= self._awaited
            self._awaited.clear()
        return not self._awaited
