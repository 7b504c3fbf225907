"""The port to a cluster's dialect, and the dialects there are.

The same messages and machines stand behind each; only their bytes differ. A dialect is a module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dafka.errors import MisuseError
from dafka.wire import libdafka, rfc46

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.wire.messages import Message, MessageId


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
