from __future__ import annotations

import pytest

from dafka.schemas.entries import Schema
from dafka.schemas.state import id_range, next_epoch
from distributor.testing.registries import run

INT, TEXT, LONG = (Schema("AVRO", f'"{name}"') for name in ("int", "string", "long"))


@pytest.mark.sim
def test_whatever_happens_all_registries_come_to_say_the_same_and_an_id_means_one_schema(seeds):
    for seed in seeds:
        run(seed)


def test_the_simulation_registers_under_more_than_one_primary():
    epochs = {
        entry.stamp.epoch for records in run(3).records.values() for entry in records if entry.value
    }
    assert len(epochs) > 1


def test_two_primaries_that_cannot_hear_of_one_another_give_no_id_twice(world):
    assert world.register("c1", "orders", INT) == 1
    world.rest()
    world.cut("c1", "c2")
    world.cut("c1", "c3")
    assert not world.promote("c2")
    assert world.promote("c2", force=True)
    here, there = world.register("c1", "orders-value", TEXT), world.register("c2", "x", LONG)
    assert here == 2
    assert there is not None
    assert there > id_range(next_epoch(0, 3))[-1]
    world.heal()
    world.rest()
    world.check_at_rest()
    assert world.register("c1", "orders", LONG) is None, "fenced: it is no longer the primary"
    assert world.distributors["c2"].state.part.value == "acting"


def test_many_take_overs_that_nobody_heard_of_do_not_undo_a_forced_promotion(world):
    world.cut("c1", "c2")
    world.cut("c1", "c3")
    for number in range(20):
        world.restart("c1")
        world.register(
            "c1", f"t{number}", Schema("AVRO", f'{{"type":"fixed","name":"n{number}","size":1}}')
        )
    assert world.promote("c2", force=True)
    world.heal()
    world.rest()
    world.check_at_rest()
    assert world.distributors["c2"].state.part.value == "acting"


def test_a_primary_whose_stores_were_lost_gets_everything_back(world):
    assert world.register("c1", "orders", INT) == 1
    world.rest()
    world.records["c1"].clear()
    for name in world.formats:
        world.restart(name)
    world.rest()
    world.check_at_rest()
    assert world.register("c1", "notes", TEXT) not in (None, 1)
