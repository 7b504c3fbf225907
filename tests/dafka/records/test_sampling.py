from __future__ import annotations

import pytest

from dafka.model import Batch, Partition
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.compression import Codec
from dafka.records.sampling import SAMPLED_MAX, SampledRecord, sampled_in

P = Partition("orders", "AA")
TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
WANTED = b"00-%032x-%016x-01" % (TRACE, SPAN)


def batch(*headers, first=7, codec=Codec.NONE):
    builder = BatchBuilder(1 << 16, codec=codec)
    for number, pairs in enumerate(headers):
        builder.append(number, b"key", b"value" * 50, pairs)
    content = enclosed(builder.build(), first)
    return Batch(P, first, len(headers), content)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_records_whose_senders_want_it(codec):
    one = batch((), [("a", b"b"), ("traceparent", WANTED)], (), codec=codec)
    assert sampled_in(one) == (SampledRecord(P, 8, TRACE, SPAN),)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"hello",
        WANTED[:-2] + b"00",
        WANTED[:-2] + b"02",
        WANTED.upper(),
        b"ff" + WANTED[2:],
        b"00-%032x-%016x-01" % (0, SPAN),
        b"00-%032x-%016x-01" % (TRACE, 0),
        WANTED + b"x",
    ],
)
def test_what_is_no_context_or_not_sampled(value):
    assert sampled_in(batch([("traceparent", value)])) == ()


def test_later_versions_have_more_behind():
    (found,) = sampled_in(batch([("traceparent", b"01" + WANTED[2:-2] + b"03-more")]))
    assert (found.trace_id, found.span_id) == (TRACE, SPAN)


def test_the_word_elsewhere_is_none():
    assert sampled_in(batch([("other", b"traceparent " + WANTED)])) == ()


def test_of_one_batch_only_so_many():
    many = batch(*[[("traceparent", WANTED)]] * (SAMPLED_MAX + 5))
    assert [one.sequence for one in sampled_in(many)] == list(range(7, 7 + SAMPLED_MAX))


def test_what_cannot_be_read_is_not_traced():
    one = batch([("traceparent", WANTED)])
    broken = one.content[:-40] + b"\xff" * 39 + one.content[-1:]
    assert sampled_in(Batch(P, 7, 1, broken)) == ()
