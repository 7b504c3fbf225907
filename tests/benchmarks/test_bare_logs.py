from __future__ import annotations

from contextlib import closing

import pytest

from benchmarks.bare_logs import BareSegment, OurLog, PlainFile, WholeSegment, room_for
from dafka.model import Batch, Partition

PLACES = [Partition("bench", name) for name in ("A", "B")]


def transaction(number):
    content = f"transaction {number}".encode()
    return [Batch(place, number * 3, 3, content) for place in PLACES]


@pytest.mark.parametrize("indexed_bytes", [0, 100, 1 << 20])
def test_a_segment_has_what_it_was_given_whether_its_index_is_committed_or_not(
    tmp_path, indexed_bytes
):
    with closing(BareSegment(tmp_path, indexed_bytes=indexed_bytes)) as segment:
        for number in range(5):
            segment.append(transaction(number))
        assert segment.read(6, 1 << 20) == [b"transaction 2", b"transaction 3", b"transaction 4"]
        assert segment.read(6, 1) == [b"transaction 2"]


def test_a_segment_whose_rows_wait_has_what_it_was_given_when_they_are_written(tmp_path):
    with closing(WholeSegment(tmp_path)) as segment:
        for number in range(5):
            segment.append(transaction(number))
        assert segment.read(6, 1 << 20) == []
        segment.write_index()
        assert segment.read(6, 1 << 20) == [b"transaction 2", b"transaction 3", b"transaction 4"]


def test_a_plain_file_that_was_written_before_does_not_grow(tmp_path):
    written = room_for(transaction(0), 3)
    with closing(PlainFile(tmp_path, written)) as plain:
        size = (tmp_path / "plain").stat().st_size
        assert size >= written
        for number in range(3):
            plain.append(transaction(number))
    assert (tmp_path / "plain").stat().st_size == size
    assert (tmp_path / "plain").read_bytes().startswith(b"transaction 0transaction 0")


def test_a_log_whose_segments_are_used_again_does_not_grow(tmp_path):
    sizes = []
    with closing(OurLog(tmp_path, again=True)) as log:
        for number in range(400):
            log.append([Batch(PLACES[0], number * 3, 3, bytes([number % 250 + 1]) * 100_000)])
            if number >= 300:
                sizes.append(
                    sum(one.stat().st_size for one in (tmp_path / "log/segments").iterdir())
                )
    # Of 40 MB that were written: 6.4 are kept, up to 4.2 wait for the index, and of 4.2 each there
    # are the last segment, one that is to be used again, and one that is partly kept.
    assert max(sizes) < 24_000_000
