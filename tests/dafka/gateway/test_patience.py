from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from dafka.gateway.patience import patience_s, together
from dafka.limits import CLIENT_WAIT_MS_MAX


@pytest.mark.parametrize(
    ("timeout_ms", "waits_s"),
    [(1_500, 1.5), (0, 0), (-1, 0), (2**31 - 1, CLIENT_WAIT_MS_MAX / 1_000)],
)
def test_a_client_waits_as_long_as_it_says_within_bounds(timeout_ms, waits_s):
    assert patience_s(SimpleNamespace(timeout_ms=timeout_ms)) == waits_s


def test_what_is_waited_for_together_is_told_in_order():
    async def run():
        both = asyncio.Barrier(2)

        async def part(number):
            await both.wait()
            return number

        return await together(part(number) for number in range(2))

    assert asyncio.run(run()) == [0, 1]
