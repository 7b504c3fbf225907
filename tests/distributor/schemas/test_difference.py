from __future__ import annotations

from dafka.schemas.entries import (
    ConfigKey,
    Schema,
    SchemaEntry,
    SchemaKey,
    Stamp,
    Version,
    VersionKey,
)
from distributor.schemas.difference import diff
from distributor.testing.registries import RegistryWorld


def test_registries_that_say_the_same_in_other_words_are_equal(world, avro):
    world.register("c1", "orders", avro("int"))
    world.delete("c1", "orders")
    world.rest()
    found = diff(world.sites("c2"))
    assert (found.equal, found.differences, found.skipped) == (True, [], {})
    assert (found.reference, found.primary, found.epoch) == ("c1", "c1", 1)
    assert found.clusters == {"c1": 1, "c2": 1, "c3": 1}


def test_every_difference_is_told_in_the_words_of_the_primary(world, avro):
    world.register("c1", "orders", avro("int"))
    world.rest()
    world.records["c2"] += [
        SchemaEntry(VersionKey("acme/orders", 1), Stamp(1, 9), Version(1, deleted=True)),
        SchemaEntry(ConfigKey(None), Stamp(1, 9), "NONE"),
    ]
    world.records["c3"] += [
        SchemaEntry(SchemaKey(7), Stamp(1, 9), Schema("AVRO", '"long"')),
        SchemaEntry(VersionKey("orders", 1), Stamp(1, 9), None),
    ]
    found = diff(world.sites("c1"))
    assert not found.equal
    assert [str(one) for one in found.differences] == [
        "acme-prod-orders version 1: c2 has id 1, deleted, not id 1",
        "compatibility of all: c2 has NONE, not nothing",
        "acme-prod-orders version 1: c3 has nothing, not id 1",
        'schema 7: c3 has AVRO "long", not nothing',
    ]


def test_a_cluster_that_does_not_answer_is_no_equal_one(world):
    world.cut("c1", "c3")
    found = diff(world.sites("c1"))
    assert not found.equal
    assert list(found.unreachable) == ["c3"]
    assert list(found.clusters) == ["c1", "c2"]


def test_names_that_only_one_side_can_spell_are_counted_and_no_difference(world, avro):
    decide = world.services["c1"].decide
    decide(lambda registry, id_: registry.register("strange", avro("int"), id_))
    world.rest()
    found = diff(world.sites("c1"))
    assert found.equal
    assert found.skipped == {"c1 to c2: spelling": 1, "c1 to c3: spelling": 1}


def test_without_a_primary_the_first_that_answers_is_compared_with():
    world = RegistryWorld(["{topic}", "{topic}"], {})
    assert diff(world.sites("c2")).reference == "c2"
    for one in ("c1", "c2"):
        world.cut("c2", one)
    world.cuts.add(frozenset({"c2"}))
    world._connect()
    assert diff(world.sites("c2")).reference == ""
