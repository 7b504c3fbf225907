from __future__ import annotations

import pytest

from dafka.schemas.entries import Primary, PrimaryKey, SchemaEntry, Stamp
from dafka.schemas.state import CLUSTERS_MAX, LEAP, next_epoch, promotion_epoch
from distributor.errors import CommandError, PlanError
from distributor.schemas.promotion import FENCES_MAX, promote


def test_the_new_primary_has_everything_and_the_old_one_is_read_only(world, avro):
    assert world.register("c1", "orders", avro("int")) == 1
    done = promote(world.sites("c2"), "c2")
    assert (done.cluster, done.before, done.copied, done.silent) == ("c2", "c1", 2, ())
    assert done.epoch == promotion_epoch(1, 2)
    assert world.register("c1", "late", avro("long")) is None
    assert world.register("c2", "orders", avro("int")) == 1, "known there, before any copying"
    assert world.register("c2", "new", avro("long")) is not None
    world.rest()
    world.check_at_rest()
    assert promote(world.sites("c3"), "c2").before == "c2"


def test_it_may_go_there_and_back(world, avro):
    ids = []
    for number, name in enumerate(("c2", "c3", "c1", "c2")):
        assert world.promote(name)
        ids.append(world.register(name, f"t{number}", avro("int" if number % 2 else "long")))
        world.rest()
    assert len(set(ids)) == 2
    world.check_at_rest()


def test_while_a_cluster_does_not_answer_it_takes_force(world, avro):
    world.register("c1", "orders", avro("int"))
    world.cut("c1", "c2")
    with pytest.raises(CommandError, match=r"c1 cannot be asked: .* --force promotes c2"):
        promote(world.sites("c2"), "c2")
    done = promote(world.sites("c2"), "c2", force=True)
    assert done.silent == ("c1",)
    assert done.epoch > LEAP


def test_what_only_a_third_cluster_still_knows_is_taken_over(world, avro):
    world.register("c1", "orders", avro("int"))
    world.cut("c1", "c2")
    world.step("c1")
    world.cut("c1", "c3")
    assert promote(world.sites("c2"), "c2", force=True).copied == 2
    assert world.register("c2", "orders", avro("int")) == 1


def test_a_registry_that_takes_over_at_the_same_moment_is_fenced_all_the_same(world):
    sites = world.sites("c2")
    old = next(site for site in sites if site.name == "c1")
    old.read()
    outdone = []

    def write(entries, honest=old.write):
        written = honest(entries)
        if len(outdone) < times:
            outdone.append(entries)
            epoch = next_epoch(old.state.epoch, 1)
            honest([SchemaEntry(PrimaryKey(), Stamp(epoch, 0), Primary("c1", "other"))])
        return written

    old.write = write
    times = 2
    done = promote(sites, "c2")
    assert done.epoch > 2 * CLUSTERS_MAX
    assert old.primary == "c2"
    times = FENCES_MAX + len(outdone)
    sites[0].write(
        [SchemaEntry(PrimaryKey(), Stamp(done.epoch + CLUSTERS_MAX, 0), Primary("c1", "x"))]
    )
    with pytest.raises(CommandError, match="has taken over 5 times"):
        promote(sites, "c2")


def test_one_that_failed_on_the_way_may_be_repeated(world, avro):
    world.register("c1", "orders", avro("int"))
    sites = world.sites("c2")
    honest, sites[0].write = sites[0].write, lambda _: False
    with pytest.raises(CommandError, match=r"c2 cannot be written: .*Repeat the command"):
        promote(sites, "c2")
    assert world.register("c1", "late", avro("long")) is None
    sites[0].write = honest
    assert promote(sites, "c2").cluster == "c2"
    assert world.register("c2", "orders", avro("int")) == 1


def test_what_cannot_become_the_primary(world):
    with pytest.raises(PlanError, match="'c9' has no registry: there are c1, c2, c3"):
        promote(world.sites("c1"), "c9")
    world.cut("c1", "c2")
    with pytest.raises(CommandError, match="c2 cannot become the primary"):
        promote(world.sites("c1"), "c2", force=True)
    world.heal()
    world.records["c3"].clear()
    world.records["c3"].append(SchemaEntry(PrimaryKey(), Stamp(0, 0), Primary("c3", "X")))
    with pytest.raises(CommandError, match="both claimed epoch 0"):
        promote(world.sites("c2"), "c2")
