from __future__ import annotations

from itertools import count

import pytest

from dafka.gateway.broker import ErrorCode, Offsets, Placed
from dafka.gateway.ledger import LedgerEntry
from dafka.testing.gateway_nodes import (
    IN_FLIGHT_MAX,
    REQUEST_MS,
    ShownOffsets,
    SimGatewayNode,
    SimKafkaProducer,
)
from dafka.testing.gateways import ORDERS
from dafka.testing.world import Faults, SimMesh, World
from tests.support.gateway_bench import FIRST


@pytest.mark.parametrize(
    ("offsets", "entry", "name"),
    [
        (Offsets(0, 2), LedgerEntry(0, "A", 0, 2), "L5"),
        (Offsets(0, 4), LedgerEntry(0, "A", 1, 4), "L2"),
    ],
)
def test_what_was_shown_once_stays(offsets, entry, name):
    shown = ShownOffsets()
    shown.take(Offsets(0, 3), [LedgerEntry(0, "A", 0, 3)])
    with pytest.raises(AssertionError, match=name):
        shown.take(offsets, [entry])


class Alone(SimGatewayNode):
    """A gateway that says it owns everything, and answers as it is told."""

    def __init__(self, world):
        super().__init__(world, "G0", SimMesh(world), (), ORDERS, {}, count(1))
        self.asked = []
        self.alive = True

    @property
    def awake(self):
        return True

    def owner(self, partition):
        return self.node

    def append(self, wanted, answered):
        self.asked.append((wanted, answered))


@pytest.fixture
def world():
    return World(1, Faults())


@pytest.fixture
def gateway(world):
    return Alone(world)


def producer(world, gateway, *, implicit=False):
    return SimKafkaProducer(world, 7, FIRST, [gateway], implicit=implicit)


def answer(world, gateway, place, placed):
    gateway.asked[place][1](placed)
    world.run_until(world.now_ms + 10)


def test_so_many_batches_are_under_way_in_their_order(world, gateway):
    client = producer(world, gateway)
    world.run_until(3_000)
    assert len(gateway.asked) == IN_FLIGHT_MAX
    assert [wanted.token for wanted, _ in gateway.asked] == sorted(
        wanted.token for wanted, _ in gateway.asked
    )
    assert client.waiting


def test_what_is_refused_or_not_answered_is_sent_again_the_first_first(world, gateway):
    producer(world, gateway)
    world.run_until(2_000)
    answer(world, gateway, 0, Placed(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    world.run_until(2_500)
    assert gateway.asked[IN_FLIGHT_MAX][0].batch == gateway.asked[0][0].batch
    world.run_until(2_500 + 2 * REQUEST_MS)
    again = gateway.asked[IN_FLIGHT_MAX + 1 :]
    assert gateway.asked[1][0].batch in [wanted.batch for wanted, _ in again]


def test_librdkafka_takes_what_lies_before_a_stored_batch_for_stored(world, gateway):
    implicit = producer(world, gateway, implicit=True)
    world.run_until(2_000)
    answer(world, gateway, 1, Placed(ErrorCode.NONE, 40))
    assert list(implicit.placed.values()).count(None) > 0
    assert 40 in implicit.placed.values()


def test_who_is_told_that_something_is_lost_fails(world, gateway):
    producer(world, gateway)
    world.run_until(2_000)
    with pytest.raises(AssertionError, match="behind what is lost"):
        answer(world, gateway, 0, Placed(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
