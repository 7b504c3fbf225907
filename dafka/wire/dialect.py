"""The port to a cluster's dialect, and the dialects there are.

The same messages and machines stand behind each; only their bytes differ. A dialect is a module.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from dafka.errors import MisuseError, WireError
from dafka.wire import libdafka, rfc46
from dafka.wire.fields import WITH_CONTENT
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.wire.messages import Message


class Dialect(Protocol):
    """How messages are written.

    `decode` is the inverse of `encode`, and `subscription` that of `prefix`, for everything a node
    may send; for other bytes, `decode` raises `WireError` and `subscription` returns None.
    """

    def prefix(self, message_id: MessageId, key: str) -> bytes:
        """What a node subscribes to for messages of this id under this key (empty: every key)."""

    def subscription(self, prefix_octets: bytes) -> tuple[MessageId, str] | None:
        """Read a subscription that a publisher sees; None if it is not one."""

    def encode(self, message: Message) -> list[bytes]:
        """Return the frames of a message."""

    def decode(self, frames: Sequence[bytes]) -> Message:
        """Read a message off its frames; raises `WireError` if it is none."""


DEFAULT_DIALECT = "rfc46"

_DIALECTS: dict[str, Dialect] = {"rfc46": rfc46, "libdafka": libdafka}


def dialect(name: str) -> Dialect:
    """Return a dialect by its name in settings.

    Raises:
        MisuseError: There is none of this name.
    """
    found = _DIALECTS.get(name)
    if found is None:
        raise MisuseError(f"wire {name!r} is not known: {' or '.join(_DIALECTS)}")
    return found


class Company(Enum):
    """Who else is in a mesh."""

    UNKNOWN = "unknown"
    ALIKE = "alike"
    """Somebody who writes as this node does."""
    OTHER = "other"
    """Nobody but those who write otherwise."""


SETTLING_MS = 3_000
"""Others count once they have been alone for so long: who is alike is heard within it, and what
one stranger claims, the first to come, is no verdict."""


HELD_MAX = 256
"""Messages that wait until it is known that somebody can read them."""


class DialectWatch:
    """Whether a mesh is of the dialect `rfc46`, before a node of that dialect says anything.

    Programs of the C implementation break at messages of several frames: its stores abort. So
    nothing is said before somebody is there who reads them. Each of our nodes is known by a
    subscription that only ours make (`mark`), and whoever else by a message.
    """

    def __init__(self) -> None:
        self._company = Company.UNKNOWN
        self._began_ms: int | None = None
        self._met_others = False
        self._others_ms: int | None = None
        """Since when others are known of."""
        self.held: deque[Message] = deque(maxlen=HELD_MAX)
        """What is to be said once somebody is there."""

    @staticmethod
    def mark(address: str) -> tuple[MessageId, str]:
        """What a node subscribes to, that others may know it."""
        return MessageId.DIRECT_RECORDS, address

    def hold(self, message: Message) -> None:
        """Keep what is to be said; no records: whoever comes later asks for them."""
        if message.id not in WITH_CONTENT:
            self.held.append(message)

    def age_ms(self, now_ms: int) -> int:
        """How long ago it was first asked who is there."""
        return 0 if self._began_ms is None else now_ms - self._began_ms

    def subscribed(self, prefix: bytes) -> None:
        """A peer has subscribed to this."""
        if prefix.endswith(b"\0"):
            self._met_others = True  # one of ours, in the other dialect
        elif prefix[:1] == MessageId.DIRECT_RECORDS.value:
            self._company = Company.ALIKE
        elif prefix[:1] == MessageId.DIRECT_RECORD.value:
            self._met_others = True  # or one of ours, whose mark comes together with this

    def arrived(self, frames: Sequence[bytes], *, readable: bool) -> None:
        """A peer has sent this."""
        if readable:
            self._company = Company.ALIKE
        elif not self._met_others:
            try:
                libdafka.decode(frames)
            except WireError:
                return
            self._met_others = True

    def company(self, now_ms: int) -> Company:
        """Who is there, as far as it shows."""
        if self._began_ms is None:
            self._began_ms = now_ms
        if self._company is Company.UNKNOWN and self._met_others:
            if self._others_ms is None:
                self._others_ms = now_ms
            elif now_ms >= self._others_ms + SETTLING_MS:
                self._company = Company.OTHER
        return self._company
