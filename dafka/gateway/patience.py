"""How long a client waits for what it asks for, and waiting for several things at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from dafka.limits import CLIENT_WAIT_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable
    from types import SimpleNamespace

T = TypeVar("T")


def patience_s(body: SimpleNamespace) -> float:
    """How long the client waits that sends a request, as it says."""
    return max(0, min(int(body.timeout_ms), CLIENT_WAIT_MS_MAX)) / 1_000


async def together(parts: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all; each may take as long as the client waits for all of them."""
    return await asyncio.gather(*parts)
