from __future__ import annotations

from dafka.model import Partition
from dafka.storage import rows
from dafka.storage.log import Extent, Outline
from dafka.storage.rows import Content, SegmentUse, Standpoint
from dafka.storage.segment import Span

SPAN = Span(10, 30, 7)


def test_a_batch_says_where_its_content_is_and_may_move():
    row = rows.batch_row(5, 99, 3, SPAN)
    assert rows.outline_of(100, row) == Outline(100, 105, 7, 99)
    assert rows.content_of(row) == Content(3, SPAN)
    moved = rows.moved_row(row, 4, Span(0, 20, 7))
    assert rows.outline_of(100, moved) == Outline(100, 105, 7, 99)
    assert rows.content_of(moved) == Content(4, Span(0, 20, 7))


def test_a_batch_of_a_format_of_before_has_its_content():
    row = (5).to_bytes(4, "big") + (99).to_bytes(8, "big") + b"content"
    assert rows.outline_of(100, row) == Outline(100, 105, 7, 99)
    assert rows.content_of(row) == b"content"


def test_a_gap_has_no_content():
    assert rows.outline_of(100, rows.gap_row(99, 200)) == Outline(100, 200, 0, 99)


def test_keys_and_rows_are_read_back():
    partition = Partition("orders", "\0a\0")
    place = rows.partition_key(partition)
    extent = Extent(3, 9, 50, 1, 2)
    standing = rows.partition_standing(7, extent)
    assert rows.partition_row(place, standing) == (partition, 7, extent)
    assert rows.batch_place(rows.batch_key(7, 9)) == (7, 9)
    assert rows.table_of(rows.table_key("groups", b"\0x")) == "groups"
    at, use = Standpoint(b"12345678", 3, 40, 9, 2), SegmentUse(5, 6)
    found = rows.segments_of([(rows.segment_key(3), use.packed()), (rows.STANDPOINT, at.packed())])
    assert found == (at, {3: use})
