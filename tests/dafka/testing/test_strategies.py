"""What the strategies make is what the code takes."""

from __future__ import annotations

from hypothesis import given

from dafka.model import checked_topic
from dafka.records.batch import checked_count, records_of
from dafka.testing import strategies
from dafka.wire import rfc46


@given(strategies.topics)
def test_topics_may_be_used(topic):
    assert checked_topic(topic) == topic


@given(strategies.wire_messages)
def test_messages_can_be_sent(message):
    assert rfc46.decode(rfc46.encode(message)) == message


@given(strategies.batches)
def test_batches_are_whole(batch):
    assert checked_count(batch.content, batch.sequence) == batch.count
    assert [record.sequence for record in records_of(batch)] == list(
        range(batch.sequence, batch.end)
    )
