from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dafka.errors import RegistryError
from dafka.schemas.entries import Reference, Schema, SchemaEntry, Stamp
from dafka.schemas.registry import Registry
from dafka.schemas.rulings import Rulings, judge
from dafka.schemas.state import State

INT, LONG, TEXT = (Schema("AVRO", f'"{name}"') for name in ("int", "long", "string"))
ITEM = Schema("AVRO", '{"type": "record", "name": "Item", "fields": []}')
ORDER = Schema(
    "AVRO",
    json.dumps({"type": "record", "name": "Order", "fields": [{"name": "item", "type": "Item"}]}),
    (Reference("Item", "item", 1),),
)


class Judged(Rulings):
    """Rulings that are found at once."""

    def of(self, question):
        return judge(question)


class Decided(Registry):
    """A registry whose decisions hold at once."""

    def __init__(self):
        super().__init__(State(), Judged())

    def apply(self, decision):
        for key, value in (*decision.changes, *decision.afterwards):
            stamp = Stamp(1, self._state.last.number + 1)
            self._state.apply(SchemaEntry(key, stamp, value))
        return decision.answer

    def add(self, subject, schema):
        return self.apply(self.register(subject, schema, self._state.next_id(1)))["id"]


@pytest.fixture
def registry():
    return Decided()


def code_of(call, *arguments, **settings):
    with pytest.raises(RegistryError) as refused:
        call(*arguments, **settings)
    assert str(refused.value)
    return refused.value.code


def test_a_reference_to_the_latest_version_is_to_the_one_that_is_the_latest_now(registry):
    registry.add("item", ITEM)
    latest = replace(ORDER, references=(Reference("Item", "item", -1),))
    id_ = registry.add("order", latest)
    assert registry.schema(id_).references == (Reference("Item", "item", 1),)
    assert registry.referenced_by("item", 1) == [id_]
    assert registry.lookup("order", latest).version.id == id_
    registry.add("item", replace(ITEM, text=ITEM.text.replace("}", ', "doc": ""}')))
    assert code_of(registry.lookup, "order", latest) == 40403
    assert registry.lookup("order", ORDER).version.id == id_


def test_ids_grow_and_an_equal_schema_has_the_same_id_everywhere(registry):
    assert registry.add("a", INT) == 1
    assert registry.add("a", LONG) == 2
    assert registry.add("b", INT) == 1
    assert registry.add("a", Schema("AVRO", ' "int" ')) == 1
    assert registry.versions("a") == [1, 2]
    assert registry.uses_of(1) == [("a", 1), ("b", 1)]
    assert registry.lookup("a", INT).number == 1
    assert registry.subjects(prefix="b") == ["b"]


def test_what_is_not_there_has_its_code(registry):
    registry.add("a", INT)
    assert code_of(registry.versions, "b") == 40401
    assert code_of(registry.version, "a", "2") == 40402
    assert code_of(registry.version, "a", "x") == 42202
    assert code_of(registry.schema, 7) == 40403
    assert code_of(registry.lookup, "a", TEXT) == 40403
    assert code_of(registry.lookup, "b", TEXT) == 40401
    assert code_of(registry.level, "a", default=False) == 40408
    assert code_of(registry.mode, "a", default=False) == 40409
    assert code_of(registry.delete_subject, "b", permanent=False) == 40401


def test_an_incompatible_schema_is_refused_until_the_level_allows_it(registry):
    registry.add("a", LONG)
    assert code_of(registry.register, "a", TEXT, 2) == 409
    assert code_of(registry.set_level, "a", "SOME") == 42203
    assert registry.apply(registry.set_level("a", "none")) == {"compatibility": "NONE"}
    assert registry.add("a", TEXT) == 2
    registry.apply(registry.set_level("a", None))
    assert registry.level("a") == "BACKWARD"
    assert registry.obstacles("a", LONG, "1") == []


def test_deleting_softly_hides_and_permanently_removes(registry):
    registry.add("a", INT)
    assert code_of(registry.delete_version, "a", "1", permanent=True) == 40407
    assert code_of(registry.delete_subject, "a", permanent=True) == 40405
    assert registry.apply(registry.delete_version("a", "1", permanent=False)) == 1
    assert registry.subjects() == []
    assert registry.subjects(deleted=True) == ["a"]
    assert registry.schema(1) == INT
    assert code_of(registry.delete_version, "a", "1", permanent=False) == 40406
    assert code_of(registry.delete_subject, "a", permanent=False) == 40404
    assert registry.add("a", INT) == 1
    assert registry.versions("a") == [2]
    assert registry.apply(registry.delete_subject("a", permanent=False)) == [2]
    assert registry.apply(registry.delete_subject("a", permanent=True)) == [2], "1 is replaced"
    assert registry.subjects(deleted=True) == []
    assert code_of(registry.schema, 1) == 40403
    assert registry.add("a", INT) == 2, "no id is given twice"


def test_references_are_followed_and_protect_what_they_use(registry):
    assert code_of(registry.register, "order", ORDER, 1) == 42201
    registry.add("item", ITEM)
    assert registry.add("order", ORDER) == 2
    assert registry.referenced_by("item", 1) == [2]
    assert code_of(registry.delete_version, "item", "1", permanent=False) == 42206
    assert code_of(registry.delete_subject, "item", permanent=False) == 42206
    registry.apply(registry.delete_subject("order", permanent=False))
    registry.apply(registry.delete_subject("item", permanent=False))


def test_a_subject_in_read_only_mode_is_not_changed(registry):
    registry.add("a", INT)
    assert code_of(registry.set_mode, None, "FORWARD") == 42204
    registry.apply(registry.set_mode("a", "READONLY"))
    assert code_of(registry.register, "a", LONG, 2) == 42205
    assert code_of(registry.delete_subject, "a", permanent=False) == 42205
    assert registry.add("b", LONG) == 2
    registry.apply(registry.set_mode("a", None))
    assert registry.add("a", LONG) == 2


@pytest.mark.parametrize("subject", ["", "a" * 256, "a\0"])
def test_a_subject_has_a_name(registry, subject):
    assert code_of(registry.register, subject, INT, 1) == 42208
