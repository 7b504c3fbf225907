"""Every machine, given what a broken or hostile peer may send, in any order.

Nothing is raised, what a machine sends can be written in both dialects, every drop has its reason,
and what peers invent (partitions, stores, requesters, batches ahead of a gap) does not pile up.
"""

from __future__ import annotations

import gc
from enum import Enum

import pytest

from dafka.errors import StorageError
from dafka.limits import PeerBounds
from dafka.model import Partition
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.effects import (
    Append,
    Compare,
    Deliver,
    Dropped,
    Publish,
    ReadRange,
    Stored,
)
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    Compared,
    Consumed,
    Mirrored,
    RangeRead,
    Received,
    Submitted,
    TurnEnded,
    Woke,
)
from dafka.protocol.foreign import Shape, Singles
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.protocol.presence import Heard, PresenceMachine, PresenceSettings
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.protocol.store import StoreMachine
from dafka.query.messages import RangesRequest, RangesResponse, decode_answer, encode
from dafka.query.service import answer
from dafka.reasons import REASONS
from dafka.records.batch import BatchBuilder
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.log import goes_on
from dafka.storage.memory import MemoryLog
from dafka.wire import libdafka, messages, rfc46
from dafka.wire.beacon import NodeBeacon, TowerBeacon
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.messages import MessageId
from distributor.link.events import AskHeads, HeadsRead, HeadsUnread, Side
from distributor.link.machine import LinkMachine
from distributor.link.settings import LinkSettings
from tests.support.peers import OURS, Peers, arrived

SEEDS = range(3)
EVENTS = 1_200
MANY = 20
"""What the limits are brought down to, so that some thousand messages are far beyond them."""

SMALL = PeerBounds(
    partitions=MANY, stores=MANY, reorder_batches=MANY, requesters=MANY, reminded_topics=MANY
)

HELD_MAX = 100 * MANY
"""Entries in all the collections of a machine, whatever it was sent."""


def held(machine):
    """Entries in all collections that a machine holds, and nobody else."""
    total, seen, waiting = 0, set(), [machine]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | Enum | bytes | str | int):
            continue
        seen.add(id(one))
        if isinstance(one, dict | list | set | frozenset | tuple):
            total += len(one)
        if isinstance(one, dict | list | set | frozenset | tuple) or type(
            one
        ).__module__.startswith(("dafka.", "distributor.", "collections")):
            waiting += gc.get_referents(one)
    return total


def fits(effects):
    """What leaves a machine can be sent, and what does not leave it has a reason."""
    for effect in effects:
        if isinstance(effect, Publish):
            for dialect in (rfc46, libdafka):
                dialect.decode(dialect.encode(effect.message))
        elif isinstance(effect, Dropped):
            assert effect.reason in REASONS


def given_to(machine, peers, perform=lambda effect: None):
    """Give a machine some thousand events; `perform` does what effects ask for."""
    now_ms, drops = 0, set()
    for _ in range(EVENTS):
        now_ms += peers.later_ms()
        pending = [peers.event(), TurnEnded()]
        while pending:
            event = pending.pop(0)
            if isinstance(event, Dropped) or not takes(machine, event):
                continue
            effects = machine.handle(event, now_ms)
            fits(effects)
            machine.check()
            drops |= {effect.reason for effect in effects if isinstance(effect, Dropped)}
            pending += [done for effect in effects if (done := perform(effect)) is not None]
        assert machine.wakeup_ms() is None or machine.wakeup_ms() >= 0
    assert held(machine) < HELD_MAX
    return drops


def takes(machine, event):
    turns = (StoreMachine, ProducerMachine)
    return isinstance(machine, turns) or not isinstance(event, TurnEnded)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("start", Start)
@pytest.mark.parametrize("committed", [False, True])
def test_a_consumer(seed, start, committed):
    peers = Peers(seed)
    machine = ConsumerMachine(
        OURS,
        ConsumerSettings(
            topics=peers.pick((), ("flights", "fl")),
            start=start,
            committed=committed,
            buffer_bytes_max=2_000,
            bounds=SMALL,
        ),
    )

    def perform(effect):
        if isinstance(effect, Deliver):
            return Consumed(len(effect.batch.content))
        return None

    assert "not for a consumer" in given_to(machine, peers, perform)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_store(seed, on_disk, tmp_path):
    peers = Peers(seed)
    log = LmdbLog(tmp_path, durability=Durability.OS) if on_disk else MemoryLog(OURS)
    machine = StoreMachine(OURS, {}, SMALL)

    def perform(effect):
        match effect:
            case Append():
                if peers.chance.random() < 0.1:
                    return AppendFailed(effect.token)
                try:
                    log.append(effect.batches, skips=dict(effect.skips))
                except StorageError:
                    return AppendFailed(effect.token)
                return Appended(effect.token)
            case ReadRange():
                read = log.read(
                    effect.partition, effect.sequence, effect.count_max, effect.bytes_max
                )
                skipped_to = goes_on(log.extents()[effect.partition], effect.sequence, read)
                return RangeRead(
                    effect.requester, effect.partition, tuple(read), skipped_to, effect.alone_end
                )
            case Compare():
                one = effect.batch
                read = log.read(one.partition, one.sequence, one.count, 1 << 20)
                return Compared(one, tuple(read))
        return None

    assert "not for a store" in given_to(machine, peers, perform)
    assert machine.heads == log.heads()
    assert isinstance(decode_answer(answer(encode(RangesRequest()), log)), RangesResponse)
    if on_disk:
        log.close()


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_store_at_the_end_of_the_sequences(on_disk, tmp_path):
    log = LmdbLog(tmp_path, durability=Durability.OS) if on_disk else MemoryLog(OURS)
    machine = StoreMachine(OURS, {}, SMALL)
    peers, place = Peers(1), Partition("flights", "AA")
    for now_ms in (0, 2_000, 4_000):
        for message in (
            messages.Head(*place, SEQUENCE_MAX),
            messages.LogStart(OURS, *place, SEQUENCE_MAX, "S1"),
            messages.Head(*place, SEQUENCE_MAX + 1),
            messages.LogStart(OURS, *place, SEQUENCE_MAX + 1, "S1"),
            *(peers.last_batch(count) for count in (3, 2, 1)),
        ):
            for event in (arrived(rfc46.encode(message)), TurnEnded(), Woke()):
                if isinstance(event, Dropped):
                    assert event == Dropped("sequence")
                    continue
                for effect in machine.handle(event, now_ms):
                    if isinstance(effect, Append):
                        log.append(effect.batches, skips=dict(effect.skips))
                        fits(machine.handle(Appended(effect.token), now_ms))
    assert log.heads() == {place: SEQUENCE_MAX}
    found = decode_answer(answer(encode(RangesRequest()), log))
    assert found == RangesResponse(((b"flights", b"AA", SEQUENCE_MAX, SEQUENCE_MAX + 1),), False)
    if on_disk:
        log.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("spooled", [False, True])
def test_a_producer(seed, spooled):
    peers = Peers(seed)
    settings = ProducerSettings(spooled=spooled, min_acks=2, stores_max=MANY)
    machine = ProducerMachine(OURS, settings)
    builder = BatchBuilder(1 << 16)
    builder.append(1, None, b"value", ())
    for topic in ("flights", "fl"):
        fits(machine.handle(Submitted(topic, 1, builder.build()), 0))

    def perform(effect):
        if isinstance(effect, Append):
            return peers.pick(Appended, AppendFailed)(effect.token)
        return None

    assert given_to(machine, peers, perform) >= {"not for a producer", "disputed partition"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mirror(seed):
    peers = Peers(seed)
    machine = MirrorMachine(MirrorSettings(min_acks=2, stores_max=MANY))
    for partition in (Partition("flights", "AA"), Partition("fl", "BB")):
        fits(machine.handle(Mirrored(peers.batch(partition)), 0))
    assert "not for a mirror" in given_to(machine, peers)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_link_between_two_such_meshes(seed):
    peers = Peers(seed)
    settings = ConsumerSettings(
        start=Start.ASSIGNED, committed=True, buffer_bytes_max=5_000, bounds=SMALL
    )
    machine = LinkMachine(
        level=1,
        origin=7,
        source=ConsumerMachine(OURS, settings),
        mirror=MirrorMachine(MirrorSettings(stores_max=MANY)),
        settings=LinkSettings(repair_after_ms=5_000),
    )
    now_ms = 0
    for _ in range(EVENTS):
        now_ms += peers.later_ms()
        pending = [(peers.pick(*Side), peers.event())]
        while pending:
            side, event = pending.pop(0)
            if isinstance(event, Dropped):
                continue
            effects = machine.handle((side, event), now_ms)
            fits(effect for _, effect in effects)
            machine.check()
            if any(isinstance(effect, AskHeads) for _, effect in effects):
                heads = {
                    Partition(peers.topic(), peers.address()): peers.sequence() for _ in range(5)
                }
                other = {partition: peers.sequence() for partition in list(heads)[:3]}
                first = list(heads)[:1] if peers.chance.random() < 0.02 else []
                diverged = {partition: peers.sequence() for partition in first}
                begins = {partition: peers.sequence() for partition in list(heads)[2:4]}
                read = HeadsRead(heads, other, diverged, begins=begins)
                pending.append((Side.TARGET, peers.pick(read, read, HeadsUnread())))
        assert machine.lag(now_ms) >= (0, 0)
    assert held(machine) < 3 * HELD_MAX


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", Shape)
def test_single_records_either_way(seed, shape):
    peers = Peers(seed)
    machine = Singles(shape, MANY)
    for _ in range(EVENTS):
        some = [peers.received() for _ in range(3)]
        fits(machine.inbound(some, 5))
        peers.pick(machine.listened, machine.left)(peers.pick(*MessageId), peers.address())
    assert held(machine) <= HELD_MAX


@pytest.mark.parametrize("seed", SEEDS)
def test_presence(seed):
    peers = Peers(seed)
    settings = PresenceSettings(peers_max=MANY)
    machine = PresenceMachine(NodeBeacon(OURS, "h", 5), settings, ["one", "two"])
    drops, now_ms = 0, 0
    for _ in range(EVENTS):
        now_ms += peers.pick(0, 1, 300)
        endpoint = f"tcp://h:{peers.chance.randint(1, 65_535)}"
        key = peers.pick("", "k" * 40)
        beacon = Heard(TowerBeacon(peers.address(), endpoint, key), peers.pick("one", "two"))
        for effect in machine.handle(beacon, now_ms):
            drops += effect == Dropped("too many peers")
        machine.handle(Woke(), now_ms)
        machine.check()
        assert machine.peers <= MANY
    assert drops
    assert held(machine) < HELD_MAX


def test_stored_is_said_only_of_what_was_sent():
    machine = ProducerMachine(OURS, ProducerSettings())
    builder = BatchBuilder(1 << 16)
    builder.append(1, None, b"value", ())
    machine.handle(Submitted("flights", 1, builder.build()), 0)
    peers = Peers(1)
    for _ in range(EVENTS):
        event = peers.received()
        if isinstance(event, Received):
            for effect in machine.handle(event, 0):
                if isinstance(effect, Stored):
                    assert effect.end == 1
