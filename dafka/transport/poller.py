"""Waiting for many sockets at the price of those for which something has come.

ZeroMQ's own poll looks at each of its sockets in each turn, and with keys a node has two for each
key that writes. So a socket that nothing but its handler uses *sleeps*: the kernel watches the
descriptor by which ZeroMQ wakes whoever reads it, and only when that is readable is the socket
looked at. To use a socket takes this sign away, or keeps it from being given, until the socket has
been looked at and was found empty; so whatever was used is looked at first, before the next wait.

Source: zmq_getsockopt(3), ZMQ_FD and ZMQ_EVENTS.
"""

from __future__ import annotations

import selectors
import threading
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, cast

import zmq

from dafka.transport.shedder import shedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from dafka.transport.sockets import Pollable, Socket

    Looks = list[tuple[Pollable, int]]

_poll = cast("Callable[[Looks, int], Looks]", zmq.zmq_poll)
"""All of them are looked at, however soon it ends. The types of pyzmq leave out descriptors."""


class Poller:
    """Calls a handler for everything that has become readable, in the order it was added.

    Used by one thread, in a `with` block that ends with it.
    """

    def __init__(self) -> None:
        self._handlers: dict[Pollable, Callable[[], None]] = {}
        self._places: dict[Pollable, int] = {}
        """In the order in which they were added."""
        self._next_places = count()
        self._sleeping = selectors.DefaultSelector()
        self._bell: Pollable = self._sleeping.fileno()
        """Readable when one that sleeps is to be looked at; watched where any may sleep."""
        self._watched: Looks = []
        """Looked at in every turn, for this."""
        self._descriptors: dict[Pollable, int] = {}
        """Of those that may sleep: once closed they do not tell it."""
        self._awake: set[Pollable] = set()
        """Those of them that were used since they were looked at."""
        self.turns = 0
        self.waiting = False
        self.thread: threading.Thread | None = None
        shedder.loops(self)

    def add(self, pollable: Pollable, handler: Callable[[], None]) -> None:
        """Call `handler` in every turn in which `pollable` is readable, whatever else uses it."""
        self._handlers[pollable], self._places[pollable] = handler, next(self._next_places)
        self._watched.append((pollable, zmq.POLLIN))

    def add_sleeper(self, socket: Socket, handler: Callable[[], None]) -> None:
        """The same of a socket that nothing but `handler` uses, or else `used` is told of it.

        It costs a turn nothing while nothing comes.
        """
        self._handlers[socket], self._places[socket] = handler, next(self._next_places)
        if not self._descriptors:
            self._watched.append((self._bell, zmq.POLLIN))
        self._descriptors[socket] = descriptor = int(socket.get(zmq.FD))
        with suppress(KeyError):
            # Of a socket that was closed: its number is given again before it is removed here.
            self._sleeping.unregister(descriptor)
        self._sleeping.register(descriptor, selectors.EVENT_READ, socket)
        self._awake.add(socket)

    def used(self, sockets: Iterable[Socket]) -> None:
        """Look at these before the next wait: something else than their handlers has used them."""
        self._awake.update(sockets)

    def remove(self, pollable: Pollable) -> None:
        """Call nothing for it any more."""
        del self._handlers[pollable], self._places[pollable]
        descriptor = self._descriptors.pop(pollable, None)
        if descriptor is None:
            self._watched.remove((pollable, zmq.POLLIN))
            return
        if not self._descriptors:
            self._watched.remove((self._bell, zmq.POLLIN))
        self._awake.discard(pollable)
        key = self._sleeping.get_map().get(descriptor)
        if key is not None and key.data is pollable:
            self._sleeping.unregister(descriptor)

    def turn(self, timeout_ms: int) -> bool:
        """Wait for the first, at most `timeout_ms`, and call the handlers of all that are ready.

        It may end earlier: what wakes a socket need not be a message.

        Returns:
            Whether anything was.
        """
        self.turns += 1
        self.thread = threading.current_thread()
        self.waiting = True
        awake: Looks = [(one, zmq.POLLIN) for one in self._awake]
        ready = [one for one, _ in _poll(self._watched + awake, timeout_ms)]
        if awake or self._bell in ready:
            ready = self._with_sleepers(ready)
        self.waiting = False
        for pollable in ready:
            self._handlers[pollable]()
        return bool(ready)

    def _with_sleepers(self, looked_at: Iterable[Pollable]) -> list[Pollable]:
        """Those that are readable, in their order, of those looked at and of who was woken."""
        ready = set(looked_at)
        if self._bell in ready:
            ready.remove(self._bell)
            woken: Looks = [(key.data, zmq.POLLIN) for key, _ in self._sleeping.select(0)]
            ready.update(one for one, _ in _poll(woken, 0))
        self._awake = ready & self._descriptors.keys()
        return sorted(ready, key=self._places.__getitem__)

    def close(self) -> None:
        """Release what it waits with; the sockets are others' to close."""
        self._sleeping.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
