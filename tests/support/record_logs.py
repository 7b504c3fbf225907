"""What implements `dafka.storage.log`, for the tests of its contract."""

from __future__ import annotations

from pathlib import Path

from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.memory import MemoryLog

ORDERS = Partition("orders", "A1")
OTHERS = Partition("orders", "B2")


class Memory:
    def __init__(self, directory):
        self.log = MemoryLog("AB" * 16)

    def reopen(self):
        pass


class Lmdb:
    def __init__(self, directory):
        self.directory = Path(directory) / "log"
        self.log = LmdbLog(self.directory, durability=Durability.OS)

    def reopen(self):
        self.log.close()
        self.log = LmdbLog(self.directory, durability=Durability.OS)


def batch(partition, sequence, count, content=b"content"):
    return Batch(partition, sequence, count, content)
