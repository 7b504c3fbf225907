from __future__ import annotations

from contextlib import closing

import pytest

from dafka.errors import MisuseError
from dafka.model import ALL_SLOTS, Partition, Slots, slot_of
from dafka.protocol.keeping import KEEPS_ALL, NO_SLOTS, Keeping
from dafka.storage.holds import TABLE as HOLDS_TABLE
from dafka.storage.holds import Holds, HoldWord
from dafka.storage.kept_slots import ERASED_MAX, STOPPED_MS, TAKEN_MS, KeptSlots
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.log import ChangeOrder
from dafka.storage.memory import MemoryLog
from dafka.storage.passed_over import passed_over, passing
from tests.support.batches import make_batch
from tests.support.record_logs import Lmdb, Memory

LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, 4_096)])


@pytest.fixture
def opened(tmp_path):
    """Opens the log anew and says what it does with slots."""

    def opened(slots, *batches):
        with closing(LmdbLog(tmp_path, durability=Durability.OS)) as log:
            keeping = KeptSlots(log, slots).keeping
            log.append(batches)
        return keeping

    return opened


def test_an_empty_log_becomes_one_of_the_slots_and_stays_so(opened):
    assert opened(LOW) == Keeping(LOW)
    assert opened(LOW, make_batch([b"1"])) == Keeping(LOW)
    assert opened(HIGH) == Keeping(LOW, joining=HIGH)
    assert opened(ALL_SLOTS) == Keeping(LOW, joining=HIGH)


def test_a_log_that_was_told_nothing_keeps_all(opened):
    assert opened(ALL_SLOTS, make_batch([b"1"])) == KEEPS_ALL
    assert opened(LOW) == KEEPS_ALL
    assert opened(ALL_SLOTS) == KEEPS_ALL


NEXT = Slots.of([range(2_048, 3_072)])


def partition_in(slots, topic="flights"):
    addresses = (f"{number:032X}" for number in range(10_000))
    return Partition(topic, next(one for one in addresses if slots.has(slot_of(one))))


def test_what_a_store_is_started_with_beyond_its_disk_joins_until_it_is_taken():
    log = MemoryLog("S0")
    KeptSlots(log, LOW)
    wider = KeptSlots(log, LOW.joined(NEXT))
    assert wider.keeping == Keeping(LOW, NEXT)
    assert KeptSlots(log, LOW.joined(NEXT)).keeping == Keeping(LOW, NEXT), "a restart skips nothing"
    with pytest.raises(MisuseError, match="slots 3072-4095 do not join"):
        wider.take(HIGH, wider.opening)
    wider.take(NEXT, wider.opening)
    wider.take(NEXT, wider.opening)  # an answer may get lost
    assert wider.keeping == Keeping(LOW.joined(NEXT))
    assert KeptSlots(log, LOW).keeping.kept == LOW.joined(NEXT)


def test_to_take_what_is_kept_writes_nothing(tmp_path):
    with closing(LmdbLog(tmp_path, durability=Durability.OS)) as log:
        kept_slots = KeptSlots(log, LOW)
        (segment,) = (tmp_path / "segments").iterdir()
        size = segment.stat().st_size
        for again in (LOW, NO_SLOTS):
            kept_slots.take(again, kept_slots.opening)
        assert segment.stat().st_size == size
        assert kept_slots.keeping == Keeping(LOW)


def test_an_empty_disk_keeps_at_once_or_joins_and_says_so_for_good():
    log = MemoryLog("S0")
    assert KeptSlots(log, LOW, joins=True).keeping == Keeping(NO_SLOTS, LOW)
    assert KeptSlots(log, LOW).keeping == Keeping(NO_SLOTS, LOW)
    assert KeptSlots(MemoryLog("S1"), LOW).keeping == Keeping(LOW)


def test_what_it_is_to_keep_or_has_not_is_not_stopped():
    kept = KeptSlots(MemoryLog("S0"), LOW)
    for slots in (LOW, HIGH, NO_SLOTS):
        with pytest.raises(MisuseError, match="are not to be given up"):
            kept.stop(slots, 0)


def test_what_is_stopped_goes_on_after_a_while_and_is_not_dropped_then():
    log = MemoryLog("S0")
    KeptSlots(log, ALL_SLOTS)
    log.append([make_batch([b"1"], 0, partition_in(HIGH))])
    kept = KeptSlots(log, LOW)
    kept.stop(HIGH, 0)
    token = kept.token
    kept.stop(HIGH, STOPPED_MS - 1)
    kept.lapse(STOPPED_MS - 1)
    assert (kept.token, kept.keeping.stopped) == (token, HIGH), "another mover goes on with it"
    kept.lapse(STOPPED_MS)
    assert kept.keeping == Keeping(), "however often it is said: others may lack it for long"
    for late in (token, ""):
        with pytest.raises(MisuseError, match="stop it again"):
            kept.drop(late)
    again_ms = STOPPED_MS + TAKEN_MS
    with pytest.raises(MisuseError, match="were stopped in vain: look again in 1 s"):
        kept.stop(HIGH, again_ms - 1)
    kept.stop(HIGH, again_ms)
    with pytest.raises(MisuseError, match="stop it again"):
        kept.drop(token)
    kept.drop(kept.token)
    assert kept.keeping == Keeping(LOW)


def test_what_was_dropped_is_erased_before_it_joins_again():
    log = MemoryLog("S0")
    KeptSlots(log, ALL_SLOTS)
    gone, own, system = (
        partition_in(HIGH),
        partition_in(LOW),
        partition_in(HIGH, "__consumer_offsets"),
    )
    for one in (gone, own, system):
        log.append([make_batch([b"1"], 0, one), make_batch([b"2"], 1, one)])
    kept = KeptSlots(log, LOW)
    kept.stop(HIGH, 0)
    kept.drop(kept.token)
    assert kept.clear(1, Holds(log))
    assert log.extents()[gone].start == 1
    again = KeptSlots(log, ALL_SLOTS)
    assert again.keeping == Keeping(LOW, NO_SLOTS), "what is half dropped is not whole"
    while again.clear(1, Holds(log)):
        pass
    assert again.keeping == Keeping(LOW, HIGH)
    assert log.ends() == {own: 2, system: 2}, "not even its end is known"


def test_what_came_of_slots_that_were_to_join_and_are_not_any_more_is_erased():
    log = MemoryLog("S0")
    KeptSlots(log, LOW)
    KeptSlots(log, ALL_SLOTS)
    log.append([make_batch([b"1"], 0, partition_in(HIGH))])
    kept = KeptSlots(log, LOW)
    assert kept.dropped
    while kept.clear(10, Holds(log)):
        pass
    assert not log.ends()


@pytest.mark.parametrize("kind", [Memory, Lmdb])
def test_of_what_is_dropped_not_even_forgotten_ends_and_holds_are_left(kind, tmp_path):
    """They would be taken for what retention took if the slots came back."""
    log = kind(tmp_path).log
    KeptSlots(log, ALL_SLOTS)
    address = {half: partition_in(half).address for half in (HIGH, LOW)}
    gone = [Partition(f"topic-{number}", address[HIGH]) for number in range(ERASED_MAX + 3)]
    own = [Partition(f"topic-{number}", address[LOW]) for number in range(5)]
    system = partition_in(HIGH, "__consumer_offsets")
    held = partition_in(HIGH, "held")
    log.append([make_batch([b"1"], 0, one) for one in (*gone, *own, system, held)])
    holds = Holds(log)
    holds.place(HoldWord(1, b"all", {held: 1}))
    skips = {held: 5}
    log.append((), skips=skips, entries=passing(log, skips))
    log.append((), trims=dict.fromkeys((*gone, *own, system), 1))
    log.append((), forgets=[gone[0], own[0], system, *gone[1:], *own[1:]])
    kept = KeptSlots(log, LOW)
    kept.stop(HIGH, 0)
    kept.drop(kept.token)
    for _ in range(100):
        if not kept.clear(10, holds):
            break
    assert not kept.dropped
    assert log.recall([*gone, *own, system]).keys() == {*own, system}
    assert not log.extents()
    assert holds.floor(held) == 0
    assert passed_over(log, b"", 9)[0] == {}
    assert len(log.scan(HOLDS_TABLE, b"", 9)) == 1, "what is in charge says of all"
    log.close()


def test_what_was_seen_of_an_earlier_opening_does_not_let_it_keep():
    """It may have been off the disk since, and have joined again."""
    log = MemoryLog("S0")
    KeptSlots(log, LOW)
    before = KeptSlots(log, ALL_SLOTS).opening
    log.changes = ChangeOrder("another process")
    kept = KeptSlots(log, ALL_SLOTS)
    with pytest.raises(MisuseError, match="started anew since it was seen what it has: look again"):
        kept.take(HIGH, before)
    kept.take(HIGH, kept.opening)
