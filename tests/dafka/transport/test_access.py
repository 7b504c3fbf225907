from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.model import replace
from dafka.transport.access import (
    ANYBODY,
    EVERYTHING,
    Access,
    Rights,
    Sender,
    fingerprint,
    may_send,
    may_subscribe,
    rule,
    taken,
)
from dafka.wire import messages
from dafka.wire.messages import MessageId

READER = Rights(read=("orders",))
WRITER = Rights(write=("orders",))
NOBODY = Rights()
LIVE = (MessageId.RECORD, MessageId.RECORDS, MessageId.HEAD)
DIRECT = (
    MessageId.DIRECT_RECORD,
    MessageId.DIRECT_RECORDS,
    MessageId.DIRECT_HEAD,
    MessageId.LOG_START,
)


def test_rules_are_prefixes():
    rights = Rights(tuple(map(rule, ("orders*", "a.b*"))), (rule("*"),))
    assert rights.may_read("orders-eu")
    assert not rights.may_read("order")
    assert not rights.may_read("")
    assert rights.may_write("anything")
    assert not NOBODY.may_read("orders")
    assert not NOBODY.may_write("")


@pytest.mark.parametrize("pattern", ["", "orders", "*x", "o*s*", "or?ers"])
def test_another_pattern_is_refused(pattern):
    with pytest.raises(MisuseError, match="rule"):
        rule(pattern)


def test_a_cluster_knows_its_own_key_those_listed_and_no_other():
    access = Access("C", {"A": READER, "B": READER, "D": WRITER})
    assert access.of("C") == ANYBODY
    assert access.of("A") == READER
    assert access.of("X") is None
    assert access.sender("X") is None


def test_an_address_is_of_its_key_and_any_of_the_clusters():
    access = Access("C", {"A": Rights(mirror=EVERYTHING)})
    assert access.is_of("A", fingerprint("A") + "1")
    assert not access.is_of("A", "S1")
    assert access.is_of("C", "S1")


def test_senders_are_told_apart_where_rights_alone_do_not_tell():
    all_of_it = Rights(write=("orders-eu", "orders"), mirror=("orders",))
    some_of_it = Rights(write=("orders", "secret"), mirror=("orders",))
    rights = {"A": READER, "B": READER, "D": WRITER, "E": WRITER, "M": all_of_it, "N": some_of_it}
    access = Access("C", rights)
    assert access.sender("C") == Sender(ANYBODY)
    assert access.sender("A") == access.sender("B") == Sender(READER)
    assert access.sender("D") == Sender(WRITER, fingerprint("D"))
    assert access.sender("D") != access.sender("E")
    assert access.sender("M") == Sender(all_of_it)
    assert access.sender("N") == Sender(some_of_it, fingerprint("N"))


def test_the_domain_names_the_keys_and_their_rights():
    one = Access("C", {"A": READER, "B": WRITER})
    assert one.domain == Access("C", {"B": WRITER, "A": READER}).domain
    others = [Access("D", one.rights), Access("C", {"A": READER}), Access("C", {"A": NOBODY})]
    assert len({one.domain, *(other.domain for other in others)}) == 4


@pytest.mark.parametrize("message_id", LIVE)
def test_live_records_take_the_right_to_all_that_the_prefix_lets_through(message_id):
    assert may_subscribe(READER, "A", message_id, "orders")
    assert may_subscribe(READER, "A", message_id, "orders-eu")
    for prefix in ("", "o", "order", "secret"):
        assert not may_subscribe(READER, "A", message_id, prefix)
    assert not may_subscribe(WRITER, "A", message_id, "orders")
    assert may_subscribe(Rights(EVERYTHING), "A", message_id, "")


@pytest.mark.parametrize("message_id", DIRECT)
def test_answers_are_for_the_requester(message_id):
    own = fingerprint("A") + "0" * 16
    assert may_subscribe(READER, "A", message_id, own)
    for subject in ("", own[:5], fingerprint("B") + "0" * 16):
        assert not may_subscribe(READER, "A", message_id, subject)
    assert may_subscribe(ANYBODY, "A", message_id, "")


def test_records_of_a_slot_are_for_the_clusters_key_alone():
    assert may_subscribe(ANYBODY, "A", MessageId.SLOT_RECORDS, "01")
    for rights in (READER, WRITER, Rights(EVERYTHING, EVERYTHING, EVERYTHING)):
        assert not may_subscribe(rights, "A", MessageId.SLOT_RECORDS, "01")


def test_what_a_store_passes_on_takes_the_right_to_read_it():
    for topic in ("orders", "orders-eu"):
        assert may_subscribe(READER, "A", MessageId.STORED_RECORDS, messages.channel("S", topic))
    for key in ("", "S", "S/", "S/order", "S/secret", "orders"):
        assert not may_subscribe(READER, "A", MessageId.STORED_RECORDS, key)
    assert may_subscribe(Rights(EVERYTHING), "A", MessageId.STORED_RECORDS, "S/")


OURS = (MessageId.SLOT_RECORDS, MessageId.STORED_RECORDS)
OTHERS = [one for one in MessageId if one not in LIVE + DIRECT + OURS]


@pytest.mark.parametrize("message_id", OTHERS)
def test_what_carries_no_records_is_for_everybody_who_is_in(message_id):
    assert may_subscribe(NOBODY, "A", message_id, "")


READING = [
    messages.Fetch("orders", "P", "C", 0, 1),
    messages.GetHeads("orders", "C"),
    messages.ConsumerHello("S", "C", ("orders", "orders-eu")),
]
WRITING = [
    messages.RecordMessage("orders", "P", 0, b""),
    messages.Records("orders", "P", 0, 1, b""),
    messages.SlotRecords("orders", "P", 0, 1, b""),
    messages.Head("orders", "P", 0),
    messages.DirectRecord("C", "orders", "P", 0, b""),
    messages.DirectRecords("C", "orders", "P", 0, 1, b""),
    messages.DirectHead("C", "orders", "P", 0),
]
MIRRORING = [messages.LogStart("C", "orders", "P", 0, "S")]
STORING = [
    messages.Ack("orders", "P", "S", 0),
    messages.StoreHello("C", "S"),
    messages.StoredRecords("S", "orders", "P", 0, 1, b""),
    messages.DirectHead("C", "orders", "P", 0, "S"),
]


MIRROR = Rights(mirror=("orders",))


@pytest.mark.parametrize(
    "message", READING + WRITING + MIRRORING + STORING, ids=lambda one: one.id.name
)
def test_each_message_takes_its_right(message):
    assert may_send(Sender(READER), message) is (message in READING)
    assert may_send(Sender(WRITER, "P"), message) is (message in WRITING)
    assert may_send(Sender(MIRROR), message) is (message in WRITING + MIRRORING)
    assert not may_send(Sender(NOBODY), message)
    assert may_send(Sender(ANYBODY), message)


@pytest.mark.parametrize("message", WRITING, ids=lambda one: one.id.name)
def test_what_is_written_under_anothers_address_is_not_taken(message):
    assert not may_send(Sender(WRITER, "Q"), message)
    both = Rights(write=("orders", "secret"), mirror=("secret",))
    assert not may_send(Sender(both, "Q"), message)


def test_asking_for_all_topics_takes_the_right_to_all():
    assert not may_send(Sender(READER), messages.GetHeads("", "C"))
    assert not may_send(Sender(READER), messages.ConsumerHello("S", "C", ("orders", "secret")))
    assert may_send(Sender(Rights(EVERYTHING)), messages.GetHeads("", "C"))


FETCH = messages.Fetch("orders", "P", "C", 0, 1)


@pytest.mark.parametrize(
    "message",
    [FETCH, messages.GetHeads("orders", "C"), messages.ConsumerHello("S", "C", ("orders",))],
    ids=lambda one: one.id.name,
)
def test_who_is_known_by_its_address_asks_for_itself_only(message):
    both = Rights(EVERYTHING, EVERYTHING)
    assert may_send(Sender(both, "C"), message)
    assert not may_send(Sender(both, "D"), message)


def test_of_what_arrives_what_may_be_sent_is_taken():
    head = messages.Head("orders", "P", 0)
    assert taken(Sender(READER), [head, FETCH, *STORING]) == [FETCH]
    assert taken(Sender(WRITER, "P"), [head, FETCH]) == [head]


@pytest.mark.parametrize("rights", [READER, Rights(EVERYTHING, EVERYTHING, EVERYTHING)])
def test_only_the_clusters_key_asks_as_a_store(rights):
    (asked,) = taken(Sender(rights), [FETCH])
    assert not asked.by_store
    head = messages.Head("orders", "P", 0)
    assert taken(Sender(ANYBODY), [FETCH, head]) == [replace(FETCH, by_store=True), head]
