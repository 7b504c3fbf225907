from __future__ import annotations

import pytest

from dafka.model import slot_key, slot_of
from dafka.wire.messages import Head, MessageId, Records, SlotRecords
from dafka.wire.slots import SlotListeners

RECORDS = Records("flights", "AB", 5, 2, b"content")
KEY = slot_key(slot_of("AB"))


def beside(listeners, *published):
    return list(listeners.beside(published))


@pytest.mark.parametrize("key", ["", KEY[:1], KEY[:7], KEY])
def test_a_batch_is_published_again_for_who_keeps_its_slot(key):
    listeners = SlotListeners()
    listeners.listened(MessageId.SLOT_RECORDS, key)
    head = Head("flights", "AB", 6)
    again = SlotRecords("flights", "AB", 5, 2, RECORDS.content)
    assert beside(listeners, head, RECORDS) == [head, RECORDS, again]
    assert beside(listeners, RECORDS)[1].content is RECORDS.content, "shared, not copied"


def test_nobody_keeps_it_by_itself():
    listeners = SlotListeners()
    assert beside(listeners, RECORDS) == [RECORDS]
    listeners.listened(MessageId.RECORDS, "")
    other = "0" if KEY[0] == "1" else "1"
    for key in (other, KEY[:-1] + str(1 - int(KEY[-1])), KEY + "0", "flights", "0b1", "+1"):
        listeners.listened(MessageId.SLOT_RECORDS, key)
    assert beside(listeners, RECORDS) == [RECORDS]


def test_what_a_cluster_says_of_itself_all_stores_take_by_its_topic():
    listeners = SlotListeners()
    listeners.listened(MessageId.SLOT_RECORDS, "")
    own = Records("__consumer_offsets", "AB", 0, 1, b"")
    assert beside(listeners, own) == [own]
