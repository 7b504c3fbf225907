"""Waiting on several sockets and file descriptors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from collections.abc import Callable

    Socket = zmq.Socket[bytes]
    Pollable = Socket | int
    """A ZeroMQ socket or a file descriptor."""


class Poller:
    """Calls a handler for everything that has become readable."""

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._handlers: dict[Pollable, Callable[[], None]] = {}

    def add(self, pollable: Pollable, handler: Callable[[], None]) -> None:
        """Call `handler` in every turn in which `pollable` is readable."""
        self._poller.register(pollable, zmq.POLLIN)
        self._handlers[pollable] = handler

    def turn(self, timeout_ms: int) -> None:
        """Wait for the first, at most `timeout_ms`, and call the handlers of all that are ready."""
        for pollable, _ in self._poller.poll(timeout_ms):
            self._handlers[pollable]()
