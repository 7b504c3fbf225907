from __future__ import annotations

import json
import re
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.cli.records import Lines, from_json, lines_of, to_json
from dafka.errors import MisuseError
from dafka.model import Header, Record
from dafka.records.batch import BatchBuilder

OCTETS = st.none() | st.binary(max_size=20)


def record(key=None, value=None, headers=(), timestamp_ms=5):
    headers = tuple(Header(*header) for header in headers)
    return Record("orders", "AB" * 16, 7, timestamp_ms, key, value, headers, 5, 2)


def back(fields):
    sent = {name: fields[name] for name in ("key", "value", "headers", "timestamp_ms")}
    return from_json(json.dumps(sent).encode())


@given(
    OCTETS,
    OCTETS,
    st.dictionaries(st.text(max_size=5), OCTETS, max_size=3),
    st.integers(0, 1 << 50),
)
def test_a_record_comes_back_from_its_json(key, value, headers, timestamp_ms):
    fields = back(to_json(record(key, value, list(headers.items()), timestamp_ms)))
    assert fields == {
        "key": key,
        "value": value,
        "headers": list(headers.items()),
        "timestamp_ms": timestamp_ms,
    }


def test_every_field_is_in_the_json():
    assert to_json(record(b"k", b"v", [("h", None)])) == {
        "topic": "orders",
        "address": "AB" * 16,
        "sequence": 7,
        "timestamp_ms": 5,
        "key": "k",
        "value": "v",
        "headers": {"h": None},
        "copy_flags": 5,
        "origin": 2,
    }


def test_bytes_that_are_not_utf_8_are_base64():
    assert to_json(record(value=b"\xff"))["value"] == {"base64": "/w=="}
    assert from_json(b'{"value": {"base64": "/w=="}}')["value"] == b"\xff"


def test_any_other_json_is_the_value_itself():
    assert from_json(b'{"value": {"a": [1, null]}}')["value"] == b'{"a": [1, null]}'
    assert from_json(b'{"value": 5}')["value"] == b"5"
    assert from_json(b'{"value": true}')["value"] == b"true"


def test_what_is_not_given_is_none():
    fields = from_json(b'{"value": null}')
    assert fields == {"value": None, "key": None, "headers": [], "timestamp_ms": None}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "not JSON at column 1: Expecting value"),
        (b"text", "not JSON at column 1: Expecting value: b'text'"),
        (b"5", 'not an object with "value"'),
        (b"[]", 'not an object with "value"'),
        (b"null", 'not an object with "value"'),
        (b"{}", 'not an object with "value"'),
        (b'{"key": "k"}', 'not an object with "value"'),
        (
            b'{"value": "v", "topic": "t"}',
            '"topic" is no field of a record: "value", "key", "headers", "timestamp_ms" are',
        ),
        (b'{"value": "v", "headers": ["h"]}', '"headers" must be an object'),
        (b'{"value": "v", "timestamp_ms": "now"}', '"timestamp_ms" must be a whole number'),
        (b'{"value": "v", "timestamp_ms": 1.5}', '"timestamp_ms" must be a whole number'),
        (b'{"value": "v", "timestamp_ms": true}', '"timestamp_ms" must be a whole number'),
        (b'{"value": "v", "timestamp_ms": -5}', "0 to 9223372036854775807: "),
        (b'{"value": "v", "timestamp_ms": 9223372036854775808}', "0 to 9223372036854775807: "),
        (b'{"value": {"base64": "x"}}', "text that stands for no bytes"),
        (b'{"value": {"base64": "\\u00e9"}}', "text that stands for no bytes"),
        (b'{"value": "\\ud800"}', "text that stands for no bytes"),
        (b'{"value": "v", "key": {"base64": "x"}}', "text that stands for no bytes"),
        (b'\xff\xfe{"value"', "not JSON at column 1"),
        (b'{"value": "\xff"}', "not JSON that can be read"),
        (b"[" * 100_000, "not JSON that can be read"),
        (b'{"value": {"base64": "!!!!"}}', "text that stands for no bytes"),
    ],
    ids=range(22),
)
def test_a_line_that_is_no_record_is_refused(line, complaint):
    with pytest.raises(MisuseError, match=re.escape(complaint)) as refused:
        from_json(line)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("timestamp_ms", [0, 2**63 - 1])
def test_times_that_a_record_can_carry(timestamp_ms):
    line = b'{"value": "v", "timestamp_ms": %d}' % timestamp_ms
    assert from_json(line)["timestamp_ms"] == timestamp_ms
    builder = BatchBuilder(1_000)
    assert builder.append(timestamp_ms, None, b"v", [])
    assert builder.append(2**63 - 1 - timestamp_ms, None, b"v", [])


def test_lines_are_without_what_ends_them():
    assert list(lines_of(BytesIO(b"one\r\n\ntwo\nthree"), 5)) == [b"one", b"", b"two", b"three"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_may_be_as_long_as_a_record(end):
    assert list(lines_of(BytesIO(b"12345" + end), 5)) == [b"12345"]


def test_a_line_without_end_is_not_read_to_its_end():
    stream = BytesIO(b"one\n" + b"0" * 1_000)
    lines = lines_of(stream, 5)
    assert next(lines) == b"one"
    with pytest.raises(MisuseError, match="longer than 5 bytes"):
        next(lines)
    assert stream.tell() < 20


def test_an_input_that_cannot_be_read_is_told():
    class Directory(BytesIO):
        def readline(self, size=-1):
            raise IsADirectoryError(21, "Is a directory")

    with pytest.raises(MisuseError, match="standard input cannot be read: Is a directory"):
        next(lines_of(Directory(), 5))


@pytest.mark.parametrize(
    ("options", "line", "sent"),
    [
        ({}, b"a:1", (None, b"a:1", [])),
        ({"key_separator": ":"}, b"a:1:2", (b"a", b"1:2", [])),
        ({"key_separator": "\t"}, b"\t", (b"", b"", [])),
        ({"key": "k", "headers": ["a=1", "a==", "b="]}, b"", (b"k", b"", ["a1", "a=", "b"])),
        ({"key": "k", "key_separator": ":"}, b"a:1", (b"a", b"1", [])),
        ({"json_lines": True, "key": "k"}, b'{"value": "v"}', (b"k", b"v", [])),
        ({"json_lines": True, "key": "k"}, b'{"value": "v", "key": "a"}', (b"a", b"v", [])),
        (
            {"json_lines": True, "headers": ["a=1"]},
            b'{"value": "v", "headers": {"b": "2"}}',
            (None, b"v", ["a1", "b2"]),
        ),
    ],
)
def test_what_is_said_of_every_line(options, line, sent):
    record = Lines(**options).record(line)
    headers = [name + value.decode() for name, value in record["headers"]]
    assert (record["key"], record["value"], headers) == sent


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"json_lines": True, "key_separator": ":"}, "leave --key-separator out"),
        ({"key_separator": ""}, "must not be empty"),
        ({"headers": ["a"]}, "takes NAME=VALUE: 'a'"),
        ({"headers": ["=a"]}, "takes NAME=VALUE"),
    ],
)
def test_what_cannot_be_said_of_lines_is_refused(options, complaint):
    with pytest.raises(MisuseError, match=complaint):
        Lines(**options)


def test_a_line_without_its_key_is_refused():
    with pytest.raises(MisuseError, match="no b':', which ends the key: b'value'"):
        Lines(key_separator=":").record(b"value")
