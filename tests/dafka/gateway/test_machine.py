"""The machine of a gateway before a store in memory: no threads, no sockets, a clock of its own."""

from __future__ import annotations

from uuid import UUID

import pytest

from dafka.gateway.broker import ErrorCode, KafkaPartition, Offsets, Placed, Topic
from dafka.gateway.catalog import (
    CATALOG,
    CHANGED,
    CHANGES,
    CONTROLLED,
    TOPICS,
    EmptiedPartition,
    TopicStage,
    TopicState,
    decoded_emptied,
    decoded_state,
    decoded_topic,
    encoded_topic,
)
from dafka.gateway.commits import OFFSETS, row_of
from dafka.gateway.coordination import COORDINATED, coordinated_in
from dafka.gateway.effects import (
    Answer,
    AppendBatch,
    CatalogRead,
    ChangesOrdered,
    Close,
    CommitOffsets,
    CommitsTold,
    Coordinating,
    GenerationOutranked,
    GroupsListed,
    HearAgain,
    LedgersRead,
    ListGroups,
    Locate,
    OffsetsCommitted,
    OffsetsShown,
    PartitionLate,
    ReadLedger,
    Shared,
    StoreTold,
    Survey,
    TopicMade,
    TopicsOrdered,
)
from dafka.gateway.lines import (
    LEDGER,
    chain_address,
    encoded,
)
from dafka.gateway.machine import SESSION_MS
from dafka.gateway.owner import TAKEOVER_MS_MAX
from dafka.gateway.refusals import REMEMBERED_MS
from dafka.gateway.share import batches_of
from dafka.gateway.topic_changes import AlterTopic, DeleteTopic, MakeTopic
from dafka.gateway.unstored import Unstored
from dafka.groups.commit import TOPIC as COMMITS
from dafka.groups.commit import Commit, CommitKey, decode
from dafka.groups.events import Left
from dafka.model import Partition, range_of, slot_of
from dafka.protocol.effects import Dropped
from dafka.protocol.events import PeerLeft, Received, Woke
from dafka.records.batch import BatchBuilder, enclosed, raw_records
from dafka.wire import messages
from tests.support.gateway_bench import FIRST, ORDERS, Bench, sent
from tests.support.ledger_chains import chain
from tests.support.store_in_memory import STORE, StoreInMemory

EARLY = ErrorCode.NOT_LEADER_OR_FOLLOWER
"""What is said of a batch before which one is missing that may come."""


@pytest.fixture
def store():
    return StoreInMemory()


@pytest.fixture
def bench(store):
    """A gateway that owns all of a topic with two partitions."""
    bench = Bench(store)
    bench.give(CatalogRead((TopicState(ORDERS),)))
    bench.own(CONTROLLED, FIRST, KafkaPartition("orders", 1))
    return bench


def last_shared(bench):
    return [one for one in bench.told if isinstance(one, Shared)][-1]


def test_clients_are_sent_to_nobody_whom_stores_have_missed_for_half_a_session(bench, store):
    other = Bench(store, bench.now_ms)
    ids = {bench.machine._member.id, other.machine._member.id}
    while last_shared(bench).members.keys() != ids:
        for one in (bench, other):
            one.now_ms += 20
            one.give(Woke())
    assert last_shared(bench).unheard == frozenset()
    dead_ms = bench.now_ms
    bench.settle(lambda one: isinstance(one, Shared) and one.unheard)
    assert last_shared(bench).members.keys() == ids
    assert last_shared(bench).unheard == {other.machine._member.id}
    assert bench.now_ms < dead_ms + SESSION_MS
    while last_shared(bench).unheard:
        bench.now_ms += 20
        bench.give(Woke())
    assert last_shared(bench).members.keys() == {bench.machine._member.id}
    assert bench.now_ms > dead_ms + SESSION_MS


def test_what_it_owns_it_stores_and_shows(bench):
    assert bench.append(sent(b"a", b"b")) == Placed(ErrorCode.NONE, 0, 0)
    assert bench.append(sent(b"c")) == Placed(ErrorCode.NONE, 2, 0)
    located = bench.ask(Locate(1, FIRST, 1, 1_000))
    assert located.offsets == Offsets(0, 3)
    assert [(entry.offset, batch.count) for entry, batch in located.found] == [(0, 2), (0, 1)]
    (survey,) = bench.ask(Survey(1, FIRST, 0, 9)).entries
    assert (survey.offset, survey.records) == (0, 3)


def test_lines_are_published_before_their_records(bench):
    bench.append(sent(b"a"))
    (last_log,) = [log for log in bench.store.logs if log.topic == "orders"]
    order = list(bench.store.logs)
    chains = [log for log in order if log.topic == LEDGER]
    assert chains, "each ownership has a chain"
    assert order.index(last_log) > max(order.index(one) for one in chains)


def test_what_is_not_stored_is_neither_answered_nor_shown(bench):
    bench.deaf = True
    assert bench.append(sent(b"a")) is None
    assert bench.append(sent(b"b"), acks=1) == Placed(ErrorCode.NONE, 1, 0)
    assert bench.ask(Locate(1, FIRST, 0, 1_000)).offsets == Offsets(0, 0)


def test_what_it_owns_and_cannot_serve_it_tells_of_until_it_does(store):
    bench = Bench(store)
    bench.own(CONTROLLED)
    bench.deaf = True
    bench.give(CatalogRead((TopicState(ORDERS),)))
    bench.settle(lambda one: isinstance(one, PartitionLate))
    late = [one for one in bench.told if isinstance(one, PartitionLate)]
    assert late[0] == PartitionLate(FIRST, "stores to have its ledger: 0 of 2 lines")
    assert [one.partition.number for one in late] == [0, 1]
    bench.give(StoreTold(STORE, store.kept(LEDGER)))
    bench.told.clear()
    with pytest.raises(AssertionError):
        bench.settle(lambda one: isinstance(one, PartitionLate), 2 * TAKEOVER_MS_MAX)
    assert not any(isinstance(one, PartitionLate) for one in bench.told)


def test_a_batch_that_is_sent_again_has_its_offset_already(bench):
    batch = sent(b"a", producer=9, sequence=0)
    assert bench.append(batch).offset == bench.append(batch).offset == 0
    assert bench.append(sent(b"x", producer=9, sequence=7)).error is EARLY
    bench.deaf = True
    waits = sent(b"b", producer=9, sequence=1)
    assert bench.append(waits) is bench.append(waits) is None, "it is not stored yet"


def test_no_more_is_taken_in_while_very_many_batches_are_not_stored(bench):
    bench.deaf = True
    bench.machine._unstored = Unstored(batches_max=5)
    while (placed := bench.append(sent(b"a"))) is None:
        assert bench.store.kept("orders"), "it is published"
    assert placed.error is ErrorCode.NOT_ENOUGH_REPLICAS
    bench.deaf = False
    bench.give(StoreTold(STORE, {}))
    for topic in ("orders", LEDGER):
        for place, kept in bench.store.kept(topic).items():
            bench.give(Received(messages.Ack(*place, STORE, kept.stop - 1)))
    assert bench.append(sent(b"a")).error is ErrorCode.NONE


def test_records_of_others_get_offsets_once_they_are_stored(bench):
    address = next(
        drawn for drawn in iter(bench.draw, "") if range_of(slot_of(drawn), 2) == FIRST.number
    )
    told = bench.give(StoreTold(STORE, {Partition("orders", address): range(4)}))
    assert OffsetsShown(FIRST, Offsets(0, 4)) in told
    assert bench.give(StoreTold(STORE, {Partition("other", address): range(4)})) == []


def test_a_store_that_has_left_is_to_say_again_what_it_has(bench):
    bench.deaf = True
    assert bench.append(sent(b"a")) is None
    assert not any(isinstance(one, HearAgain) for one in bench.give(PeerLeft("NO STORE")))
    assert HearAgain(STORE) in bench.give(PeerLeft(STORE))
    bench.give(StoreTold(STORE, bench.store.kept(LEDGER)))
    told = bench.give(StoreTold(STORE, bench.store.kept("orders")))
    assert OffsetsShown(FIRST, Offsets(0, 1)) in told


def test_without_a_lease_it_serves_nobody(bench):
    bench.now_ms += SESSION_MS + 1
    assert bench.append(sent(b"a")).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.ask(Locate(1, FIRST, 0, 9)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_all_that_it_owns_serves_on_while_the_one_lease_is_renewed(bench):
    end_ms = bench.now_ms + 2 * SESSION_MS
    while bench.now_ms < end_ms:
        bench.now_ms += 20
        bench.give(Woke())
    for number in range(ORDERS.partitions):
        placed = bench.append(sent(b"a"), KafkaPartition("orders", number))
        assert placed.error is ErrorCode.NONE


def test_the_next_one_goes_on_where_another_has_stopped(bench, store):
    bench.append(sent(b"a", b"b", producer=9, sequence=0))
    bench.deaf = True
    waits = AppendBatch(77, FIRST, sent(b"c", producer=9, sequence=2), -1)
    bench.give(waits)
    told = bench.give(Close())
    assert Answer(77, Placed(ErrorCode.NOT_LEADER_OR_FOLLOWER)) in told
    assert OffsetsShown(FIRST, None) in told
    assert Left() in told
    second = Bench(store, bench.now_ms)
    second.give(CatalogRead((TopicState(ORDERS),)))
    second.own(FIRST)
    assert second.append(waits.batch).offset == 2, "it was stored, only nobody had said so"
    assert second.append(sent(b"d", producer=9, sequence=3)).offset == 3


def add_later_ledger(store):
    later = Partition(LEDGER, chain_address("F" * 32, FIRST, 50))
    lines = [encoded(line, FIRST) for line in chain(50, ("A", 0, 5))]
    store.logs[later] = batches_of(later, 0, lines)


def test_whose_lease_is_over_finds_a_ledger_of_a_later_epoch_as_it_should(store):
    add_later_ledger(store)
    bench = Bench(store)
    bench.own(CONTROLLED)
    effects = bench.machine.handle(CatalogRead((TopicState(ORDERS),)), bench.now_ms)
    wanted = [one for one in effects if isinstance(one, ReadLedger)]
    found = LedgersRead({(one.partition, one.epoch): store.read(one, 2) for one in wanted})
    told = bench.machine.handle(found, bench.now_ms + SESSION_MS)
    assert not any(isinstance(one, GenerationOutranked) for one in told)


def test_where_there_is_a_ledger_of_a_later_epoch_the_gateways_have_a_generation_above_that(store):
    add_later_ledger(store)
    bench = Bench(store)
    bench.give(CatalogRead((TopicState(ORDERS),)))
    bench.own(CONTROLLED, KafkaPartition("orders", 1))
    shown = OffsetsShown(FIRST, Offsets(0, 5))
    assert shown not in bench.told
    bench.settle(lambda one: one == shown)
    assert bench.append(sent(b"a")).offset == 5
    assert GenerationOutranked(FIRST, 1, 50) in bench.told
    assert bench.machine._member.generation == 51


def test_who_takes_over_knows_producers_of_whose_last_batches_none_came(bench, store):
    assert bench.append(sent(b"a", producer=9, sequence=0)).offset == 0
    store.refused = "orders"
    for sequence in range(1, 6):  # so many may be under way
        assert bench.append(sent(b"b", producer=9, sequence=sequence)) is None
    second = Bench(store, bench.now_ms)
    second.give(CatalogRead((TopicState(ORDERS),)))
    second.own(FIRST)
    store.refused = None
    assert second.append(sent(b"b", producer=9, sequence=2)).error is EARLY
    assert second.append(sent(b"b", producer=9, sequence=1)).error is ErrorCode.NONE


def test_behind_what_was_refused_nothing_is_taken_of_a_new_producer(bench):
    until_ms, bench.machine._lease.until_ms = bench.machine._lease.until_ms, 0
    elsewhere = bench.append(sent(b"a", producer=9, sequence=0))
    assert elsewhere.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.machine._lease.until_ms = until_ms
    assert bench.append(sent(b"b", producer=9, sequence=1)).error is EARLY
    assert bench.append(sent(b"x", producer=8, sequence=7)).error is ErrorCode.NONE
    assert bench.append(sent(b"a", producer=9, sequence=0)).error is ErrorCode.NONE
    assert bench.append(sent(b"b", producer=9, sequence=1)).error is ErrorCode.NONE


def test_what_is_missing_for_long_is_out_of_order(bench):
    bench.append(sent(b"a", producer=9, sequence=0))
    assert bench.append(sent(b"x", producer=9, sequence=7)).error is EARLY
    late_ms = bench.now_ms + REMEMBERED_MS
    while bench.now_ms < late_ms:  # its lease has to go on
        bench.now_ms += 200
        bench.give(Woke())
    late = bench.append(sent(b"x", producer=9, sequence=7))
    assert late.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.append(sent(b"b", producer=9, sequence=1)).error is ErrorCode.NONE


def test_nor_behind_what_was_refused_before_the_partition_was_the_gateways_own(store):
    bench = Bench(store)
    assert bench.append(sent(b"b", producer=9, sequence=1)).error is not ErrorCode.NONE
    assert bench.append(sent(b"a", producer=9, sequence=0)).error is not ErrorCode.NONE
    bench.give(CatalogRead((TopicState(ORDERS),)))
    bench.own(FIRST)
    assert bench.append(sent(b"b", producer=9, sequence=1)).error is EARLY
    assert bench.append(sent(b"a", producer=9, sequence=0)).error is ErrorCode.NONE


def test_what_an_owner_took_in_and_comes_too_late_gets_no_offset(bench, store):
    bench.append(sent(b"a"))
    first_log = next(log for log in store.logs if log.topic == "orders")
    bench.give(Close())
    second = Bench(store, bench.now_ms)
    second.give(CatalogRead((TopicState(ORDERS),)))
    second.own(FIRST)
    assert second.give(StoreTold(STORE, {first_log: range(5)})) == []
    assert second.append(sent(b"b")).offset == 1


def test_what_a_store_has_forgotten_is_forgotten_here_but_for_its_end(bench):
    address = bench.draw()
    while range_of(slot_of(address), ORDERS.partitions) != FIRST.number:
        address = bench.draw()
    place = Partition("orders", address)
    bench.give(StoreTold(STORE, {place: range(3)}))
    share = bench.machine._shares[FIRST]
    assert (address, 3) in share._record_ends.ends()
    assert bench.give(StoreTold(STORE, {}, (place, Partition("other", address)))) == []
    assert (address, 3) not in share._record_ends.ends()
    assert share.machine.ledger.listed(address) == 3


def test_a_topic_is_made_once_the_controller_has_said_so(bench):
    topic = Topic("sales", 1, UUID(int=9), {})
    bench.give(MakeTopic(5, topic))
    (log,) = bench.store.kept(TOPICS)
    assert [decoded_topic(value) for value in bench.store.values(log)] == [topic]
    assert bench.give(TopicsOrdered(0, (topic,))) == [], "of an ownership of before"
    epoch, entries = bench.machine.ordered(CONTROLLED, 0, 1)
    assert [(one.address, one.records) for one in entries] == [(log.address, 1)]
    other = topic._replace(partitions=3, id=UUID(int=10))
    told = bench.give(TopicsOrdered(epoch, (topic, other)))
    assert TopicMade(5, ErrorCode.NONE) in told
    (said,) = bench.store.kept(CATALOG)
    assert [decoded_topic(value) for value in bench.store.values(said)] == [topic]
    assert bench.ask(MakeTopic(6, other)) == TopicMade(6, ErrorCode.TOPIC_ALREADY_EXISTS)
    assert bench.ask(MakeTopic(7, topic._replace(name="_x"))).error is ErrorCode.INVALID_TOPIC


def test_a_topic_that_is_being_made_is_there_for_who_makes_it_too(bench):
    topic = Topic("sales", 1, UUID(int=9), {})
    assert not made_in(bench.give(MakeTopic(5, topic)))
    for token in range(6, 9):  # as clients ask again while there is no controller
        exists = TopicMade(token, ErrorCode.TOPIC_ALREADY_EXISTS)
        assert bench.ask(MakeTopic(token, topic._replace(id=UUID(int=token)))) == exists
    (log,) = bench.store.kept(TOPICS)
    assert len(bench.store.values(log)) == 1, "what is in there is kept for ever"


def test_who_makes_a_topic_for_which_there_is_no_room_any_more_is_told(bench):
    bench.machine.catalog._room = 4
    topics = [Topic(f"t{number}", 3, UUID(int=10 + number), {}) for number in range(2)]
    for number, topic in enumerate(topics):
        assert not made_in(bench.give(MakeTopic(number, topic))), "there is room for one of them"
    epoch, _ = bench.machine.ordered(CONTROLLED, 0, 1)
    told = bench.give(TopicsOrdered(epoch, tuple(topics)))
    told_of = {one.token: one.error for one in made_in(told)}
    assert told_of == {0: ErrorCode.NONE, 1: ErrorCode.INVALID_PARTITIONS}
    assert not bench.machine._wanted, "nobody waits for ever"


def test_what_a_controller_says_is_overheard(bench):
    topic = Topic("sales", 1, UUID(int=9), {})
    bench.give(MakeTopic(5, topic._replace(id=UUID(int=8))))
    builder = BatchBuilder(1_000)
    builder.append(1, None, encoded_topic(topic), ())
    content = enclosed(builder.build(), 0)
    told = bench.give(Received(messages.Records(CATALOG, "AB", 0, 1, content)))
    assert TopicMade(5, ErrorCode.TOPIC_ALREADY_EXISTS) in told, "somebody else was first"
    torn = Received(messages.Records(CATALOG, "AB", 1, 1, content[:40]))
    assert bench.give(torn) == [Dropped("batch size")]


def test_a_topic_of_many_partitions_draws_an_address_for_each(store):
    bench = Bench(store)
    bench.own(CONTROLLED)
    many = Topic("many", 500, UUID(int=9), {})
    bench.drawn = 0
    bench.give(CatalogRead((TopicState(many),)))
    served = {one.partition for one in bench.told if isinstance(one, OffsetsShown)}
    assert served >= {KafkaPartition("many", number) for number in range(500)}
    assert bench.drawn == 500


def coordinated(bench):
    """Since when it coordinates each share of groups."""
    told = [one.held for one in bench.told if isinstance(one, Coordinating)]
    return told[-1] if told else {}


def committing(bench, token, offset, known=0, group="billing"):
    epoch = coordinated(bench)[coordinated_in(group)]
    rows = {row_of(OFFSETS, FIRST): (offset, "")}
    told = bench.give(CommitOffsets(token, group, epoch, rows, 1_000, known))
    return [one for one in told if isinstance(one, OffsetsCommitted)]


def committed_in(store):
    """The commits that the store has, by place."""
    return {
        decode(record.key, record.value)[0].partition: decode(record.key, record.value)[1]
        for place, batches in store.logs.items()
        if place.topic == COMMITS
        for batch in batches
        for record in raw_records(batch.content)
    }


def test_a_gateway_alone_coordinates_all_groups_and_says_what_is_stored(bench, store):
    assert coordinated(bench).keys() == set(range(COORDINATED))
    assert committing(bench, 1, 5) == [OffsetsCommitted(1, ErrorCode.NONE)]
    assert committed_in(store)[row_of(OFFSETS, FIRST)].position == 5
    bench.deaf = True
    assert committing(bench, 2, 6) == []


def test_without_a_lease_it_commits_nothing(bench):
    bench.now_ms += 2 * SESSION_MS
    assert committing(bench, 1, 5) == [OffsetsCommitted(1, ErrorCode.NOT_COORDINATOR)]


def test_who_leaves_coordinates_nothing(bench):
    assert Coordinating({}) in bench.give(Close())


def test_an_offset_becomes_positions_at_the_owner(bench, store):
    bench.append(sent(b"a", b"b"))
    committing(bench, 1, 1)
    bench.give(StoreTold(STORE, {}))
    positions = {
        place: commit.position
        for place, commit in committed_in(store).items()
        if place.topic == "orders"
    }
    assert list(positions.values()) == [1]


def test_groups_are_listed_once_enough_stores_were_read(bench):
    assert bench.ask(ListGroups(1)) == GroupsListed(1, None)
    key = CommitKey("audit", row_of(OFFSETS, FIRST))
    bench.give(CommitsTold(STORE, [(key, Commit(1, 1, 1))], whole=True))
    assert bench.ask(ListGroups(2)) == GroupsListed(2, ["audit"])
    bench.give(PeerLeft(STORE))
    assert bench.ask(ListGroups(3)) == GroupsListed(3, None), "another may be in its place"


def changes_in(bench):
    """What has been asked for, with the number that each has, as the node reads it."""
    _, entries = bench.machine.ordered(CHANGED, 0, 1_000)
    found = []
    for entry in entries:
        values = bench.store.values(Partition(CHANGES, entry.address))
        for number in range(entry.records):
            value = values[entry.first + number]
            change = decoded_emptied(value) or decoded_state(value)
            found.append((entry.offset + number + 1, change))
    return found


def made_in(told):
    return [one for one in told if isinstance(one, TopicMade)]


def order(bench):
    """Let the controller read what there is."""
    epoch, _ = bench.machine.ordered(CHANGED, 0, 1)
    return bench.give(ChangesOrdered(epoch, tuple(changes_in(bench))))


@pytest.fixture
def controller(bench):
    bench.own(CHANGED)
    return bench


def test_a_topic_is_deleted_once_its_partitions_are_empty(controller):
    controller.append(sent(b"a", b"b"))
    assert not made_in(controller.give(DeleteTopic(5, "orders", ORDERS.id)))
    told = order(controller)
    assert controller.machine.catalog.topics == {}
    assert OffsetsShown(FIRST, Offsets(2, 2)) in told, "they are empty at once"
    assert not made_in(told)
    emptied = [one for _, one in changes_in(controller)[1:]]
    assert emptied == [EmptiedPartition(KafkaPartition("orders", one), 1) for one in (0, 1)]
    assert TopicMade(5, ErrorCode.NONE) in order(controller)
    assert controller.machine.catalog.state("orders").stage is TopicStage.EMPTIED
    assert order(controller) == [], "read again, it is the same"


def test_a_topic_that_is_made_again_goes_on_behind_what_was_deleted(controller):
    controller.append(sent(b"a", b"b"))
    controller.give(DeleteTopic(5, "orders", ORDERS.id))
    order(controller)
    again = ORDERS._replace(id=UUID(int=8))
    assert not made_in(controller.give(MakeTopic(6, again))), "not before they are empty"
    order(controller)
    assert TopicMade(6, ErrorCode.NONE) in order(controller)
    assert controller.machine.catalog.topics == {"orders": again}
    assert controller.append(sent(b"c")) == Placed(ErrorCode.NONE, 2, 2)
    other = MakeTopic(7, ORDERS._replace(id=UUID(int=9)))
    assert controller.ask(other) == TopicMade(7, ErrorCode.TOPIC_ALREADY_EXISTS)


def test_with_another_number_of_partitions_it_is_not_made_again(controller):
    controller.give(DeleteTopic(5, "orders", ORDERS.id))
    order(controller)
    order(controller)
    again = MakeTopic(6, ORDERS._replace(id=UUID(int=8), partitions=3))
    assert controller.ask(again) == TopicMade(6, ErrorCode.INVALID_PARTITIONS)


def test_who_takes_over_empties_what_was_not_and_only_that(controller, store):
    controller.append(sent(b"a", b"b"))
    deleted = TopicState(ORDERS, TopicStage.DELETED, 1)
    controller.give(Close())
    second = Bench(store, controller.now_ms)
    second.give(CatalogRead((deleted,)))
    second.own(FIRST)
    second.settle(lambda one: one == OffsetsShown(FIRST, Offsets(2, 2)))
    second.give(CatalogRead((TopicState(ORDERS, TopicStage.LIVE, 4),)))
    second.append(sent(b"c"))
    second.give(Close())
    third = Bench(store, second.now_ms)
    third.give(CatalogRead((deleted,)))
    third.own(FIRST)
    assert third.ask(Locate(1, FIRST, 2, 1_000)).offsets == Offsets(2, 3), "heard of late"


def test_who_takes_over_goes_on_from_what_was_said_when_the_changes_are_gone(controller, store):
    controller.give(AlterTopic(5, "orders", {"retention.ms": "7"}, whole=False))
    order(controller)
    state = controller.machine.catalog.state("orders")
    controller.give(Close())
    second = Bench(store, controller.now_ms)
    second.give(CatalogRead((state,)))
    second.own(CHANGED)
    second.give(AlterTopic(6, "orders", {"retention.ms": "8"}, whole=False))
    epoch, _ = second.machine.ordered(CHANGED, 0, 1)
    told = second.give(ChangesOrdered(epoch, tuple(changes_in(second)[1:])))
    assert TopicMade(6, ErrorCode.NONE) in told


def test_settings_are_altered_in_the_order_of_the_changes(controller):
    controller.give(AlterTopic(5, "orders", {"retention.ms": "7"}, whole=False))
    controller.give(AlterTopic(6, "orders", {"max.message.bytes": "9"}, whole=False))
    told = order(controller)
    assert TopicMade(5, ErrorCode.NONE) in told
    assert TopicMade(6, ErrorCode.NONE) not in told, "it did not know of the first: it asks again"
    assert TopicMade(6, ErrorCode.NONE) in order(controller)
    both = {"retention.ms": "7", "max.message.bytes": "9"}
    assert controller.machine.catalog.topics["orders"].configs == both
    controller.give(AlterTopic(7, "orders", {"retention.ms": None}, whole=True))
    assert TopicMade(7, ErrorCode.NONE) in order(controller)
    assert controller.machine.catalog.topics["orders"].configs == {}
    unknown = AlterTopic(8, "other", {}, whole=True)
    assert controller.ask(unknown) == TopicMade(8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
