"""One cluster in the simulator: some seeds here, more with `make test SEEDS=1000`; and bugs put in
on purpose, each of which the checker must find and call by its name."""

from __future__ import annotations

import copy
from contextlib import suppress
from itertools import count

import pytest

from dafka.model import ALL_SLOTS, Slots, slot_of
from dafka.node.producer_role import ProducerRole
from dafka.node.store import StoreRole
from dafka.node.turn import Turn
from dafka.protocol.chosen_stores import ChosenStores
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import Publish
from dafka.protocol.events import Appended
from dafka.protocol.heads import HeadSchedule
from dafka.protocol.keeping import Keeping
from dafka.protocol.machine import earliest
from dafka.protocol.producer import ProducerMachine
from dafka.protocol.receiver import Inflow
from dafka.protocol.store import StoreMachine
from dafka.protocol.unacked import Unacked
from dafka.protocol.watermarks import HighWatermarks
from dafka.records.batch import enclosed
from dafka.records.envelope import ENVELOPE_BYTES
from dafka.storage.memory import MemoryLog
from dafka.storage.spool import MemorySpool
from dafka.testing import scenario
from dafka.testing.checker import Name
from dafka.testing.nodes import SimProducer, SimStore
from dafka.testing.scenario import run
from dafka.wire import messages
from tests.support.seeds import shown_by

MUTANT_SEEDS_MAX = 100


@pytest.mark.sim
def test_every_seed_settles_without_anomaly(seeds):
    failures = [
        f"seed {seed}: {anomaly}\n    python -m dafka.testing.scenario --seed {seed}"
        for seed in seeds
        for anomaly in run(seed).anomalies
    ]
    assert not failures, "\n".join(failures)


def test_the_same_seed_is_the_same_run():
    assert run(5) == run(5)
    assert run(5).fingerprint != run(6).fingerprint


def test_the_command_line_repeats_a_seed(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["scenario", "--seed", "3"])
    assert scenario.main() == 0
    assert "seed 3:" in capsys.readouterr().out


def shows(seed: int, wanted: set[Name]) -> bool:
    """Whether a seed shows any of these anomalies."""
    with suppress(AssertionError):  # the product has noticed by itself; another seed then
        return bool({anomaly.name for anomaly in run(seed).anomalies} & wanted)
    return False


def acknowledge_before_the_write(patch):
    original = StoreMachine._flush

    def hasty(self):
        effects = original(self)
        for token in list(self._appending):
            batches = self._appending[token]
            # In front: effects are performed one after the other, and a write is waited for.
            effects = [*self._append_ended(Appended(token), 0), *effects]
            self._appending[token] = batches
        return effects

    patch.setattr(StoreMachine, "_flush", hasty)


def acknowledge_a_write_that_was_refused(patch):
    def believed(self, token, now_ms):
        return self._append_ended(Appended(token), now_ms)

    patch.setattr(StoreMachine, "_append_failed", believed)


def acknowledge_what_a_head_says(patch):
    def believing(self, partition, sequence):
        topic, address = partition
        return [Publish(messages.Ack(topic, address, self._address, sequence))]

    patch.setattr(StoreMachine, "_acknowledge", believing)


def never_acknowledge_again(patch):
    patch.setattr(StoreMachine, "_acknowledge", lambda self, partition, sequence: [])


def lose_the_last_write_in_a_crash(patch):
    append, crash = MemoryLog.append, SimStore.crash

    def remembering(self, batches, **rest):
        if type(self) is MemoryLog:  # on disk, not as the process has it
            vars(self).pop("before", None)
            self.before = copy.deepcopy(vars(self))
        append(self, batches, **rest)

    def unsynced(self):
        crash(self)
        vars(self.log).update(vars(self.log).pop("before", {}))

    patch.setattr(MemoryLog, "append", remembering)
    patch.setattr(SimStore, "crash", unsynced)


def count_one_store_twice(patch):
    original = Unacked.acked
    calls = count()

    def generous(self, partition, store, end):
        return original(self, partition, f"{store}-{next(calls)}", end)

    patch.setattr(Unacked, "acked", generous)


def take_any_ack_for_everything(patch):
    original = Unacked.acked

    def generous(self, partition, store, end):
        return original(self, partition, store, 1 << 60) if partition in self else None

    patch.setattr(Unacked, "acked", generous)


def publish_before_it_is_in_the_spool(patch):
    original = ProducerMachine._submit

    def hasty(self, event, now_ms):
        self._spooled = False
        return original(self, event, now_ms)

    patch.setattr(ProducerMachine, "_submit", hasty)


def forget_where_the_spool_ended(patch):
    original = MemorySpool.append

    def append(self, batches):
        self._heads.clear()
        self._heads.update({batch.partition: batch.sequence - 1 for batch in batches[::-1]})
        original(self, batches)

    patch.setattr(MemorySpool, "append", append)
    patch.setattr(
        MemorySpool, "ends", lambda self: {b.partition.topic: b.end for b in self.batches()}
    )


def come_back_under_the_old_address_without_a_spool(patch):
    patch.setattr(SimProducer, "address", property(lambda self: self.name))


def serve_the_batch_before(patch):
    last: list = []

    def shifted(requester, batch):
        other = last[-1] if last and last[-1].count == batch.count else batch
        last[:] = [batch]
        content = enclosed(other.content[ENVELOPE_BYTES:], batch.sequence)
        topic, address = batch.partition
        return messages.DirectRecords(
            requester, topic, address, batch.sequence, batch.count, content
        )

    patch.setattr("dafka.protocol.unacked.direct_records", shifted)


def never_answer_a_fetch(patch):
    patch.setattr(Unacked, "answer", lambda self, fetch: [])


def never_say_head(patch):
    patch.setattr(HeadSchedule, "due", lambda self, now_ms: [])
    patch.setattr(HeadSchedule, "wakeup_ms", lambda self: None)
    patch.setattr(ProducerMachine, "_welcome", lambda self, event: [])


def take_what_lies_behind_a_hole(patch):
    original = Inflow.offer

    def careless(self, batch):
        stream = self._streams[batch.partition]
        if self._requester.startswith("C") and batch.sequence > stream.expected:
            stream.expected = batch.sequence
        return original(self, batch)

    patch.setattr(Inflow, "offer", careless)


def deliver_again_what_comes_again(patch):
    original = ConsumerMachine._take

    def forgetful(self, message, now_ms):
        effects = original(self, message, now_ms)
        return [*effects, *(effect for effect in effects if message.sequence)]

    patch.setattr(ConsumerMachine, "_take", forgetful)


def take_topics_nobody_asked_for(patch):
    patch.setattr(ConsumerMachine, "_concerns", lambda self, partition, end: True)


def begin_at_the_end(patch):
    original = ConsumerMachine.__init__

    def late(self, address, settings):
        original(self, address, ConsumerSettings(topics=settings.topics, start=Start.LATEST))

    patch.setattr(ConsumerMachine, "__init__", late)


def tell_heads_that_are_not_durable(patch):
    def boastful(self, requester, partition):
        topic, address = partition
        head = self._inflow.expected(partition) - 1
        return Publish(messages.DirectHead(requester, topic, address, head, self._address))

    patch.setattr(StoreMachine, "_direct_head", boastful)


def leave_a_hole_on_the_disk(patch):
    original = MemoryLog.read

    def lossy(self, *where):
        return [batch for batch in original(self, *where) if batch.sequence % 7 != 3]

    patch.setattr(MemoryLog, "read", lossy)


def acknowledge_before_the_transaction_returns(patch):
    append, handle = StoreRole._append, StoreRole.handle

    def put_off(self, effect):
        vars(self).setdefault("put_off", []).append(effect)
        return Appended(effect.token)

    def catch_up(self, side, event, now_ms):
        yield from handle(self, side, event, now_ms)
        while isinstance(event, Appended) and self.put_off:
            append(self, self.put_off.pop(0))

    patch.setattr(StoreRole, "_append", put_off)
    patch.setattr(StoreRole, "handle", catch_up)


def take_a_refusal_of_the_disk_for_a_write(patch):
    original = StoreRole._append

    def trusting(self, effect):
        original(self, effect)
        return Appended(effect.token)

    patch.setattr(StoreRole, "_append", trusting)


def publish_what_the_spool_refused(patch):
    original = ProducerRole._append

    def trusting(self, effect):
        original(self, effect)
        return Appended(effect.token)

    patch.setattr(ProducerRole, "_append", trusting)


def forget_to_wake_the_role(patch):
    def forgetful(self):
        return earliest(*(mesh.wakeup_ms() for mesh in self._meshes.values()))

    patch.setattr(Turn, "due_ms", forgetful)


def read_what_is_not_stored(patch):
    patch.setattr(HighWatermarks, "end", lambda self, partition: 1 << 40)


def acknowledge_what_is_not_kept(patch):
    original = StoreMachine._receive

    def boastful(self, received, now_ms):
        acks = [
            Publish(messages.Ack(one.topic, one.address, self._address, one.sequence))
            for one in received
            if isinstance(one, messages.Head)
            and not self._keeping.kept.keeps(one.topic, one.address)
        ]
        return acks + original(self, received, now_ms)

    patch.setattr(StoreMachine, "_receive", boastful)


def take_what_is_not_kept(patch):
    patch.setattr(Keeping, "heeds", lambda self, message: True)


def drop_what_is_kept(patch):
    original = Slots.keeps

    def besides(self, topic, address):
        return original(self, topic, address) and (self == ALL_SLOTS or slot_of(address) % 2)

    patch.setattr(Keeping, "heeds", lambda self, one: besides(self.kept, *place(one)))


def place(message):
    return getattr(message, "topic", "_"), getattr(message, "address", "")


def pass_on_before_the_write(patch):
    original = StoreMachine._flush

    def hasty(self):
        effects = original(self)
        return [*(one for append in effects for one in self._passed_on(append.batches)), *effects]

    patch.setattr(StoreMachine, "_flush", hasty)


def stay_with_a_store_that_is_gone(patch):
    patch.setattr(ChosenStores, "gone", lambda self, store, now_ms: [])


def take_one_store_for_all(patch):
    original = ChosenStores.heard

    def trusting(self, message, reached, now_ms):
        if isinstance(message, messages.StoreHello):
            message = messages.StoreHello(message.consumer, message.store)
        return original(self, message, reached, now_ms)

    patch.setattr(ChosenStores, "heard", trusting)


NEVER = {Name.UNSEEN, Name.LOST}
TWICE = {Name.INCONSISTENT, Name.NOT_FENCED}

MUTANTS = [
    (acknowledge_before_the_write, 0, {Name.ACK_NOT_DURABLE}),
    (acknowledge_a_write_that_was_refused, 46, {Name.ACK_NOT_DURABLE}),
    (acknowledge_what_a_head_says, 0, {Name.ACK_NOT_DURABLE}),
    (never_acknowledge_again, 19, NEVER),
    (lose_the_last_write_in_a_crash, 2, {Name.LOST_AFTER_CRASH}),
    (count_one_store_twice, 0, {Name.ACK_NOT_DURABLE}),
    (take_any_ack_for_everything, 0, {Name.ACK_NOT_DURABLE}),
    (publish_before_it_is_in_the_spool, 2, TWICE),
    (forget_where_the_spool_ended, 35, TWICE),
    (come_back_under_the_old_address_without_a_spool, 23, TWICE),
    (serve_the_batch_before, 2, {Name.DUPLICATE, Name.INCONSISTENT}),
    (never_answer_a_fetch, 2, NEVER),
    (never_say_head, 19, NEVER),
    (take_what_lies_behind_a_hole, 0, {Name.SKIP}),
    (deliver_again_what_comes_again, 0, {Name.NONMONOTONIC_POLL}),
    (take_topics_nobody_asked_for, 0, {Name.PHANTOM}),
    (begin_at_the_end, 5, NEVER),
    (tell_heads_that_are_not_durable, 37, {Name.HEAD_REGRESSION}),
    (leave_a_hole_on_the_disk, 2, {Name.GAP}),
    (acknowledge_before_the_transaction_returns, 0, {Name.ACK_NOT_DURABLE}),
    (take_a_refusal_of_the_disk_for_a_write, 46, {Name.ACK_NOT_DURABLE}),
    # A sequence that is used twice is mostly disputed, and then never stored.
    (publish_what_the_spool_refused, 2, TWICE | NEVER),
    (forget_to_wake_the_role, 5, NEVER),
    (read_what_is_not_stored, 0, {Name.NOT_STORED}),
    (acknowledge_what_is_not_kept, 11, {Name.ACK_NOT_DURABLE}),
    (take_what_is_not_kept, 4, {Name.PHANTOM}),
    (drop_what_is_kept, 4, NEVER),
    (pass_on_before_the_write, 5, {Name.NOT_STORED}),
    (stay_with_a_store_that_is_gone, 19, {Name.STARVED}),
    (take_one_store_for_all, 19, {Name.STARVED}),
]
"""Each with a seed that has shown it, and what the checker calls it."""


def trust_the_machines(patch):
    """Their own assertions would find some first; here it is the checker that is tested."""
    for machine in (ProducerMachine, StoreMachine, ConsumerMachine, Inflow):
        patch.setattr(machine, "check", lambda self: None)


def test_without_a_bug_nothing_is_found(monkeypatch):
    trust_the_machines(monkeypatch)
    assert [run(seed).anomalies for seed in range(3)] == [()] * 3


@pytest.mark.sim
@pytest.mark.parametrize(
    ("mutant", "seed", "wanted"), MUTANTS, ids=[one.__name__ for one, *_ in MUTANTS]
)
def test_bugs_put_in_on_purpose_are_found_and_named(mutant, seed, wanted, monkeypatch):
    trust_the_machines(monkeypatch)
    mutant(monkeypatch)
    assert any(shows(one, wanted) for one in shown_by(seed, MUTANT_SEEDS_MAX))
