"""How long each store of a cluster is waited for: not long where others answer what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dafka.errors import QueryError
    from dafka.process.clock import Clock

IMPATIENT_MS = 500
"""How long a store may take that has just not answered, where another one has."""

SILENT_MS = 30_000
"""For how long that holds; then it has its time again, as it may only be slow."""


class Patience:
    """What is known of who answers. Used by one thread at a time.

    Args:
        timeout_ms: How long one store may take for an answer.
        connect_ms: How long one that has never answered.
        clock: What time it is.
    """

    def __init__(self, timeout_ms: int, connect_ms: int, clock: Clock) -> None:
        self._timeout_ms, self._connect_ms = timeout_ms, connect_ms
        self._clock = clock
        self._answered: set[str] = set()
        self._silent: dict[str, int] = {}
        """Until when those are not waited for that have not answered where others have."""

    @property
    def silent(self) -> tuple[str, ...]:
        """The query ports of those that have not answered lately, though others have."""
        return tuple(endpoint for endpoint in self._silent if self._is_silent(endpoint))

    def timeout_ms(self, endpoint: str) -> int:
        """How long this one may take for the next answer."""
        whole = self._timeout_ms if endpoint in self._answered else self._connect_ms
        return min(whole, IMPATIENT_MS) if self._is_silent(endpoint) else whole

    def is_last(self, endpoint: str) -> bool:
        """Whether the others are asked before it: it has not answered since it was silent."""
        return endpoint in self._silent

    def answered(self, endpoint: str) -> None:
        """It has, even if it refused."""
        self._answered.add(endpoint)
        self._silent.pop(endpoint, None)

    def passed_over(self, failures: Mapping[str, QueryError]) -> None:
        """Others have answered what these have not; who refuses has answered."""
        self.note(one for one, why in failures.items() if not isinstance(why, RefusedError))

    def note(self, silent: Iterable[str]) -> None:
        """These do not answer, though others do."""
        for endpoint in silent:
            if not self._is_silent(endpoint):
                self._silent[endpoint] = self._clock.now_ms() + SILENT_MS

    def renew(self) -> None:
        """Nobody answers: each has its time again."""
        self._silent.clear()

    def _is_silent(self, endpoint: str) -> bool:
        return self._clock.now_ms() < self._silent.get(endpoint, 0)
