from __future__ import annotations

import logging

from dafka.schemas.entries import Primary, PrimaryKey, Reference, Schema, SchemaEntry, Stamp
from distributor.schemas.distributor import Part, SchemaDistributor
from distributor.schemas.meter import SchemaMeter
from distributor.schemas.site import Site
from distributor.testing.registries import RegistryWorld


class Meter(SchemaMeter):
    """Remembers what it was told."""

    def __init__(self):
        super().__init__("c1")
        self.lags, self.skips, self.copied, self.silent = {}, {}, {}, []

    def lag(self, target, entries, now_ms):
        self.lags.setdefault(target, []).append(entries)

    def unreachable(self, target, now_ms):
        self.silent.append(target)

    def skipped(self, source, target, reasons):
        self.skips[source, target] = dict(reasons)

    def written(self, source, target, entries):
        self.copied[source, target] = self.copied.get((source, target), 0) + entries


def subjects(world, name):
    return world.services[name].ask(lambda registry: registry.subjects(deleted=True))


def test_a_registration_is_everywhere_with_the_same_id_under_the_name_used_there(world, avro):
    assert world.register("c1", "orders-value", avro("int")) == 1
    world.step("c1")
    assert subjects(world, "c2") == ["acme/orders-value"]
    assert subjects(world, "c3") == ["orders-value"]
    found = world.services["c3"].ask(lambda registry: registry.version("orders-value", "latest"))
    assert (found.version.id, found.schema) == (1, avro("int"))


def test_levels_modes_deletions_and_references_follow(world, avro):
    decide = world.services["c1"].decide
    world.register("c1", "used", avro("int"))
    user = Schema("AVRO", '"long"', (Reference("u", "acme-prod-used", 1),))
    world.register("c1", "user", user)
    world.register("c1", "gone", avro("string"))
    decide(lambda registry, _: registry.set_level("acme-prod-user", "FULL"))
    decide(lambda registry, _: registry.set_mode(None, "READONLY"))
    world.step("c1")
    there = world.services["c2"]
    assert there.ask(lambda registry: registry.level("acme/user")) == "FULL"
    assert there.ask(lambda registry: registry.mode(None)) == "READONLY"
    schema = there.ask(lambda registry: registry.version("acme/user", "1")).schema
    assert schema.references == (Reference("u", "acme/used", 1),)
    decide(lambda registry, _: registry.set_mode(None, "READWRITE"))
    for permanent in (False, True):
        decide(lambda registry, _: registry.delete_subject("acme-prod-gone", permanent=permanent))  # noqa: B023
        world.step("c1")
        assert ("acme/gone" in subjects(world, "c2")) is not permanent
    world.check()


def test_others_stand_by_and_a_second_step_has_nothing_to_do(world, avro):
    world.register("c1", "orders", avro("int"))
    world.rest()
    before = {name: len(records) for name, records in world.records.items()}
    world.rest()
    assert {name: len(records) for name, records in world.records.items()} == before
    assert world.distributors["c1"].state.part is Part.ACTING
    assert world.distributors["c2"].state.part is Part.STANDBY
    assert world.distributors["c2"].state.why == "c1 is the primary"


def test_only_the_declared_one_becomes_the_first_primary_and_only_if_all_answer():
    world = RegistryWorld(["{topic}", "{topic}"], {})
    world.step("c2")
    assert world.distributors["c2"].state.part is Part.WAITING
    world.cut("c1", "c2")
    world.step("c1")
    assert "c2 does not answer" in world.distributors["c1"].state.why
    assert not any(world.records.values())
    world.heal()
    world.step("c1")
    assert world.records["c1"][0].value.cluster == "c1"


def test_a_cluster_that_is_cut_off_catches_up_and_the_lag_says_how_much(world, avro):
    own, *others = world.sites("c1")
    meter = Meter()
    distributor = SchemaDistributor(own, others, first=True, meter=meter)
    distributor.step(0)
    world.cut("c1", "c3")
    world.register("c1", "orders", avro("int"))
    distributor.step(0)
    assert meter.silent == ["c3"]
    assert meter.lags["c2"][-2:] == [3, 0]
    world.heal()
    distributor.step(0)
    assert meter.copied["c1", "c3"] == meter.copied["c1", "c2"]
    world.check_at_rest()


def test_a_fenced_distributor_tells_its_own_registry_and_writes_nothing(world, avro):
    world.cut("c1", "c2")
    world.cut("c1", "c3")
    assert world.promote("c3", force=True)
    world.register("c1", "late", avro("int"))
    world.heal()
    before = len(world.records["c2"])
    world.step("c1")
    assert world.distributors["c1"].state.why == "c3 has become the primary"
    assert len(world.records["c2"]) == before
    assert world.register("c1", "later", avro("long")) is None
    world.rest()
    assert subjects(world, "c2") == ["acme/late"], "what was acknowledged before is not lost"
    world.check_at_rest()


def test_two_clusters_with_one_number_are_a_conflict_and_nothing_is_copied(world, caplog):
    world.records["c2"].clear()
    world.records["c2"].append(SchemaEntry(PrimaryKey(), Stamp(0, 0), Primary("c2", "X")))
    world.restart("c1")
    with caplog.at_level(logging.INFO):
        world.step("c1")
    assert world.distributors["c1"].state.part is Part.CONFLICT
    assert "both claimed epoch 0" in caplog.records[-1].why
    assert len(world.records["c2"]) == 1


def test_what_has_no_name_at_a_cluster_is_counted(world, avro):
    decide = world.services["c1"].decide
    decide(lambda registry, id_: registry.register("strange", avro("int"), id_))
    own, *others = world.sites("c1")
    meter = Meter()
    SchemaDistributor(own, others, first=True, meter=meter).step(0)
    assert meter.skips["c1", "c2"] == {"spelling": 1}
    assert subjects(world, "c2") == []


def test_own_stores_that_do_not_answer_are_waited_for(world):
    class Deaf(Site):
        def read(self):
            self.error = "no store"
            return False

    own, *others = world.sites("c1")
    own.__class__ = Deaf
    state = SchemaDistributor(own, others, first=True, meter=Meter()).step(0)
    assert (state.part, state.why) == (Part.WAITING, "c1: no store")


def test_of_two_registries_started_as_the_primary_one_is_fenced_and_nothing_is_lost(avro):
    world = RegistryWorld(["a-{topic}", "b-{topic}", "{topic}"], {})
    for name in ("c1", "c2"):
        assert world.services[name].become_first_primary()
    here, there = world.register("c1", "x", avro("int")), world.register("c2", "y", avro("long"))
    assert here != there
    world.rest()
    world.check_at_rest()
    assert world.services["c1"].become_first_primary() is False
    assert world.register("c1", "z", avro("string")) is None
    assert world.register("c2", "z", avro("string")) is not None
    assert subjects(world, "c3") == ["x", "y"]
