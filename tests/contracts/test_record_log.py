"""The contract of `dafka.storage.log`, held by every implementation."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.memory import MemoryLog
from dafka.testing.strategies import partitions
from dafka.wire.octets import text

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


@pytest.fixture(params=[Memory, Lmdb])
def holder(request, tmp_path):
    holder = request.param(tmp_path)
    yield holder
    holder.log.close()


def batch(partition, sequence, count, content=b"content"):
    return Batch(partition, sequence, count, content)


def test_a_new_log_is_empty_and_has_an_identity(holder):
    assert holder.log.heads() == {}
    assert len(holder.log.identity) == 32
    assert holder.log.read(ORDERS, 0, 10, 1_000) == []


def test_identity_never_changes(holder):
    identity = holder.log.identity
    holder.reopen()
    assert holder.log.identity == identity


def test_what_was_appended_is_read_back(holder):
    batches = [batch(ORDERS, 0, 3, b"abc"), batch(ORDERS, 3, 2, b""), batch(OTHERS, 0, 1, b"x")]
    holder.log.append(batches)
    holder.reopen()
    assert holder.log.heads() == {ORDERS: 4, OTHERS: 0}
    assert holder.log.read(ORDERS, 0, 100, 1_000) == batches[:2]
    assert holder.log.read(OTHERS, 0, 100, 1_000) == batches[2:]


def test_appending_nothing_changes_nothing(holder):
    holder.log.append([])
    assert holder.log.heads() == {}


@pytest.mark.parametrize("sequence", [0, 1, 2, 4, 5, 2**40])
def test_a_partition_grows_only_at_its_end(holder, sequence):
    holder.log.append([batch(ORDERS, 0, 3)])
    with pytest.raises(StorageError, match=f'"orders/A1": sequence {sequence} follows 2'):
        holder.log.append([batch(ORDERS, sequence, 1)])
    assert holder.log.heads() == {ORDERS: 2}


def test_a_new_partition_begins_at_0(holder):
    with pytest.raises(StorageError):
        holder.log.append([batch(ORDERS, 1, 1)])


def test_append_is_all_or_nothing(holder):
    holder.log.append([batch(ORDERS, 0, 1)])
    with pytest.raises(StorageError):
        holder.log.append([batch(ORDERS, 1, 1), batch(OTHERS, 0, 1), batch(ORDERS, 9, 1)])
    holder.reopen()
    assert holder.log.heads() == {ORDERS: 0}
    assert holder.log.read(ORDERS, 1, 10, 1_000) == []
    assert holder.log.read(OTHERS, 0, 10, 1_000) == []


def test_reading_begins_with_the_batch_that_holds_the_sequence(holder):
    held = [batch(ORDERS, 0, 10), batch(ORDERS, 10, 1), batch(ORDERS, 11, 5)]
    holder.log.append([*held, batch(OTHERS, 0, 50)])
    for sequence, first in ((0, 0), (9, 0), (10, 1), (11, 2), (15, 2)):
        assert holder.log.read(ORDERS, sequence, 1, 1_000) == [held[first]]
    assert holder.log.read(ORDERS, 16, 1, 1_000) == []
    assert holder.log.read(ORDERS, -1, 1, 1_000) == []


def test_reading_the_last_partition_of_all_from_inside_its_last_batch(holder):
    holder.log.append([batch(ORDERS, 0, 2), batch(ORDERS, 2, 8)])
    assert holder.log.read(ORDERS, 7, 100, 1_000) == [batch(ORDERS, 2, 8)]


def test_count_bounds_where_batches_begin(holder):
    held = [batch(ORDERS, sequence, 5) for sequence in (0, 5, 10)]
    holder.log.append(held)
    assert holder.log.read(ORDERS, 2, 3, 1_000) == held[:1]
    assert holder.log.read(ORDERS, 2, 4, 1_000) == held[:2]


def test_bytes_bound_all_but_the_first(holder):
    held = [batch(ORDERS, sequence, 1, bytes(100)) for sequence in range(5)]
    holder.log.append(held)
    assert holder.log.read(ORDERS, 0, 10, 300) == held[:3]
    assert holder.log.read(ORDERS, 0, 10, 299) == held[:2]
    assert holder.log.read(ORDERS, 0, 10, 0) == held[:1]


def test_the_largest_names_and_a_large_batch(holder):
    largest = Partition("t" * 249, text(b"\xff" * 255))
    holder.log.append([batch(largest, 0, 1, bytes(8 << 20))])
    holder.reopen()
    assert holder.log.heads() == {largest: 0}
    assert holder.log.read(largest, 0, 1, 1) == [batch(largest, 0, 1, bytes(8 << 20))]


def test_an_address_may_contain_nul(holder):
    odd = Partition("t", "\0a\0")
    holder.log.append([batch(odd, 0, 1)])
    holder.reopen()
    assert holder.log.heads() == {odd: 0}


class LogMachine(RuleBasedStateMachine):
    """A log against a dictionary."""

    kind = Memory
    known = Bundle("known")

    def __init__(self):
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.holder = self.kind(self._directory.name)
        self.model: dict[Partition, list[Batch]] = {}

    def end(self, partition):
        held = self.model.get(partition)
        return held[-1].end if held else 0

    @rule(target=known, partition=partitions)
    def meet(self, partition):
        return partition

    @rule(
        plan=st.lists(
            st.tuples(known, st.integers(1, 5), st.binary(max_size=20)), min_size=1, max_size=6
        )
    )
    def append(self, plan):
        added = []
        for partition, count, content in plan:
            one = batch(partition, self.end(partition), count, content)
            self.model.setdefault(partition, []).append(one)
            added.append(one)
        self.holder.log.append(added)

    @rule(partition=known, good=known, offset=st.integers(1, 3), below=st.booleans())
    def append_out_of_order(self, partition, good, offset, below):
        sequence = self.end(partition) + (-offset if below else offset)
        if good == partition or sequence < 0:
            return
        with pytest.raises(StorageError):
            self.holder.log.append([batch(good, self.end(good), 1), batch(partition, sequence, 1)])

    @rule(
        partition=known,
        sequence=st.integers(0, 40),
        count_max=st.integers(1, 20),
        bytes_max=st.integers(0, 60),
    )
    def read(self, partition, sequence, count_max, bytes_max):
        expected: list[Batch] = []
        for held in self.model.get(partition, []):
            if held.end <= sequence or held.sequence >= sequence + count_max:
                continue
            if expected and sum(len(b.content) for b in [*expected, held]) > bytes_max:
                break
            expected.append(held)
        assert self.holder.log.read(partition, sequence, count_max, bytes_max) == expected

    @rule()
    def reopen(self):
        self.holder.reopen()

    @invariant()
    def heads_agree(self):
        assert self.holder.log.heads() == {p: self.end(p) - 1 for p in self.model}

    def teardown(self):
        self.holder.log.close()
        self._directory.cleanup()


class LmdbMachine(LogMachine):
    kind = Lmdb


_settings = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], stateful_step_count=30
)
TestMemoryLog = LogMachine.TestCase
TestMemoryLog.settings = _settings
TestLmdbLog = LmdbMachine.TestCase
TestLmdbLog.settings = _settings
