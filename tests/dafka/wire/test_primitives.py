import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import WireError
from dafka.limits import NAMES_MAX
from dafka.wire import primitives as module
from dafka.wire.primitives import Reader, longstr, number_4, number_8, octets_of, string, text


@given(st.binary())
def test_every_name_survives(octets):
    assert octets_of(text(octets)) == octets


def test_a_name_is_there_once_and_not_for_ever(monkeypatch):
    monkeypatch.setattr(module, "_names", {})
    first = text(b"some name")
    assert text(bytearray(b"some name")) is first
    assert Reader(string("some name")).string() is first
    for number in range(NAMES_MAX):
        text(b"name %d" % number)
    assert len(module._names) == 1
    assert text(b"some name") == first
    longest = b"x" * module.ADDRESS_BYTES_MAX
    assert text(longest) is text(longest)
    text(longest + b"x")
    assert len(max(module._names)) == len(longest)


@given(st.binary(), st.binary())
def test_different_bytes_are_different_names(one, other):
    assert (text(one) == text(other)) == (one == other)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=255).map(text),
    st.binary(max_size=1_000).map(text),
)
def test_fields_survive(four, eight, short, long):
    frame = b"\x07" + number_4(four) + number_8(eight) + string(short) + longstr(long)
    reader = Reader(frame)
    assert reader.number_1() == 7
    assert reader.number_4() == four
    assert reader.number_8() == eight
    assert reader.string() == short
    assert reader.longstr() == long
    assert reader.remaining == 0


def test_literal_bytes():
    assert number_4(0x01020304) == b"\x01\x02\x03\x04"
    assert number_8(0x0102030405060708) == b"\x01\x02\x03\x04\x05\x06\x07\x08"
    assert string("he") == b"\x02he"
    assert string("") == b"\x00"
    assert string("é") == b"\x02\xc3\xa9"
    assert longstr("he") == b"\x00\x00\x00\x02he"
    assert string(text(b"\xff")) == b"\x01\xff"


@pytest.mark.parametrize(
    ("frame", "read"),
    [
        (b"", Reader.number_1),
        (b"\0\0\0", Reader.number_4),
        (b"\0" * 7, Reader.number_8),
        (b"\x02a", Reader.string),
        (b"", Reader.string),
        (b"\0\0\0\x02a", Reader.longstr),
        (b"\xff\xff\xff\xffabc", Reader.longstr),
    ],
)
def test_what_is_not_there_is_not_read(frame, read):
    with pytest.raises(WireError, match="truncated"):
        read(Reader(frame))


def test_reading_begins_where_told():
    assert Reader(b"ab\x01c", 2).string() == "c"
