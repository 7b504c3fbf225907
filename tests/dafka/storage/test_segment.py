from __future__ import annotations

import random

import pytest

from dafka.errors import StorageError
from dafka.storage.segment import (
    FRAME_BYTES_MAX,
    ContentHead,
    FrameChange,
    Scan,
    frame,
    spans_of,
)

MARK = b"\x01drawn!\xff"


def framed(number, *contents, **said):
    heads = [ContentHead(7, 100 + place, 3, len(one)) for place, one in enumerate(contents)]
    pieces, first = frame(MARK, number, FrameChange(5, **said), heads, contents)
    return b"".join(pieces), spans_of(heads, 0, first)


def found(octets, number=1):
    scan = Scan(MARK, number)
    return [one.number for one in scan.frames(octets)], scan.end, scan.number


FRAMES = [
    framed(1, b"first", named=((7, b"orders\0A1"),), trims=((7, 9),))[0],
    framed(2, b"", b"second" * 20)[0],
    framed(3, entries=(("groups", b"key", None),), forgets=(7,), skips=((8, 2),))[0],
    framed(4, b"last")[0],
]
WHOLE = b"".join(FRAMES)
ENDS = [sum(map(len, FRAMES[:count])) for count in range(len(FRAMES) + 1)]


def test_what_was_written_is_found_again_and_where_it_lies():
    octets, spans = framed(9, b"one", b"", b"three", named=((7, b"orders\0A1"),), moved=True)
    (again,) = Scan(MARK, 9).frames(octets)
    assert (again.number, again.end) == (9, len(octets))
    assert again.change == FrameChange(5, named=((7, b"orders\0A1"),), moved=True)
    assert again.heads == [
        ContentHead(7, 100, 3, 3),
        ContentHead(7, 101, 3, 0),
        ContentHead(7, 102, 3, 5),
    ]
    assert again.spans == spans
    assert [octets[span.at : span.end] for span in spans] == [b"one", b"", b"three"]
    # Each byte of a frame with batches belongs to one of them: with all of them it is of no use.
    assert spans[0].start == 0
    assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]
    assert spans[-1].end == len(octets)


@pytest.mark.parametrize("rest", [b"", bytes(200), b"\xff" * 200, MARK * 20])
def test_cut_at_any_byte_the_log_ends_behind_its_last_whole_frame(rest):
    for cut in range(len(WHOLE) + 1):
        whole = sum(end <= cut for end in ENDS[1:])
        assert found(WHOLE[:cut] + rest) == ([*range(1, whole + 1)], ENDS[whole], whole + 1)


def test_frames_of_an_earlier_use_are_none():
    for cut in (0, *ENDS[1:]):
        newer = b"".join(framed(number, b"newer")[0] for number in range(50, 53))
        octets = newer[: 2 * len(newer) // 3] + WHOLE[cut:]
        assert found(octets, 50) == ([50, 51], 2 * len(newer) // 3, 52)


def test_a_bit_that_has_changed_before_a_whole_frame_is_damage():
    for place in range(ENDS[2], ENDS[3]):
        octets = bytearray(WHOLE)
        octets[place] ^= 1 << place % 8
        with pytest.raises(StorageError, match=rf"change 3 is not whole at byte {ENDS[2]},? ?.*4"):
            found(bytes(octets))


def test_a_bit_that_has_changed_in_the_last_frame_ends_the_log_before_it():
    for place in range(ENDS[3], ENDS[4]):
        octets = bytearray(WHOLE)
        octets[place] ^= 1 << place % 8
        assert found(bytes(octets)) == ([1, 2, 3], ENDS[3], 4)


def test_a_frame_that_is_missing_is_damage():
    with pytest.raises(StorageError, match=r"change 3 is not whole at byte .* change 4"):
        found(WHOLE[: ENDS[2]] + WHOLE[ENDS[3] :])
    with pytest.raises(StorageError, match="change 1 is not whole at byte 0"):
        found(bytes(100) + WHOLE[ENDS[1] :])


def test_a_content_that_looks_like_a_frame_of_another_log_is_a_content():
    strange = b"".join(frame(b"anothers", 9, FrameChange(0), [], [])[0])
    octets = framed(1, strange)[0]
    assert found(octets[:-1]) == ([], 0, 1)


def test_large_contents_are_not_copied():
    contents = [b"small", b"1" * 100_000, b"2" * 7, b"3" * 9_000, b"4" * 9_000, b"end"]
    heads = [ContentHead(7, place, 1, len(one)) for place, one in enumerate(contents)]
    pieces, first = frame(MARK, 1, FrameChange(5), heads, contents)
    assert [one for one in pieces if any(one is large for large in contents)] == [
        contents[1],
        *contents[3:5],
    ]
    octets = b"".join(pieces)
    assert [octets[span.at : span.end] for span in spans_of(heads, 0, first)] == contents
    assert found(octets) == ([1], len(octets), 2)


def test_what_is_no_frame_at_all_ends_nothing_else():
    chance = random.Random(1)
    for _ in range(200):
        octets = MARK + chance.randbytes(chance.randint(0, 100))
        assert found(octets) == ([], 0, 1)
    assert found(b"") == ([], 0, 1)


def test_a_frame_that_is_too_large_is_refused():
    with pytest.raises(StorageError, match=r"cannot append .* bytes to a log at once"):
        frame(MARK, 1, FrameChange(5), [ContentHead(7, 0, 1, FRAME_BYTES_MAX)], [b""])
