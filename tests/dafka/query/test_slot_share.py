from __future__ import annotations

import pytest

from dafka.model import Slots, address_in
from dafka.query import messages
from dafka.query.slot_share import is_kept

LOW = Slots.of([range(2_048)])
IN_LOW, IN_HIGH = (address_in("AB" * 16, half, 2).encode() for half in (0, 1))


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        (messages.ReadRequest(b"orders", IN_LOW, 0, 1, 1), True),
        (messages.ReadRequest(b"orders", IN_HIGH, 0, 1, 1), False),
        (messages.ReadRequest(b"_orders", IN_HIGH, 0, 1, 1), True),
        (messages.NamedRangesRequest(((b"orders", IN_LOW), (b"orders", IN_HIGH))), False),
        (messages.TopicsRequest(None, ()), False),
        (messages.TopicsRequest(None, ((0, 2_048),)), True),
        (messages.PartitionsRequest(b"orders", None, ()), False),
        (messages.PartitionsRequest(b"_orders", None, ()), True),
        (messages.HealthRequest(), True),
    ],
)
def test_a_store_answers_for_what_it_keeps_and_lists_to_who_knows_what_lacks(question, kept):
    assert is_kept(question, LOW) is kept


def test_a_store_that_keeps_nothing_yet_lists_for_nobody_who_takes_that_for_all():
    assert not is_kept(messages.TopicsRequest(None, ()), Slots(0))
    assert is_kept(messages.TopicsRequest(None, ((0, 0),)), Slots(0))
