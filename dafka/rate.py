"""How fast something may be sent.

What is sent costs time, the longer of what its bytes and its records cost, on one virtual clock.
`Rate` knows when all that was sent is paid for; one may go on while that lies less than a burst
ahead. Source: the generic cell rate algorithm, ITU-T I.371: a token bucket without a timer.
"""

from __future__ import annotations

from math import ceil

BURST_MS = 250
"""What may be sent at once is worth this long: short against a second, long against a batch."""


class Rate:
    """An allowance: of a link, or of a user.

    Args:
        bytes_per_s: None for as many as there are.
        records_per_s: The same.
        burst_ms: What may be sent at once is worth so long.
    """

    def __init__(
        self,
        bytes_per_s: int | None = None,
        records_per_s: int | None = None,
        burst_ms: int = BURST_MS,
    ) -> None:
        self._burst_ms = burst_ms
        self._bytes_per_s = bytes_per_s
        self._records_per_s = records_per_s
        self._paid_ms = 0.0
        """When all that was sent is paid for."""

    def sent(self, size: int, records: int, now_ms: int) -> None:
        """So much has been sent."""
        cost_s = 0.0
        if self._bytes_per_s is not None:
            cost_s = size / self._bytes_per_s
        if self._records_per_s is not None:
            cost_s = max(cost_s, records / self._records_per_s)
        self._paid_ms = max(self._paid_ms, now_ms) + cost_s * 1_000

    @property
    def due_ms(self) -> int:
        """When more may be sent."""
        return ceil(self._paid_ms - self._burst_ms)
