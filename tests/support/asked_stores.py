"""A store without a machine, as whoever asks query ports sees it."""

from __future__ import annotations

from dafka.errors import QueryError
from dafka.groups.acceptor import Registers
from dafka.query.service import answer
from dafka.storage.memory import MemoryLog


class AskedStore:
    """What it has is put there by the test; it is the `connect` of its clients.

    Args:
        name: Its query port.
        opened_ms: When it was started.
    """

    now_ms = 0
    kept_slots = None

    def __init__(self, name, opened_ms=0):
        self.name = name
        self.log = MemoryLog(name)
        self.registers = Registers(self.log, opened_ms)
        self.down = False
        self.hears = []
        """Called before each answer."""

    def __call__(self, _endpoint, _credentials):
        return self

    def ask(self, question, _timeout_ms):
        if self.down:
            raise QueryError(f"store at {self.name} does not answer")
        for each in self.hears:
            each()
        kept = {"registers": self.registers, "kept_slots": self.kept_slots}
        return answer(question, self.log, **kept, now_ms=self.now_ms)

    def close(self):
        pass
