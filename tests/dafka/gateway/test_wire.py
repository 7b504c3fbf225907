from __future__ import annotations

import struct

import pytest

from dafka.errors import RequestError
from dafka.gateway import wire
from dafka.gateway.wire import SERVED, Api, Request, answer_to, parse, request_to
from dafka.limits import (
    BATCH_BYTES_MAX,
    CLIENT_BATCH_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_ITEMS_MAX,
)
from dafka.records.envelope import ENVELOPE_BYTES
from tests.support.kafka_messages import EVERY_VERSION, answered, request


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_a_request_says_who_asks_for_what(api, version):
    read = parse(request(api, version))
    assert read[:4] == (api, version, 7, "me")
    assert read.body is not None


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_an_answer_repeats_the_request_s_number(api, version):
    asked = Request(api, version, 123, "me", None)
    assert answered(answer_to(asked, {}), api, version)[0] == 123


def test_a_client_need_not_have_a_name():
    assert parse(struct.pack(">hhih", Api.API_VERSIONS, 0, 1, -1)).client == ""


@pytest.mark.parametrize(
    ("key", "version", "reason"),
    [
        (-1, 0, "api"),
        (4, 0, "api"),  # LeaderAndIsr, between brokers
        (999, 0, "api"),
        (Api.PRODUCE, 2, "version"),
        (Api.PRODUCE, 13, "version"),
        (Api.FETCH, -1, "version"),
    ],
)
def test_what_is_not_served_is_refused(key, version, reason):
    with pytest.raises(RequestError, match=reason):
        parse(struct.pack(">hhih", key, version, 1, -1))


@pytest.mark.parametrize("version", [-1, SERVED[Api.API_VERSIONS].stop, 32_767])
def test_whoever_asks_for_versions_in_an_unknown_one_is_answered_in_the_first(version):
    read = parse(struct.pack(">hhih", Api.API_VERSIONS, version, 5, 1) + b"me?")
    assert read == Request(Api.API_VERSIONS, 0, 5, "", None)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", struct.pack(">hhih", 0, 3, 1, 9)])
def test_half_a_header_is_refused(frame):
    with pytest.raises(RequestError, match="truncated"):
        parse(frame)


def test_a_request_has_as_many_items_as_it_may_have_and_no_more():
    def names(count):
        header = struct.pack(">hhih", Api.METADATA, 1, 1, -1)
        return header + struct.pack(">i", count) + b"\0\1a" * count

    assert len(parse(names(REQUEST_ITEMS_MAX)).body.topics) == REQUEST_ITEMS_MAX
    with pytest.raises(RequestError, match="items"):
        parse(names(REQUEST_ITEMS_MAX + 1))


def test_the_largest_batch_of_a_client_fits_into_a_request_and_into_a_content():
    assert CLIENT_BATCH_BYTES_MAX + ENVELOPE_BYTES <= BATCH_BYTES_MAX
    assert CLIENT_BATCH_BYTES_MAX + BATCH_BYTES_MAX // 2 < REQUEST_BYTES_MAX


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_what_we_ask_is_read_as_it_was_meant(api, version):
    frame = request_to(api, version, "us", {})
    asked = parse(frame[4:])
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert (asked.api, asked.version, asked.client) == (api, version, "us")
    wire.answered(api, version, b"".join(answer_to(asked, {}))[4:])
    with pytest.raises(RequestError, match="correlation"):
        wire.answered(api, version, b"".join(answer_to(asked._replace(correlation=9), {}))[4:])


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\1", b"\0\0\0\1" + bytes(7) + b"\x09"])
def test_half_an_answer_is_refused(frame):
    with pytest.raises(RequestError, match="truncated"):
        wire.answered(Api.DESCRIBE_CONFIGS, 1, frame)
