from __future__ import annotations

import random
import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest
from kio.serial import entity_reader

from dafka.errors import RequestError
from dafka.gateway.layout import (
    RequestReader,
    request_layout,
    request_schema,
    response_layout,
    response_schema,
)
from dafka.gateway.wire import Api
from tests.support.kafka_messages import EVERY_VERSION, entity_of, plain, some, written

EXAMPLES = 8
every_version = pytest.mark.parametrize(("api", "version"), EVERY_VERSION)


def mapped(value):
    """As handlers give it: mappings; records in pieces."""
    if isinstance(value, SimpleNamespace):
        fields = {name: mapped(inner) for name, inner in vars(value).items()}
        return fields if fields.get("records", ()) is not None else fields | {"records": ()}
    if isinstance(value, list):
        return [mapped(one) for one in value]
    return (value[:1], value[1:]) if isinstance(value, bytes) else value


@every_version
def test_requests_are_read_as_kio_writes_them(api, version):
    chance = random.Random(31)
    schema = request_schema(api, version)
    for _ in range(EXAMPLES):
        entity = some(schema, chance)
        reader = RequestReader(written(entity), 1_000)
        assert request_layout(api, version).read(reader) == plain(entity)
        with pytest.raises(RequestError, match="truncated"):
            reader.octets(1)


@every_version
def test_kio_reads_answers_as_they_are_written(api, version):
    chance = random.Random(32)
    schema = response_schema(api, version)
    for _ in range(EXAMPLES):
        entity = some(schema, chance)
        pieces = []
        response_layout(api, version).write(pieces, mapped(plain(entity)))
        octets = b"".join(pieces)
        read, size = entity_reader(schema)(octets, 0)
        assert size == len(octets)
        assert blank_of(plain(read)) == blank_of(plain(entity))


def blank_of(value):
    """Records that are null are written as none."""
    if isinstance(value, SimpleNamespace):
        fields = {name: blank_of(inner) for name, inner in vars(value).items()}
        if "records" in fields:
            fields["records"] = fields["records"] or b""
        return SimpleNamespace(**fields)
    return [blank_of(one) for one in value] if isinstance(value, list) else value


@every_version
def test_what_is_not_said_has_the_schema_s_default(api, version):
    pieces = []
    response_layout(api, version).write(pieces, {"unknown": 1})
    octets = b"".join(pieces)
    assert entity_reader(response_schema(api, version))(octets, 0)[1] == len(octets)


@every_version
def test_every_beginning_of_a_request_is_refused(api, version):
    octets = written(some(request_schema(api, version), random.Random(33)))
    layout = request_layout(api, version)
    for size in range(len(octets)):
        with pytest.raises(RequestError):
            layout.read(RequestReader(octets[:size], 1_000))


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"\xff\xff\xff\xff\x07", "truncated"),  # two thousand million names
        (b"\xff\xff\xff\xff\xff\x01", "number"),
        (b"\x07", "truncated"),
        (b"\x7f" + b"\0" * 200, "items"),
    ],
)
def test_a_length_is_checked_before_anything_is_made_of_it(octets, reason):
    with pytest.raises(RequestError, match=reason):
        RequestReader(octets, 100).items(None, nullable=True)


def test_no_text_is_longer_than_kafkas():
    layout = request_layout(Api.JOIN_GROUP, 9)
    values = {"group_id": "g", "member_id": "m", "protocol_type": "", "protocols": ()}
    for size in (32_767, 32_768):
        entity = entity_of(request_schema(Api.JOIN_GROUP, 9), values | {"reason": "x" * size})
        reader = RequestReader(written(entity), 1_000)
        if size == 32_767:
            assert layout.read(reader).reason == "x" * size
        else:
            with pytest.raises(RequestError, match="length"):
                layout.read(reader)


@pytest.mark.parametrize("version", range(5))
def test_a_text_that_has_become_too_long_is_cut(version):
    pieces = []
    layout = response_layout(Api.FIND_COORDINATOR, version)
    row = {"key": "a", "error_message": "ä" * 32_767}
    layout.write(pieces, {"coordinators": [row]} if version >= 4 else row)
    read = entity_reader(response_schema(Api.FIND_COORDINATOR, version))
    answer, _ = read(b"".join(pieces), 0)
    if version:
        rows = answer.coordinators if version >= 4 else [answer]
        assert [one.error_message for one in rows] == ["ä" * 16_383]


@pytest.mark.parametrize("size", [-2, -(2**31)])
def test_a_negative_length_is_refused(size):
    with pytest.raises(RequestError, match="length"):
        RequestReader(struct.pack(">i", size), 1).items(struct.Struct(">i"), nullable=True)


def test_null_is_refused_where_there_has_to_be_something():
    assert RequestReader(b"\0", 1).items(None, nullable=True) == -1
    with pytest.raises(RequestError, match="length"):
        RequestReader(b"\0", 1).items(None, nullable=False)


def test_items_of_all_arrays_are_counted_together():
    reader = RequestReader(b"\4abc\4def", 5)
    assert reader.items(None, nullable=False) == 3
    reader.octets(3)
    with pytest.raises(RequestError, match="items"):
        reader.items(None, nullable=False)


def test_text_that_is_none_is_refused():
    with pytest.raises(RequestError, match="text"):
        request_layout(3, 1).read(RequestReader(b"\0\0\0\1\0\1\xff", 5))


def test_tags_are_passed_over():
    reader = RequestReader(b"\2\0\1a\x81\1\2bcd", 1)
    reader.pass_tags()
    assert reader.octets(1) == b"d"


LOADED = """
import sys
import dafka.gateway.layout
assert "hypothesis" not in sys.modules, "loaded"
import hypothesis.strategies
"""


def test_a_gateway_does_not_load_what_tests_are_made_with():
    assert subprocess.run([sys.executable, "-c", LOADED], check=False).returncode == 0
