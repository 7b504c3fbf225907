"""The contract of `dafka.storage.log`, in any order of calls."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from dafka.errors import StorageError
from dafka.testing.strategies import partitions
from tests.support.record_logs import KilledLmdb, Lmdb, Memory, batch

if TYPE_CHECKING:
    from dafka.model import Batch, Partition


class LogMachine(RuleBasedStateMachine):
    """A log against a dictionary."""

    kind = Memory
    known = Bundle("known")

    def __init__(self):
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.holder = self.kind(self._directory.name)
        self.model: dict[Partition, list[Batch]] = {}
        self.ends: dict[Partition, int] = {}
        self.forgotten: set[Partition] = set()
        self.mark = self.holder.log.changes.now
        self.followed = {}
        """Standings, brought up to date with what is said to have changed."""

    def end(self, partition):
        return self.ends.get(partition, 0)

    @rule(target=known, partition=partitions)
    def meet(self, partition):
        return partition

    @rule(
        plan=st.lists(
            st.tuples(known, st.integers(1, 5), st.binary(min_size=1, max_size=20)),
            min_size=1,
            max_size=6,
        )
    )
    def append(self, plan):
        added = []
        for partition, count, content in plan:
            one = batch(partition, self.end(partition), count, content)
            self.model.setdefault(partition, []).append(one)
            self.ends[partition] = one.end
            added.append(one)
        self.holder.log.append(added)
        self.forgotten -= {one.partition for one in added}

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
            if not self.model[partition][0].sequence <= sequence:
                break
            if held.end <= sequence:
                continue
            if expected and held.sequence >= sequence + count_max:
                break
            if expected and held.sequence > expected[-1].end:
                break
            if expected and sum(len(b.content) for b in [*expected, held]) > bytes_max:
                break
            expected.append(held)
        assert self.holder.log.read(partition, sequence, count_max, bytes_max) == expected

    @rule(partition=known, sequence=st.integers(1, 30))
    def trim(self, partition, sequence):
        self.holder.log.append([], trims={partition: sequence})
        self.model[partition] = [b for b in self.model.get(partition, []) if b.end > sequence]
        self.forgotten.discard(partition)

    @rule(partition=known)
    def forget(self, partition):
        if partition in self.model and not self.model[partition]:
            if partition not in self.forgotten:
                self.holder.log.append([], forgets=[partition])
                self.forgotten.add(partition)
            return
        with pytest.raises(StorageError):
            self.holder.log.append([], forgets=[partition])

    @rule(partition=known, ahead=st.integers(-3, 10))
    def skip(self, partition, ahead):
        sequence = self.end(partition) + ahead
        self.holder.log.append([], skips={partition: sequence})
        self.forgotten.discard(partition)
        if ahead > 0:
            self.model.setdefault(partition, [])
            self.ends[partition] = sequence

    @rule()
    def reopen(self):
        self.holder.reopen()

    @invariant()
    def heads_agree(self):
        listed = self.model.keys() - self.forgotten
        assert self.holder.log.heads() == {p: self.end(p) - 1 for p in listed}
        assert self.holder.log.records == sum(self.end(p) for p in listed)
        recalled = self.holder.log.recall(self.model)
        assert {p: extent.start for p, extent in recalled.items()} == {
            p: self.end(p) for p in self.forgotten
        }

    @invariant()
    def standings_agree(self):
        for partition, extent in self.holder.log.extents().items():
            held = self.model[partition]
            assert extent.start == (held[0].sequence if held else self.end(partition))
            assert extent.size == sum(len(b.content) for b in held)

    @invariant()
    def changes_are_all_there(self):
        log = self.holder.log
        changed = log.changes.since(self.mark)
        if changed is None:  # opened anew: all may have changed
            self.followed = {}
            changed = [(partition, None) for partition in log.extents()]
        for partition, _ in changed:
            if partition in log.extents():
                self.followed[partition] = log.extents()[partition]
            else:
                self.followed.pop(partition)
        self.mark = log.changes.now
        assert self.followed == log.extents()

    def teardown(self):
        self.holder.log.close()
        self._directory.cleanup()


class LmdbMachine(LogMachine):
    kind = Lmdb


class KilledLmdbMachine(LogMachine):
    kind = KilledLmdb


_settings = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], stateful_step_count=30
)
TestMemoryLog = LogMachine.TestCase
TestMemoryLog.settings = _settings
TestLmdbLog = LmdbMachine.TestCase
TestLmdbLog.settings = _settings
TestKilledLmdbLog = KilledLmdbMachine.TestCase
TestKilledLmdbLog.settings = _settings
