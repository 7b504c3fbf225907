from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.limits import RECORD_BYTES_MAX
from dafka.node import open_batch
from dafka.node.clock import now_ms
from dafka.node.open_batch import OpenBatch, OpenBatches, check_size, check_time
from dafka.records.batch import Run


def test_a_new_one_is_empty_and_knows_its_age():
    before = now_ms()
    batch = OpenBatch(1_000, Run(1, 0))
    assert batch.builder.count == 0
    assert before <= batch.opened_ms <= now_ms()


def test_they_are_known_in_the_order_they_were_opened_in(monkeypatch):
    batches = OpenBatches()
    assert batches.oldest_ms() is None
    for opened_ms, topic in ((1, "b"), (5, "a"), (5, "c"), (9, "d")):
        monkeypatch.setattr(open_batch, "now_ms", lambda now=opened_ms: now)
        batches[topic] = OpenBatch(1_000, Run(1, 0))
    assert batches.oldest_ms() == 1
    assert batches.older(5) == ["b", "a", "c"]
    del batches["b"]
    assert batches.oldest_ms() == 5
    assert batches.older(4) == []


def test_a_record_may_have_so_many_bytes_and_no_more():
    half = bytes(RECORD_BYTES_MAX // 2)
    check_size("orders", half, half, [("", None)])
    with pytest.raises(MisuseError, match=f"at most {RECORD_BYTES_MAX}"):
        check_size("orders", half, half, [("x", b"y")])


def test_a_record_is_of_1970_or_later():
    check_time("orders", 0)
    with pytest.raises(MisuseError, match="0 or more since 1970, got -1"):
        check_time("orders", -1)


@pytest.mark.parametrize("headers", [5, [5], [("name",)], [("name", 5)]])
def test_what_has_no_size_is_refused(headers):
    with pytest.raises(MisuseError, match="'orders' cannot be sent"):
        check_size("orders", None, b"", headers)


def test_a_bare_batch_takes_values_and_nothing_else():
    builder = OpenBatch(1_000, Run(1, 0), bare=True).builder
    assert builder.append(1, None, b"value", ())
    assert builder.extend(1, [b"one", b""], 0) == 2
    for key, value, headers in ((b"key", b"", ()), (None, b"", [("a", b"")]), (None, None, ())):
        with pytest.raises(ValueError, match="raw content"):
            builder.append(1, key, value, headers)
    with pytest.raises(ValueError, match="raw content"):
        builder.extend(1, [b"one", None], 0)
    assert builder.count == 3
