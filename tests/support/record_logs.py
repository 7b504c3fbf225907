"""What implements `dafka.storage.log`, for the tests of its contract."""

from __future__ import annotations

from pathlib import Path

from dafka.limits import FORGOTTEN_MAX
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.memory import MemoryLog

ORDERS = Partition("orders", "A1")
OTHERS = Partition("orders", "B2")


class Memory:
    def __init__(self, directory, forgotten_max=FORGOTTEN_MAX):
        self.log = MemoryLog("AB" * 16, forgotten_max=forgotten_max)

    def reopen(self):
        pass


class Lmdb:
    def __init__(self, directory, forgotten_max=FORGOTTEN_MAX):
        self.directory = Path(directory) / "log"
        self._forgotten_max = forgotten_max
        self.log = self._opened()

    def reopen(self):
        self.log.close()
        self.log = self._opened()

    def _opened(self):
        return LmdbLog(self.directory, durability=Durability.OS, forgotten_max=self._forgotten_max)


class KilledLmdb(Lmdb):
    """One that is never closed, and has segments and an index that are often full."""

    def reopen(self):
        self.log._release()  # as by kill -9: the index on the disk is behind
        self.log = self._opened()

    def _opened(self):
        return LmdbLog(
            self.directory,
            durability=Durability.OS,
            forgotten_max=self._forgotten_max,
            map_bytes=1 << 17,
            segment_bytes=500,
            indexed_bytes=300,
        )


def batch(partition, sequence, count, content=b"content"):
    return Batch(partition, sequence, count, content)
