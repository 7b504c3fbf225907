from __future__ import annotations

import pytest

from dafka.errors import StorageError
from dafka.model import ALL_SLOTS, Slots
from dafka.storage.kept_slots import keep_slots
from dafka.storage.lmdb_log import Durability, LmdbLog
from tests.support.batches import make_batch

LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, 4_096)])


@pytest.fixture
def opened(tmp_path):
    """Opens the log anew, and sees that it is of some slots."""

    def opened(slots, *batches):
        log = LmdbLog(tmp_path, durability=Durability.OS)
        try:
            keep_slots(log, slots)
            log.append(batches)
        finally:
            log.close()

    return opened


def test_an_empty_log_becomes_one_of_the_slots_and_stays_so(opened):
    opened(LOW)
    opened(LOW, make_batch([b"1"]))
    opened(LOW)
    for other in (HIGH, ALL_SLOTS, Slots.of([range(2_049)])):
        with pytest.raises(StorageError, match=f"made for slots 0-2047 .* slots {other}: give"):
            opened(other)


def test_a_log_that_was_told_nothing_keeps_all(opened):
    opened(ALL_SLOTS, make_batch([b"1"]))
    with pytest.raises(StorageError, match="made for slots 0-4095 "):
        opened(LOW)
    opened(ALL_SLOTS)
