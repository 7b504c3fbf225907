from __future__ import annotations

import pytest

from dafka.errors import NotStoredError, QueryError, RegistryError
from dafka.process.web import WebServer, bind
from dafka.schemas.entries import (
    Primary,
    PrimaryKey,
    Schema,
    SchemaEntry,
    SchemaKey,
    Stamp,
    Version,
    VersionKey,
)
from dafka.schemas.rest import application
from dafka.schemas.schema_log import MemorySchemaLog
from dafka.schemas.service import RunningRegistry, Service
from dafka.schemas.state import CLUSTERS_MAX, IDS_PER_EPOCH, State, id_range

INT, TEXT = Schema("AVRO", '"int"'), Schema("AVRO", '"string"')


def register(service, subject="a", schema=INT):
    answer = service.decide(lambda registry, id_: registry.register(subject, schema, id_))
    return answer["id"]


def code_of(call, *arguments):
    with pytest.raises(RegistryError) as refused:
        call(*arguments)
    return refused.value.code


def test_without_a_primary_and_on_other_clusters_nothing_is_registered(registry_of):
    one, two = registry_of("one"), registry_of("two", "B")
    assert code_of(register, one) == 42205
    assert one.become_first_primary()
    assert not two.become_first_primary()
    assert register(one) == 1
    assert code_of(register, two, "b", TEXT) == 42205
    assert register(two) == 1, "what is registered already may be asked for everywhere"
    assert two.ask(lambda registry: registry.subjects()) == ["a"]


def test_another_process_of_the_primary_takes_over_with_ids_of_its_own(registry_of, records):
    one, two = registry_of(), registry_of(address="B")
    assert one.become_first_primary()
    assert register(one, "a") == 1
    assert register(two, "b") == 1, "an equal schema has its id already"
    assert register(two, "c", TEXT) == id_range(1 + CLUSTERS_MAX)[0]
    assert register(one, "d", Schema("AVRO", '"long"')) == id_range(1 + 2 * CLUSTERS_MAX)[0]
    assert State(reversed(records)).entries == State(records).entries


def test_who_was_overtaken_while_writing_says_so(records):
    class Slow(MemorySchemaLog):
        def write(self, entries):
            super().write(entries)
            if not isinstance(entries[0].key, PrimaryKey):
                self.records.append(SchemaEntry(PrimaryKey(), Stamp(9, 0), Primary("one", "B")))

    service = Service(Slow(records, "A"), "one")
    assert service.become_first_primary()
    assert code_of(register, service) == 50003


def test_two_that_claim_the_same_epoch_both_claim_again(records):
    class Contested(MemorySchemaLog):
        def write(self, entries):
            super().write(entries)
            if entries[0].stamp == (1, 0):
                self.records.append(SchemaEntry(PrimaryKey(), Stamp(1, 0), Primary("one", "0")))

    service = Service(Contested(records, "A"), "one")
    assert service.become_first_primary()
    assert [entry.stamp.epoch for entry in records] == [1, 1, 1 + CLUSTERS_MAX]


def test_a_log_that_does_not_answer_is_an_error_of_the_registry(registry_of):
    service = registry_of()

    def fail(*_):
        raise QueryError("no store")

    service._log.read_into = fail
    assert code_of(service.ask, lambda registry: registry.subjects()) == 50001


def test_a_used_up_range_opens_the_next_epoch(registry_of, records):
    service = registry_of()
    assert service.become_first_primary()
    records.append(SchemaEntry(SchemaKey(IDS_PER_EPOCH - 1), Stamp(1, 1), TEXT))
    assert register(service) == id_range(1 + CLUSTERS_MAX)[0]


def test_two_clusters_that_were_both_made_the_primary_give_no_id_twice():
    one, two = (
        Service(MemorySchemaLog([], "A"), "one", 1),
        Service(MemorySchemaLog([], "B"), "two", 2),
    )
    assert one.become_first_primary()
    assert two.become_first_primary()
    assert register(one) == 1
    assert register(two) == id_range(2)[0]


def test_a_registry_that_sees_a_newer_epoch_of_another_cluster_registers_nothing_more(
    registry_of, records
):
    service = registry_of("one")
    assert service.become_first_primary()
    assert register(service) == 1
    records.append(SchemaEntry(PrimaryKey(), Stamp(2, 0), Primary("two", "B")))
    assert code_of(register, service, "b", TEXT) == 42205
    assert not service.become_first_primary()


def test_it_is_ready_while_its_log_answers_and_well_while_it_serves(registry_of):
    service = registry_of()
    bound, _ = bind("127.0.0.1:0", "the registry")
    with WebServer(application(service), bound) as server:
        running = RunningRegistry(service, server)
        service.look()
        assert (running.unwell(), running.unready()) == ("", "")
        service._log.reachable = False
        service.look()
        assert "stores can be read" in running.unready()
        service._log.reachable = True
        service.look()
        assert (running.unready(), running.join(0)) == ("", False)
    assert running.join(0)
    assert running.unwell() == "the registry no longer serves"


class Late(MemorySchemaLog):
    """Its stores have what is written only later: whoever waits for them gives up."""

    def __init__(self, records, address):
        super().__init__(records, address)
        self.under_way = None
        """What is written meanwhile; None if it is stored at once."""

    def write(self, entries):
        if self.under_way is None:
            super().write(entries)
            return
        self.under_way += entries
        raise NotStoredError("0 of 1 stores have it", [])

    def arrive(self):
        self.records += self.under_way
        self.under_way = None


@pytest.mark.parametrize("first", ["late", "next"], ids=lambda first: f"{first} one first")
def test_what_is_stored_late_never_takes_the_id_of_what_was_answered(records, first):
    log = Late(records, "A")
    service = Service(log, "one")
    assert service.become_first_primary()
    assert register(service, "a", INT) == 1
    log.under_way = []
    assert code_of(register, service, "b", Schema("AVRO", '"float"')) == 50001
    late, log.under_way = log.under_way, None
    if first == "late":
        records += late
    answered = register(service, "b", Schema("AVRO", '"double"'))
    if first == "next":
        records += late
    for reader in (service, Service(MemorySchemaLog(records, "B"), "two")):
        assert reader.ask(lambda registry: registry.schema(answered)).text == '"double"'
        held = reader.ask(lambda registry: registry.version("b", "latest"))
        assert held.version.id == answered


def test_a_deletion_that_is_stored_late_does_not_take_an_id_that_is_in_use_again(records):
    log = Late(records, "A")
    service, other = Service(log, "one"), Service(MemorySchemaLog(records, "B"), "one")
    assert service.become_first_primary()
    assert register(service, "a", INT) == 1
    service.decide(lambda registry, _: registry.delete_subject("a", permanent=False))
    log.under_way = []
    gone = code_of(service.decide, lambda registry, _: registry.delete_subject("a", permanent=True))
    assert gone == 50001
    assert register(other, "b", INT) == 1
    log.arrive()
    held = other.ask(lambda registry: registry.version("b", "latest"))
    assert held.schema == INT


def test_a_claim_that_is_stored_late_gives_no_id_twice(records):
    log = Late(records, "A")
    service = Service(log, "one")
    log.under_way = []
    assert code_of(service.become_first_primary) == 50001
    log.arrive()
    assert service.become_first_primary()
    assert register(service, "a", INT) == 1


def test_what_does_not_hold_is_not_answered(records):
    class Outdone(MemorySchemaLog):
        def write(self, entries):
            super().write(entries)
            for entry in entries:
                if isinstance(entry.key, SchemaKey):
                    self.records.append(SchemaEntry(entry.key, Stamp(1, 400), TEXT))

    service = Service(Outdone(records, "A"), "one")
    assert service.become_first_primary()
    assert code_of(register, service) == 50003


def test_what_is_gone_when_it_is_read_again_is_not_answered(records):
    class Forgetful(MemorySchemaLog):
        def write(self, entries):
            if isinstance(entries[0].key, PrimaryKey):  # not what its stores lose at once
                super().write(entries)

    service = Service(Forgetful(records, "A"), "one")
    assert service.become_first_primary()
    assert code_of(register, service) == 50003


class Stores:
    """Three stores; whoever reads most of them need not read what one has."""

    majority = 2

    def __init__(self, stores, address, read):
        self.address, self.stores, self.read = address, stores, read
        self.write_to = (0, 1, 2)

    def read_into(self, state, stores_min=1):
        for place in self.read[:stores_min]:
            for entry in self.stores[place]:
                state.apply(entry, str(place))

    def write(self, entries):
        for place in self.write_to:
            self.stores[place].extend(entries)
        if len(self.write_to) < self.majority:
            raise NotStoredError("1 of 3 stores has it", [])


@pytest.mark.parametrize(
    "first",
    [
        lambda one: register(one, "a", INT),
        lambda one: one.decide(lambda registry, _: registry.set_level("a", "FULL")),
    ],
    ids=["version", "level"],
)
def test_what_one_store_has_is_not_answered_to_be_so_already(first):
    stores = ([], [], [])
    logs = [Stores(stores, name, read) for name, read in (("A", (1, 2, 0)), ("B", (0, 1, 2)))]
    failing, other = (Service(log, "one") for log in logs)
    assert failing.become_first_primary()
    logs[0].write_to = (0,)
    assert code_of(first, failing) == 50001
    first(other)  # and so it holds, whoever decides next
    held = State(entry for store in stores[1:] for entry in store)
    assert held.primary.writer == "B"
    assert held.versions.get("a", {}).get(1) == other._state.versions.get("a", {}).get(1)
    assert held.level("a") == other._state.level("a")


def test_what_most_stores_have_is_answered_without_writing_it_again(records):
    one, two = (Service(MemorySchemaLog(records, name), "one") for name in "AB")
    assert one.become_first_primary()
    register(one, "a", INT)
    register(one, "b", TEXT)
    written = len(records)
    assert register(two, "a", INT) == register(one, "a", INT)
    assert len(records) == written, "it is of the epoch that is open"
    register(two, "c", INT)
    written = len(records)
    assert register(two, "b", TEXT) == 2
    assert len(records) == written, "known when the epoch was opened"


def test_what_an_epoch_in_between_may_still_overwrite_is_written_again(records):
    """Its registry was taken over before it had read what is there, and its writes land late."""
    first, last = (Service(MemorySchemaLog(records, name), "one") for name in "AC")
    assert first.become_first_primary()
    between = SchemaEntry(PrimaryKey(), Stamp(1 + CLUSTERS_MAX, 0), Primary("one", "B"))
    register(first, "a", INT)
    records.append(between)
    register(last, "b", TEXT)
    assert register(last, "a", INT) == 1
    records.append(SchemaEntry(VersionKey("a", 1), Stamp(1 + CLUSTERS_MAX, 1), Version(513)))
    assert State(records).versions["a"] == {1: Version(1)}


def test_who_has_just_taken_over_may_decide_before_the_next_one_takes_over(records):
    class Patient(MemorySchemaLog):
        reads = 0

        def read_into(self, state, stores_min=1):
            self.reads += 1
            if self.reads == 4:
                register(slow, "a", INT)
            super().read_into(state, stores_min)

    slow = Service(MemorySchemaLog(records, "A"), "one")
    assert slow.become_first_primary()
    assert register(Service(Patient(records, "B"), "one"), "b", TEXT) > 1
    claims = [entry.stamp.epoch for entry in records if isinstance(entry.key, PrimaryKey)]
    assert claims == [1, 1 + CLUSTERS_MAX], "the first one was not interrupted"
    assert slow.ask(lambda registry: registry.schema(1)) == INT


def test_a_registration_that_is_outdone_leaves_the_deleted_version_it_was_to_replace(records):
    class Outdone(MemorySchemaLog):
        outdone = False

        def write(self, entries):
            super().write(entries)
            if self.outdone and entries[0].key == SchemaKey(1):
                claim = SchemaEntry(PrimaryKey(), Stamp(513, 0), Primary("one", "B"))
                other = SchemaEntry(VersionKey("a", 2), Stamp(513, 1), Version(513))
                self.records.extend((claim, other))

    log = Outdone(records, "A")
    service = Service(log, "one")
    assert service.become_first_primary()
    assert register(service, "a", INT) == 1
    service.decide(lambda registry, _: registry.delete_version("a", "1", permanent=False))
    log.outdone = True
    assert code_of(register, service) == 50003
    assert State(records).versions["a"] == {1: Version(1, deleted=True), 2: Version(513)}
