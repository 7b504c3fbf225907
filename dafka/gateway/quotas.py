"""How fast Kafka users may produce and fetch (ADR 34).

A quota is a user's at one gateway, over all its connections. Who has used more than its share is
answered at once, told for how long it owes (`throttle_time_ms`), and not read from for so long, as
by Kafka since KIP-219.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dafka.gateway.wire import Api
from dafka.protocol.rate import Rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.gateway.users import KafkaUser
    from dafka.gateway.wire import Request

BURST_MS = 1_000
"""What a user may send at once is worth so long: Kafka measures in windows of a second."""

THROTTLE_MS_MAX = 10_000
"""How long who owes has to wait before it is heard again: clients give a request 30 s."""

PRODUCE, FETCH = "produce", "fetch"


class Throttle:
    """What holds one connection to its user's quotas.

    Args:
        rates: The user's, by `PRODUCE` and `FETCH`; of what is not there, there is no quota.
        now_ms: A monotonic clock.
        throttled: Called with the quota, and how many milliseconds the client is told to wait.
        fetch_bytes_max: What one fetch may bring, so that it takes no more than a burst.
    """

    def __init__(
        self,
        rates: Mapping[str, Rate],
        now_ms: Callable[[], int],
        throttled: Callable[[str, int], None] = lambda _quota, _ms: None,
        fetch_bytes_max: int | None = None,
    ) -> None:
        self._rates, self._now_ms, self._throttled = rates, now_ms, throttled
        self._fetch_bytes_max = fetch_bytes_max
        self._until_ms = 0

    @property
    def muted_ms(self) -> int:
        """For how long the connection is not to be read from."""
        return max(0, self._until_ms - self._now_ms())

    def asked(self, request: Request) -> int:
        """A request has come; return how long its client is to wait for having sent it."""
        body = request.body
        if request.api is Api.FETCH and body is not None and self._fetch_bytes_max is not None:
            body.max_bytes = min(body.max_bytes, self._fetch_bytes_max)
        return self._used(PRODUCE, request.size) if request.api is Api.PRODUCE else 0

    def answered(self, request: Request, fields: Mapping[str, Any]) -> int:
        """A request is answered; return how long its client is to wait for what it is sent."""
        if request.api is not Api.FETCH or FETCH not in self._rates:
            return 0
        sent = (
            sum(map(len, partition["records"]))
            for topic in fields["responses"]
            for partition in topic["partitions"]
        )
        return self._used(FETCH, sum(sent))

    def _used(self, quota: str, size: int) -> int:
        rate = self._rates.get(quota)
        if rate is None:
            return 0
        now_ms = self._now_ms()
        rate.sent(size, 0, now_ms)
        owes_ms = min(THROTTLE_MS_MAX, rate.due_ms - now_ms)
        if owes_ms <= 0:
            return 0
        self._until_ms = max(self._until_ms, now_ms + owes_ms)
        self._throttled(quota, owes_ms)
        return owes_ms


class Quotas:
    """Those of all users of a gateway.

    Args:
        now_ms: A monotonic clock.
        throttled: Called with the user's name, the quota, and how many milliseconds.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        throttled: Callable[[str, str, int], None] = lambda _user, _quota, _ms: None,
    ) -> None:
        self._now_ms, self._throttled = now_ms, throttled
        self._rates: dict[str, tuple[KafkaUser, Mapping[str, Rate]]] = {}

    def of(self, user: KafkaUser) -> Throttle:
        """Return what holds one more connection of a user."""
        known = self._rates.get(user.name)
        if known is None or known[0] != user:  # its quotas may be others by now
            known = self._rates[user.name] = user, _rates_of(user)
        return Throttle(
            known[1],
            self._now_ms,
            lambda quota, owes_ms: self._throttled(user.name, quota, owes_ms),
            user.consumer_byte_rate,  # a burst is worth a second
        )


def _rates_of(user: KafkaUser) -> Mapping[str, Rate]:
    given = {PRODUCE: user.producer_byte_rate, FETCH: user.consumer_byte_rate}
    return {quota: Rate(rate, burst_ms=BURST_MS) for quota, rate in given.items() if rate}
