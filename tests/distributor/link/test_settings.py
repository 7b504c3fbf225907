from __future__ import annotations

import pytest

from dafka.model import Batch
from dafka.records.batch import compressed_content, is_compressed, records_of
from dafka.records.compression import Codec
from dafka.records.envelope import ENVELOPE_BYTES, Envelope, unpack
from distributor.link.events import Hopped
from distributor.link.settings import LinkSettings
from tests.support.link_bench import (
    ORIGIN,
    Bench,
    P,
    batch,
    durable,
    live,
    of,
    published,
    stored,
)


def test_by_default_a_link_leaves_nothing_out():
    settings = LinkSettings()
    assert not settings.skips("orders")
    assert not settings.passes


def test_it_compresses_what_is_not():
    bench = Bench(codec=Codec.ZSTD).placed()
    large = batch(0, size=5_000)
    (sent,) = published(bench.source(live(large), durable(2)))
    assert len(sent.content) < len(large.content) // 10
    assert is_compressed(sent.content)
    assert unpack(sent.content) == Envelope(ORIGIN, 0b1)
    copied = Batch(P, sent.sequence, sent.count, sent.content)
    assert list(records_of(copied)) == [
        one._replace(copy_flags=0b1, origin=ORIGIN) for one in records_of(large)
    ]
    assert of(Hopped, bench.target(stored(2)))[0].size == len(sent.content)
    # What a producer has compressed goes on as it came.
    smaller = compressed_content(batch(2, size=5_000).content, Codec.LZ4)
    (sent,) = published(bench.source(live(Batch(P, 2, 2, smaller)), durable(4)))
    assert sent.content[ENVELOPE_BYTES:] == smaller[ENVELOPE_BYTES:]


def test_what_is_compressed_takes_no_more_room_than_it_has():
    bench = Bench(codec=Codec.ZSTD, buffer_bytes_max=12_000).placed()
    for sequence in range(0, 40, 2):
        assert published(bench.source(live(batch(sequence, size=5_000)), durable(sequence + 2)))
        bench.target(stored(sequence + 2))


@pytest.mark.parametrize(("codec", "sent"), [(Codec.NONE, [0]), (Codec.ZSTD, [0, 2, 4, 6])])
def test_a_bounded_rate_is_of_what_is_sent(codec, sent):
    bench = Bench(codec=codec, bytes_per_s=65_536, buffer_bytes_max=50_000).placed()
    found = []
    for sequence in range(0, 8, 2):
        effects = bench.source(live(batch(sequence, size=40_000)), durable(sequence + 2))
        found += [message.sequence for message in published(effects)]
        bench.target(stored(sequence + 2))
    assert found == sent
