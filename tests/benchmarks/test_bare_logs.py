from __future__ import annotations

from contextlib import closing

import pytest

from benchmarks.bare_logs import BareSegment, OurLog, PlainFile, room_for
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


def test_a_plain_file_that_was_written_before_does_not_grow(tmp_path):
    written = room_for(transaction(0), 3)
    with closing(PlainFile(tmp_path, written)) as plain:
        size = (tmp_path / "plain").stat().st_size
        assert size >= written
        for number in range(3):
            plain.append(transaction(number))
    assert (tmp_path / "plain").stat().st_size == size
    assert (tmp_path / "plain").read_bytes().startswith(b"transaction 0transaction 0")


def test_a_log_whose_pages_are_used_again_does_not_grow(tmp_path):
    file = tmp_path / "log/data.mdb"
    with closing(OurLog(tmp_path, again=True)) as log:
        for number in range(100):
            log.append([Batch(PLACES[0], number * 3, 3, bytes(10_000))])
        size = file.stat().st_size
        for number in range(100, 200):
            log.append([Batch(PLACES[0], number * 3, 3, bytes(10_000))])
    assert file.stat().st_size == size
