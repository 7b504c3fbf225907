"""Hypothesis strategies for what travels and what is stored. Needs the `dev` extra."""

from __future__ import annotations

from hypothesis import strategies as st

from dafka.groups.commit import Commit, CommitKey
from dafka.limits import ADDRESS_BYTES_MAX, BATCH_RECORDS_MAX, EXPANDED_BYTES_MAX, TOPIC_BYTES_MAX
from dafka.model import SLOTS, Batch, Partition, Slots
from dafka.records.batch import BatchBuilder, RawRecord, enclosed
from dafka.records.compression import Codec
from dafka.records.envelope import Envelope
from dafka.wire import messages
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.primitives import text


def _names(bytes_max: int) -> st.SearchStrategy[str]:
    octets = st.binary(min_size=1, max_size=bytes_max)
    return octets.map(lambda some: text(some.replace(b"\0", b".")))


addresses = _names(ADDRESS_BYTES_MAX)
topics = _names(TOPIC_BYTES_MAX)
partitions = st.builds(Partition, topics, addresses)
sequences = st.integers(0, SEQUENCE_MAX)
batch_sequences = st.integers(0, SEQUENCE_MAX - BATCH_RECORDS_MAX)
topic_lists = st.lists(topics, max_size=5).map(tuple)
counts = st.integers(1, BATCH_RECORDS_MAX)
contents = st.binary(max_size=200)
slots = st.builds(Slots, st.integers(0, (1 << SLOTS) - 1))
envelopes = st.builds(
    Envelope,
    origin=st.integers(0, 2**16 - 1),
    copy_flags=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**16 - 1),
)

wire_messages: st.SearchStrategy[messages.Message] = st.one_of(
    st.builds(messages.RecordMessage, topics, addresses, sequences, contents, st.booleans()),
    st.builds(messages.DirectRecord, addresses, topics, addresses, sequences, contents),
    st.builds(messages.Records, topics, addresses, batch_sequences, counts, contents),
    st.builds(messages.SlotRecords, topics, addresses, batch_sequences, counts, contents),
    st.builds(
        messages.DirectRecords,
        addresses,
        topics,
        addresses,
        batch_sequences,
        counts,
        contents,
    ),
    st.builds(
        messages.StoredRecords,
        addresses,
        topics,
        addresses,
        batch_sequences,
        counts,
        contents,
    ),
    st.builds(
        messages.Fetch,
        topics,
        addresses,
        addresses,
        sequences,
        st.integers(0, 2**32 - 1),
        st.none() | addresses,
    ),
    st.builds(messages.Ack, topics, addresses, addresses, sequences, st.none() | sequences),
    st.builds(messages.Head, topics, addresses, sequences, st.booleans()),
    st.builds(messages.DirectHead, addresses, topics, addresses, sequences, st.none() | addresses),
    st.builds(messages.DirectHead, addresses, topics, addresses, sequences, addresses, sequences),
    st.builds(messages.GetHeads, st.just("") | topics, addresses, slots),
    st.builds(
        messages.ConsumerHello, addresses, addresses, st.lists(topics, max_size=5).map(tuple)
    ),
    st.builds(messages.StoreHello, addresses, addresses, slots),
    st.builds(messages.LogStart, addresses, topics, addresses, sequences, addresses),
)

_header_names = st.text(max_size=20)
_octets = st.binary(max_size=50)
raw_records = st.builds(
    RawRecord,
    st.just(0),
    st.integers(0, 2**48),
    st.none() | _octets,
    st.none() | _octets,
    st.lists(st.tuples(_header_names, st.none() | _octets), max_size=3),
)


def batch_of(
    partition: Partition,
    sequence: int,
    records: list[RawRecord],
    envelope: Envelope,
    codec: Codec = Codec.NONE,
) -> Batch:
    """Enclose `records` as a batch beginning at `sequence`, whatever their own sequences."""
    builder = BatchBuilder(EXPANDED_BYTES_MAX, codec=codec)
    for record in records:
        added = builder.append(record.timestamp_ms, record.key, record.value, record.headers)
        assert added
    content = enclosed(builder.build(), sequence, envelope)
    return Batch(partition, sequence, len(records), content)


batches = st.builds(
    batch_of,
    partitions,
    st.integers(0, 2**40),
    st.lists(raw_records, min_size=1, max_size=10),
    envelopes,
    st.sampled_from(Codec),
)

groups = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60)
commit_keys = st.builds(CommitKey, groups, partitions)
commits = st.builds(
    Commit,
    st.none() | sequences,
    st.integers(0, 2**40),
    st.integers(0, 2**48),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**64 - 1),
    st.text(st.characters(codec="utf-8"), max_size=50),
    st.none() | sequences,
    st.none() | sequences,
)
