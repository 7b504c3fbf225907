from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dafka.arrow import frames
from dafka.arrow.frames import COLUMNS, arrow_of, pandas_of, polars_of
from dafka.model import Partition, Range
from tests.support.batches import ORDERS, make_batch, unreadable_from

OTHER = Partition("bills", "CD" * 16)


def piece(batch, start=0, end=100):
    return Range(batch.partition, max(start, batch.sequence), min(end, batch.end)), batch


def test_a_table_has_the_records_in_their_order():
    batches = [make_batch([b"0", None], timestamp_ms=1_000), make_batch([b"x"], 9, OTHER)]
    table = arrow_of(map(piece, batches))
    assert table.column_names == list(COLUMNS)
    assert table.to_pylist()[0] == {
        "topic": "orders",
        "partition": ORDERS.address,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(1, UTC),
        "key": b"key",
        "value": b"0",
        "headers": [{"key": "h", "value": b"1"}],
    }
    assert table["value"].to_pylist() == [b"0", None, b"x"]
    assert table["topic"].to_pylist() == ["orders", "orders", "bills"]
    assert table["offset"].to_pylist() == [0, 1, 9]


def test_only_what_is_wanted_of_a_batch_is_in_it():
    batch = make_batch([b"%d" % number for number in range(5)])
    assert arrow_of([piece(batch, 1, 3)])["offset"].to_pylist() == [1, 2]


def test_of_nothing_it_has_the_columns_all_the_same():
    table = arrow_of([])
    assert table.column_names == list(COLUMNS)
    assert table.num_rows == 0


def test_of_much_columns_are_made_several_times():
    batches = [make_batch([bytes(3 << 20)], number) for number in range(6)]
    table = arrow_of(map(piece, batches))
    assert table["offset"].to_pylist() == list(range(6))
    assert table["offset"].num_chunks > 1


def test_what_nobody_can_read_is_left_out_and_told(caplog):
    broken = unreadable_from(make_batch([b"0", b"1", b"2"]), 1)
    table = arrow_of([piece(broken), piece(make_batch([b"3"], 3))])
    assert table["value"].to_pylist() == [b"0", b"3"]
    (told,) = [one for one in caplog.records if "unreadable" in one.getMessage()]
    assert (told.first, told.last) == (1, 2)


def test_a_data_frame_of_pandas():
    pytest.importorskip("pandas")
    frame = pandas_of([piece(make_batch([b"0", b"1"]))])
    assert list(frame.columns) == list(COLUMNS)
    assert frame["value"].tolist() == [b"0", b"1"]
    assert frame["timestamp"].dt.tz is not None


def test_a_data_frame_of_polars():
    pytest.importorskip("polars")
    frame = polars_of([piece(make_batch([b"0", b"1"]))])
    assert frame.columns == list(COLUMNS)
    assert frame["value"].to_list() == [b"0", b"1"]


def test_its_page_lists_its_columns():
    assert all(f"| {name}" in frames.__doc__ or f", {name} |" in frames.__doc__ for name in COLUMNS)
