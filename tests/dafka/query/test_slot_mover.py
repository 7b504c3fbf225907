"""Slots that move between stores, each a log with a query port, asked by who moves them."""

from __future__ import annotations

import pytest

from dafka.errors import RefusedError
from dafka.groups import membership
from dafka.groups.membership import Accept, Ballot, Member, Membership, Prepare
from dafka.model import ALL_SLOTS, Partition, Slots, address_in, slot_of
from dafka.query.client import StoreClient
from dafka.query.messages import encode
from dafka.query.slot_mover import BEHIND_MAX, SlotMover
from dafka.query.slot_steps import ROWS_MAX, SlotsRequest, SlotsResponse
from dafka.storage.holds import Holds
from dafka.storage.kept_slots import STOPPED_MS, TAKEN_MS, KeptSlots
from dafka.storage.log import ChangeOrder
from dafka.storage.passed_over import RANGES_MAX, passing
from tests.support.asked_stores import AskedStore
from tests.support.batches import make_batch

LOW, HIGH = Slots.of([range(2_048)]), Slots.of([range(2_048, 4_096)])
P_LOW, P_HIGH = (Partition("orders", address_in("AB" * 16, half, 2)) for half in (0, 1))
OWN = Partition("__consumer_offsets", "AB" * 16)


class MovedStore(AskedStore):
    """A store without a machine: what it has is put there by the test."""

    def __init__(self, name, slots, *, joins=False):
        super().__init__(name, opened_ms=-3_600_000)
        self.kept_slots = KeptSlots(self.log, slots, joins=joins)
        self.openings = 0

    def start_with(self, slots):
        """As a new process, with the same disk."""
        self.openings += 1
        self.log.changes = ChangeOrder(f"{self.name}.{self.openings}")
        self.kept_slots = KeptSlots(self.log, slots)

    def has(self, partition, count):
        end = self.log.ends().get(partition, 0)
        self.log.append([make_batch([b"1"], one, partition) for one in range(end, count)])

    def passes_over(self, partition, end):
        """As nobody has what lacks before it."""
        skips = {partition: end}
        self.log.append((), skips=skips, entries=passing(self.log, skips))

    @property
    def kept(self):
        return self.kept_slots.keeping.kept


def mover_of(*stores, copies=1, leaving=()):
    clients, others = (
        [StoreClient(one.name, connect=one) for one in several] for several in (stores, leaving)
    )
    return SlotMover(clients, copies, others)


def cleared(store):
    while store.kept_slots.clear(1_000, Holds(store.log)):
        pass


@pytest.fixture
def old():
    store = MovedStore("old", ALL_SLOTS)
    for partition in (P_LOW, P_HIGH):
        store.has(partition, 3)
    return store


def test_what_keeps_what_it_is_to_is_left_alone(old):
    assert mover_of(old).look() == ""
    assert old.kept == ALL_SLOTS


def test_slots_go_to_a_new_store_when_it_has_them_and_then_from_the_old_one(old):
    old.start_with(LOW)
    old.has(OWN, 3)
    new = MovedStore("new", HIGH, joins=True)
    mover = mover_of(old, new)
    new.has(P_HIGH, 2)
    assert mover.look() == f"new to have {P_HIGH} up to 3"
    assert (old.kept, new.kept) == (ALL_SLOTS, Slots(0))
    new.has(P_HIGH, 3)
    assert mover.look() == f"new to have {OWN} up to 3", "commits are kept by all"
    assert (old.kept, new.kept) == (ALL_SLOTS, Slots(0))
    new.has(OWN, 3)
    assert mover.look() == "old to take off its disk what it gave up"
    assert (old.kept, new.kept) == (LOW, HIGH)
    cleared(old)
    assert mover.look() == ""
    assert old.log.extents().keys() == {P_LOW, OWN}


def test_who_joins_has_to_have_what_one_has_that_is_about_to_end(old):
    new = MovedStore("new", ALL_SLOTS, joins=True)
    mover = mover_of(new, leaving=[old])
    new.has(P_LOW, 3)
    assert mover.look() == f"new to have {P_HIGH} up to 3"
    assert new.kept == Slots(0)
    new.has(P_HIGH, 3)
    assert mover.look() == ""
    assert new.kept == ALL_SLOTS


def test_nobody_gives_up_what_only_one_keeps_beside_him_that_is_about_to_end(old):
    other = MovedStore("other", ALL_SLOTS)
    other.has(P_HIGH, 3)
    old.start_with(LOW)
    waits_for = "1 others to keep slots 2048-4095, which old is to give up"
    assert mover_of(old, leaving=[other]).look() == waits_for
    assert old.kept == ALL_SLOTS


def test_a_store_does_not_end_before_all_others_have_what_the_cluster_says_of_itself(old):
    old.has(OWN, 3)
    stores = [MovedStore(name, ALL_SLOTS) for name in ("one", "other")]
    for partition in (P_LOW, P_HIGH):
        stores[0].has(partition, 3)
    mover = mover_of(*stores, leaving=[old])
    for name, store in zip(("one", "other"), stores, strict=True):
        assert mover.look() == mover.owed() == f"{name} to have {OWN} up to 3"
        store.has(OWN, 3)
    assert mover.look() == mover.owed() == ""
    old.down = True
    assert mover.owed() == "store at old does not answer"


def test_a_store_does_not_end_before_others_have_what_it_was_sent_but_the_last(old):
    stays = MovedStore("stays", ALL_SLOTS)
    mover = mover_of(stays, leaving=[old])
    stays.has(P_LOW, 2)
    stays.has(P_HIGH, 3)
    catching_up = f"1 others to have {P_LOW} up to 3, 0 have"
    assert mover.look() == mover.owed() == catching_up
    old.has(P_LOW, 4)
    stays.has(P_LOW, 3)
    assert mover.look() == mover.owed() == "", "what is on its way is looked for on its disk"
    end = BEHIND_MAX + 10
    old.log.append((), skips={P_LOW: end - 1})
    old.has(P_LOW, end)
    said = f"1 others to have {P_LOW} up to {end}, 0 have"
    assert mover.look() == mover.owed() == said
    stays.log.append((), skips={P_LOW: end - 1})
    assert mover.look() == mover.owed() == ""


@pytest.mark.parametrize("joins", [True, False])
def test_of_what_the_cluster_says_of_itself_is_not_waited_for_what_is_forgotten(old, joins):
    """Retention in bytes strikes at different moments: it would be waited for in vain."""
    old.has(OWN, 3)
    new = MovedStore("new", ALL_SLOTS, joins=joins)
    for partition in (P_LOW, P_HIGH, OWN):
        new.has(partition, 3)
    new.log.append((), trims={OWN: 3})
    new.log.append((), forgets=[OWN])
    assert mover_of(new, leaving=[old]).look() == ""
    assert new.kept == ALL_SLOTS


def test_while_records_flow_all_that_was_acknowledged_is_elsewhere(old):
    old.start_with(LOW)
    new = MovedStore("new", HIGH, joins=True)

    def store_one_more():
        if old.kept_slots.keeping.takes(P_HIGH):
            old.has(P_HIGH, old.log.ends()[P_HIGH] + 1)

    old.hears.append(store_one_more)
    new.hears.append(lambda: new.has(P_HIGH, old.log.ends().get(P_HIGH, 0)))
    assert mover_of(old, new).look() == "old to take off its disk what it gave up"
    assert (old.kept, new.kept) == (LOW, HIGH)
    assert new.log.ends()[P_HIGH] == old.log.ends()[P_HIGH] > 6


def test_so_many_others_have_to_keep_and_to_have_it(old):
    old.start_with(LOW)
    one, other = MovedStore("one", HIGH), MovedStore("other", HIGH)
    one.has(P_HIGH, 3)
    waits_for = "2 others to keep slots 2048-4095, which old is to give up"
    assert mover_of(old, one, copies=2).look() == waits_for
    assert (
        mover_of(old, one, other, copies=2).look() == f"2 others to have {P_HIGH} up to 3, 1 have"
    )
    assert old.kept == ALL_SLOTS
    other.has(P_HIGH, 3)
    mover_of(old, one, other, copies=2).look()
    assert old.kept == LOW


def test_two_stores_do_not_rely_on_each_other(old):
    twin = MovedStore("twin", ALL_SLOTS)
    for partition in (P_LOW, P_HIGH):
        twin.has(partition, 3)
    old.start_with(LOW)
    twin.start_with(LOW)
    # Another mover has stopped it, and looks now at the others.
    StoreClient("twin", connect=twin).slots(SlotsRequest("stop", ((2_048, 4_096),)))
    assert mover_of(old, twin).look() == (
        "1 others to keep slots 2048-4095, which old is to give up"
    )
    assert (old.kept, twin.kept) == (ALL_SLOTS, ALL_SLOTS)


def test_who_does_not_answer_holds_everything_up(old):
    old.start_with(LOW)
    new = MovedStore("new", HIGH, joins=True)
    new.has(P_HIGH, 3)
    lost = MovedStore("lost", LOW)
    lost.down = True
    assert mover_of(old, new, lost).look() == "store at lost does not answer"
    assert (old.kept, new.kept) == (ALL_SLOTS, Slots(0))


def test_slots_that_nobody_keeps_yet_are_taken_at_once():
    new = MovedStore("new", LOW, joins=True)
    other = MovedStore("other", HIGH, joins=True)
    assert mover_of(new, other).look() == ""
    assert (new.kept, other.kept) == (LOW, HIGH)


def test_a_step_that_may_not_be_taken_is_refused_with_its_reason(old):
    store = StoreClient("old", connect=old)
    for request, reason in (
        (SlotsRequest("take", ((5, 1),)), "ends before it begins"),
        (SlotsRequest("stop", ((0, 1),)), "slots 0-0 are not to be given up"),
        (SlotsRequest("drop", token="an earlier one"), "stop it again"),
    ):
        with pytest.raises(RefusedError, match=reason):
            store.slots(request)


def test_what_another_has_had_and_forgotten_it_need_not_be_brought_again(old):
    old.start_with(LOW)
    new = MovedStore("new", HIGH, joins=True)
    new.has(P_HIGH, 3)
    mover = mover_of(old, new)
    new.kept_slots.take(HIGH, new.kept_slots.opening)
    new.log.append((), trims={P_HIGH: 3})
    new.log.append((), forgets=[P_HIGH])
    assert P_HIGH not in new.log.extents()
    assert mover.look() == "old to take off its disk what it gave up"


def test_what_joins_hears_which_stores_there_are_before_it_passes_over_anything(old):
    new = MovedStore("new", HIGH, joins=True)
    assert new.kept_slots.keeping.asked_of(P_HIGH) == set()
    mover_of(old, new).look()
    assert new.kept_slots.keeping.asked_of(P_HIGH) == {"old"}


@pytest.mark.parametrize(("end", "gap"), [(0, "from 0 up to 2"), (1, "from 1 up to 2")])
def test_what_others_have_passed_over_is_not_given_up(old, end, gap):
    old.start_with(LOW)
    stays, new = MovedStore("stays", ALL_SLOTS), MovedStore("new", HIGH)
    for other in (stays, new):
        other.has(P_HIGH, end)
        other.passes_over(P_HIGH, 2)
        other.has(P_HIGH, 3)
    for again in range(2):
        assert mover_of(old, stays, new, copies=2).look() == (
            f"another store to keep slot {slot_of(P_HIGH.address)}, too: old alone has {P_HIGH} "
            f"{gap}, which stays has passed over"
        ), again
    assert old.kept == ALL_SLOTS
    third = MovedStore("third", HIGH, joins=True)
    third.has(P_HIGH, 3)
    mover_of(old, stays, new, third, copies=2).look()
    assert old.kept == LOW


def test_what_retention_has_taken_at_those_that_had_it_holds_nothing_up(old):
    old.start_with(LOW)
    new = MovedStore("new", HIGH)
    new.has(P_HIGH, 3)
    new.log.append((), trims={P_HIGH: 2})
    assert mover_of(old, new).look() == "old to take off its disk what it gave up"


def test_what_it_never_had_either_holds_nothing_up():
    old, new = MovedStore("old", ALL_SLOTS), MovedStore("new", HIGH)
    for one in (old, new):
        for end in (2, 5):
            one.passes_over(P_HIGH, end)
            one.has(P_HIGH, end + 1)
    old.start_with(LOW)
    assert mover_of(old, new).look() == "old to take off its disk what it gave up"


def test_of_very_many_gaps_the_first_may_be_wider_than_it_was():
    """What lies between gaps that have become one is there: it must not be taken for a gap."""
    old, new = MovedStore("old", ALL_SLOTS), MovedStore("new", HIGH)
    for number in range(RANGES_MAX + 1):
        old.has(P_HIGH, 2 * number + 1)
        old.passes_over(P_HIGH, 2 * number + 2)
    new.passes_over(P_HIGH, 2 * RANGES_MAX + 2)
    old.start_with(LOW)
    assert f"{P_HIGH} from 0 up to" in mover_of(old, new).look()
    assert old.kept == ALL_SLOTS


def test_where_forgotten_partitions_ended_is_handed_over(old):
    """Their producers may go on: who does not know the end waits for what was before it."""
    old.start_with(LOW)
    forgotten = [Partition(f"topic-{n}", P_HIGH.address) for n in range(ROWS_MAX + 5)]
    for partition in (*forgotten, P_LOW):
        old.has(partition, 3)
        old.log.append((), trims={partition: 3})
        old.log.append((), forgets=[partition])
    new = MovedStore("new", HIGH, joins=True)
    new.has(P_HIGH, 3)
    mover = mover_of(old, new)
    assert mover.look() == f"new to remember that {forgotten[-1 - 4]} ended at 3"
    assert old.kept == ALL_SLOTS
    assert new.kept_slots.ended() == dict.fromkeys(forgotten, 3)
    new.log.append((), skips=dict.fromkeys(forgotten, 3))
    new.log.append((), forgets=forgotten)
    assert mover.look() == "old to take off its disk what it gave up"


def test_as_long_as_another_is_far_behind_nothing_is_stopped(old):
    old.start_with(LOW)
    new = MovedStore("new", HIGH, joins=True)
    new.has(P_HIGH, 3)
    new.kept_slots.take(HIGH, new.kept_slots.opening)
    old.passes_over(P_HIGH, BEHIND_MAX + 4)
    waits_for = f"1 others to have {P_HIGH} up to {BEHIND_MAX + 4}, 0 have"
    assert mover_of(old, new).look() == waits_for
    assert not old.kept_slots.keeping.stopped
    new.has(P_HIGH, 4)
    assert mover_of(old, new).look() == waits_for
    assert old.kept_slots.keeping.stopped == HIGH, "what lacks is on its way"


def test_what_another_lacks_for_long_is_taken_in_again_most_of_the_time(old):
    """Its disk is full, say: who gives up may be the only one that takes in what comes."""
    old.start_with(LOW)
    new = MovedStore("new", HIGH, joins=True)
    new.has(P_HIGH, 3)
    new.kept_slots.take(HIGH, new.kept_slots.opening)
    old.has(P_HIGH, 5)
    mover, taken = mover_of(old, new), []
    for second in range(200):
        old.now_ms = second * 1_000
        mover.look()
        old.kept_slots.lapse(old.now_ms)
        taken.append(old.kept_slots.keeping.takes(P_HIGH))
    assert 140 <= sum(taken) < 200
    new.has(P_HIGH, 5)
    old.now_ms += STOPPED_MS + TAKEN_MS
    assert mover.look() == "old to take off its disk what it gave up"


def test_a_mover_that_slept_lets_nobody_keep_what_was_cleared_meanwhile(old):
    old.start_with(ALL_SLOTS)
    new = MovedStore("new", HIGH, joins=True)
    new.has(P_HIGH, 3)
    store = StoreClient("new", connect=new)
    late = SlotsRequest("take", ((2_048, 4_096),), store.slots().opening)
    new.start_with(LOW)  # with one file they are not to be its, with the next they are again
    cleared(new)
    new.start_with(HIGH)
    with pytest.raises(RefusedError, match="look again"):
        store.slots(late)
    assert not new.kept.has(4_095)


def test_a_store_that_tells_of_no_slots_is_named(old, monkeypatch):
    said = encode(SlotsResponse(((9, 3),), ()))
    monkeypatch.setattr(old, "ask", lambda *_: said)
    assert mover_of(old).look() == (
        "store at old told of slots that are none: a range of slots ends before it begins"
    )


@pytest.mark.parametrize("leaves", [True, False])
def test_what_runs_were_agreed_on_is_handed_over_to_who_stays_or_comes(leaves):
    before, after = MovedStore("S0", ALL_SLOTS), MovedStore("S1", ALL_SLOTS)
    agreed = Membership(1, 1, {"run": Member((b"that",), 2_000)})
    before.registers.prepare(Prepare("__sink.a", Ballot(1, "p")), 0)
    before.registers.accept(Accept("__sink.a", Ballot(1, "p"), membership.encode(agreed)), 0)
    if leaves:
        assert mover_of(after, leaving=[before]).owed() == ""
    else:
        assert mover_of(before, after).look() == ""
    assert after.registers.generation("__sink.a", 0) == 1
