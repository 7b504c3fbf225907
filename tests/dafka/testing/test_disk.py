from __future__ import annotations

from functools import partial

import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.storage.memory import MemoryLog
from dafka.storage.spool import MemorySpool
from dafka.testing.disk import SimDisk, SimLog, SimSpool
from dafka.testing.world import Faults, SimNode, World

PLACE = Partition("orders", "P")


def batch(sequence):
    return Batch(PLACE, sequence, 1, b"content")


class Writer(SimNode):
    """A process that is never booted."""

    def build(self):
        raise AssertionError("it has no role")


class Machine:
    """A process that does nothing but write."""

    def __init__(self, **faults):
        self.world = World(1, Faults(**faults))
        self.node = Writer(self.world, "N", {})
        self.disk = SimDisk(self.node)
        self.log = MemoryLog("S")
        self.written = []
        self.view = SimLog(self.log, self.disk, lambda batches, *_: self.written.append(batches))

    def idle_at(self, time_ms):
        """Let its thread come back from all it has begun."""
        self.world.run_until(time_ms)
        self.node._idle()


def test_what_is_written_is_on_disk_when_its_time_is_over():
    here = Machine(disk_ms_max=10)
    while here.node._busy_until_ms <= here.world.now_ms:
        here.view.append([batch(len(here.view.heads()) and here.view.heads()[PLACE] + 1)])
    end = here.view.heads()[PLACE]
    assert here.log.heads().get(PLACE, -1) < end, "its process goes on from what it has written"
    here.idle_at(here.node._busy_until_ms)
    assert here.log.heads() == {PLACE: end}
    assert here.written[-1][-1].end == end + 1


def test_a_crash_keeps_writes_under_way_from_the_oldest_on():
    kept = set()
    for seed in range(30):
        here = Machine(disk_ms_max=1_000)
        here.world.random.seed(seed)
        here.node.busy(1)
        for sequence in range(3):
            here.view.append([batch(sequence)])
        here.disk.crash()
        kept.add(here.log.heads().get(PLACE, -1) + 1)
    assert kept == {0, 1, 2, 3}


def test_what_is_refused_is_not_written_and_takes_its_time():
    here = Machine(refusal=1.0, disk_ms_max=1_000)
    with pytest.raises(StorageError, match="full"):
        here.view.append([batch(0)])
    assert here.view.heads() == {}
    here.idle_at(2_000)
    assert here.log.heads() == {}
    assert here.node._busy_until_ms > 0


def test_a_process_that_opens_the_disk_finds_what_is_on_it_and_changes_its_own():
    here = Machine()
    here.log.append([batch(0)])
    again = SimLog(here.log, here.disk, lambda batches, trims: None)
    assert again.heads() == {PLACE: 0}
    here.node.busy(5)
    again.append([batch(1)])
    assert (again.heads(), here.log.heads()) == ({PLACE: 1}, {PLACE: 0})


def test_a_spool_forgets_on_disk_what_its_process_forgets():
    here = Machine()
    held = MemorySpool("P")
    spool = SimSpool(held, here.disk)
    here.node.busy(5)
    spool.append([batch(0), batch(1)])
    assert (spool.ends(), held.ends()) == ({"orders": 2}, {})
    here.idle_at(20)
    assert held.ends() == {"orders": 2}
    spool.forget("orders", 1)
    assert [one.sequence for one in held.batches()] == [1]
    assert SimSpool(held, here.disk).ends() == {"orders": 2}


def test_what_others_see_waits_for_the_write_before_it():
    here = Machine()
    seen = []
    here.node.leave(partial(seen.append, "before"))
    here.node.busy(5)
    here.view.append([batch(0)])
    here.node.leave(lambda: seen.append(here.log.heads()))
    assert seen == ["before"]
    here.idle_at(20)
    assert seen == ["before", {PLACE: 0}]


def test_what_is_taken_in_drops_nothing():
    here = Machine()
    with pytest.raises(AssertionError, match="drops nothing"):
        here.view.append([batch(0)], trims={PLACE: 0})
    with pytest.raises(AssertionError, match="drops nothing"):
        here.view.append([], trims={PLACE: 3}, skips={PLACE: 3})
