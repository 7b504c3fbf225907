"""Host names that peers announce, looked up where nobody has to wait for it.

ZeroMQ looks names up on the thread that moves data, so one that no name server answers for would
stop a node. Here a thread of its own asks; what it has not found yet is not connected to.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from dafka.model import Endpoint, endpoint_of, is_address

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

NAMES_MAX = 256
"""Names kept; of more the one is forgotten that was answered first, and used. While there is none
no other is looked up: who is announced each second has his turn later."""

UNUSED_MS = 5_000
"""So long an answer waits for the next time that its name is announced."""

FRESH_MS = 60_000
"""After so long a name is looked up again; until it is found it keeps the address it had."""


def address_of(name: str) -> str | None:
    """Return the address of a host; None if nobody knows it. Takes as long as name servers do."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    # IPv4 first: a node without IPv6 must be able to connect, too.
    host = str(min(found, key=lambda one: one[0] != socket.AF_INET)[4][0])
    return f"[{host}]" if ":" in host else host


@lru_cache(maxsize=1_024)
def _with_name(text: str) -> Endpoint | None:
    """An endpoint whose host is a name; None of any other. Nodes tell the same each second."""
    endpoint = endpoint_of(text)
    if isinstance(endpoint, Endpoint) and not is_address(endpoint.host):
        return endpoint
    return None


class _Found(NamedTuple):
    address: str | None
    """None: it is not known, or not yet."""
    asked_ms: int
    pending: bool
    used: bool = False
    """Whether the answer was asked for since it is there."""


def _may_go(found: _Found, now_ms: int) -> bool:
    return not found.pending and (found.used or now_ms - found.asked_ms >= UNUSED_MS)


class HostNames:
    """The addresses of names; the thread that looks them up begins with the first.

    Args:
        look_up: How.
    """

    def __init__(self, look_up: Callable[[str], str | None] = address_of) -> None:
        self._look_up = look_up
        self._found: dict[str, _Found] = {}
        """What was answered first comes first, what waits for an answer in between."""
        self._asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._answered: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def resolved(self, text: str, now_ms: int) -> tuple[str | None, bool]:
        """Return an endpoint with an address in place of its name.

        Args:
            text: An endpoint.
            now_ms: The time.

        Returns:
            It, None while there is none; and whether that is so because nobody knows the name.
        """
        endpoint = _with_name(text)
        if endpoint is None:
            return text, False
        self._take_answers(now_ms)
        name = endpoint.host.lower()
        found = self._found.get(name)
        if found is None or (not found.pending and now_ms - found.asked_ms >= FRESH_MS):
            found = self._ask(name, found, now_ms)
        elif not found.pending and not found.used:
            found = self._found[name] = found._replace(used=True)
        if found is None or found.address is None:
            return None, found is not None and not found.pending
        return str(Endpoint(found.address, endpoint.port)), False

    def close(self) -> None:
        """End the thread, once it has the answer it waits for."""
        self._asked.put(None)

    def _ask(self, name: str, known: _Found | None, now_ms: int) -> _Found | None:
        """Have a name looked up; None if there is no place for it."""
        if known is None and len(self._found) >= NAMES_MAX:
            may_go = (one for one, found in self._found.items() if _may_go(found, now_ms))
            oldest = next(may_go, None)
            if oldest is None:
                return None
            del self._found[oldest]
        found = _Found(None if known is None else known.address, now_ms, pending=True)
        self._found[name] = found
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="dafka-names", daemon=True)
            self._thread.start()
        self._asked.put(name)
        return found

    def _take_answers(self, now_ms: int) -> None:
        while not self._answered.empty():
            name, address = self._answered.get()
            known = self._found.pop(name).address
            self._found[name] = _Found(address or known, now_ms, pending=False)
            if address is None:
                log.warning(
                    "a node announces itself by a name that is not known here: its host, or "
                    "beacon/address of a C program, must be an address or a name that is",
                    extra={"host": name},
                )

    def _run(self) -> None:
        while (name := self._asked.get()) is not None:
            self._answered.put((name, self._look_up(name)))
