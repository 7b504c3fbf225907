"""When records arrive on a cluster that somebody else has published."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

from dafka import Consumer
from dafka.process.clock import wall_ms


class Arrivals(threading.Thread):
    """Reads what is stored on one cluster, and keeps when each batch of it has come."""

    def __init__(self, cluster, topic):
        super().__init__(daemon=True)
        self._consumer = Consumer(cluster, topic, isolation="stored")
        self._stopping = threading.Event()
        self._seen = []
        """When (monotonic), and how old the record was that came then, both in seconds."""
        self.start()

    def run(self):
        while not self._stopping.is_set():
            record = self._consumer.poll(0.2)
            if record is not None:
                age_s = (wall_ms() - record.timestamp_ms) / 1_000
                self._seen.append((time.monotonic(), age_s))

    def __len__(self):
        return len(self._seen)

    def stall_s(self, since_s):
        """For how long nothing has come, the longest time since then."""
        moments = [since_s, *(at for at, _ in self._after(since_s)), time.monotonic()]
        return max(after - before for before, after in pairwise(moments))

    def oldest_s(self, since_s):
        """How old the latest was of what has come since then."""
        return max((age_s for _, age_s in self._after(since_s)), default=0.0)

    def fresh(self, since_s, age_s):
        """Whether something has come that was sent since then, and is no older than this."""
        seen = self._seen[-1:]
        return any(at - age > since_s and age < age_s for at, age in seen)

    def _after(self, since_s):
        return [one for one in list(self._seen) if one[0] > since_s]

    def close(self):
        self._stopping.set()
        self.join()
        self._consumer.close()
