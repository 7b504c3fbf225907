"""Records that keep coming while something is done to the clusters."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from dafka import Producer
from dafka.errors import AddressInUseError, NotStoredError


class Traffic(threading.Thread):
    """A few records a moment on one cluster, until told to stop."""

    def __init__(self, tower: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(tower, linger_ms=5)
        self._stopping = threading.Event()
        self.address = self._producer.address
        self.sent = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            for _ in range(10):
                self._producer.send("orders", str(self.sent).encode())
                self.sent += 1
            time.sleep(0.1)

    def abandon(self) -> None:
        """Stop, whatever is stored by then; nothing where it has finished."""
        self._stopping.set()
        self.join(120)
        with suppress(NotStoredError, AddressInUseError):
            self._producer.close(0)

    def finish(self) -> None:
        self._stopping.set()
        self.join()
        self._producer.flush(60)
        self._producer.close()
