"""When to ask for the heads of partitions again.

The partition of a dead producer is announced by nobody, so whoever wants all asks for heads: at
once, soon again because a mesh takes a moment to form, then ever more rarely, in case an answer was
lost. Source: 46/DAFKA, The GET-HEADS Command.
"""

from __future__ import annotations

_INTERVAL_MS = 500
"""First repetition of GET-HEADS: the mesh takes about a beacon interval to form."""


class Inquiry:
    """When GET-HEADS is due.

    Args:
        interval_ms_max: The longest interval.
    """

    def __init__(self, interval_ms_max: int) -> None:
        self._interval_ms_max = interval_ms_max
        self._interval_ms = _INTERVAL_MS
        self.due_ms: int | None = None
        """When to ask next; None before the first `renew`."""
        self.passed_ms: int | None = None
        """When it was due last."""

    def renew(self, now_ms: int) -> None:
        """Ask at once and often: somebody new may have something new."""
        self.due_ms = now_ms if self.due_ms is None else min(self.due_ms, now_ms)
        self._interval_ms = _INTERVAL_MS

    def asked(self, now_ms: int, *, told: bool = False) -> bool:
        """Whether to ask now; the next time is planned then.

        Args:
            now_ms: The time.
            told: Whether what an answer would say has been said since it was due last: then it is
                only asked soon after `renew`.
        """
        if self.due_ms is None or self.due_ms > now_ms:
            return False
        soon = self._interval_ms <= 2 * _INTERVAL_MS
        self.passed_ms, self.due_ms = now_ms, now_ms + self._interval_ms
        self._interval_ms = min(self._interval_ms * 2, self._interval_ms_max)
        return soon or not told
