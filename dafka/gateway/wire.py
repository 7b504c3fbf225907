"""Requests and answers of Kafka's protocol as they travel: which are served, and their headers."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from dafka.errors import RequestError
from dafka.gateway.layout import RequestReader, request_layout, response_layout
from dafka.limits import REQUEST_ITEMS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace

SIZE_BYTES = 4
"""Every request and answer has its size in front."""

_HEADER = struct.Struct(">hhi")
"""API, version and correlation id; the client's name follows."""

HEADER_BYTES = _HEADER.size
"""Nothing shorter is a request."""

_NAME_LENGTH = struct.Struct(">h")

_ITEM_BYTES = 1_000
"""What an element of an array takes once it is read: a dozen bytes become objects."""

_CORRELATION = struct.Struct(">i")
_CORRELATION_ID = 1
"""Of requests of ours: each has a connection of its own."""

_SIZE = struct.Struct(">i")


class Api(IntEnum):
    """What is served of Kafka's APIs."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69


SERVED = {
    Api.PRODUCE: range(3, 13),
    Api.FETCH: range(4, 14),
    Api.LIST_OFFSETS: range(1, 10),
    Api.METADATA: range(13),
    Api.OFFSET_COMMIT: range(1, 10),
    Api.OFFSET_FETCH: range(1, 10),
    Api.FIND_COORDINATOR: range(5),
    Api.JOIN_GROUP: range(10),
    Api.HEARTBEAT: range(5),
    Api.LEAVE_GROUP: range(6),
    Api.SYNC_GROUP: range(6),
    Api.DESCRIBE_GROUPS: range(6),
    Api.LIST_GROUPS: range(6),
    Api.SASL_HANDSHAKE: range(1, 2),
    Api.API_VERSIONS: range(5),
    Api.CREATE_TOPICS: range(2, 8),
    Api.DELETE_TOPICS: range(1, 7),
    Api.DELETE_RECORDS: range(3),
    Api.INIT_PRODUCER_ID: range(6),
    Api.DESCRIBE_CONFIGS: range(5),
    Api.ALTER_CONFIGS: range(3),
    Api.SASL_AUTHENTICATE: range(3),
    Api.CREATE_PARTITIONS: range(4),
    Api.DELETE_GROUPS: range(3),
    Api.INCREMENTAL_ALTER_CONFIGS: range(2),
    Api.OFFSET_DELETE: range(1),
    Api.DESCRIBE_CLUSTER: range(2),
    Api.CONSUMER_GROUP_HEARTBEAT: range(2),
    Api.CONSUMER_GROUP_DESCRIBE: range(2),
}
"""The versions of each: up to the last that names topics, and not their ids, where records go; they
come by either, as one client reads by id alone."""

ADVERTISED_FROM = {Api.PRODUCE: 0, Api.SASL_HANDSHAKE: 0}
"""Where more is said than is served: librdkafka up to 2.8 compresses only for whom has Produce 0
(KAFKA-18659), and that of kcat logs in only where SaslHandshake 0 is told of, with 1 then. Whoever
sends them is disconnected, as Kafka 4 does it with Produce."""


class Request(NamedTuple):
    """A request as it came.

    Attributes:
        api: What is asked for.
        version: In which words.
        correlation: The client's number of it, which the answer repeats.
        client: What the client calls itself.
        body: Its fields; None if a client asks for versions in a version that nobody serves.
        host: Where the client is; empty if nobody has said.
        size: How many bytes it had.
        throttle_ms: How long its client is to wait for having sent it.
        items: How many elements its arrays have.
    """

    api: Api
    version: int
    correlation: int
    client: str
    body: SimpleNamespace | None
    host: str = ""
    size: int = 0
    throttle_ms: int = 0
    items: int = 0

    @property
    def held_bytes(self) -> int:
        """What it takes for as long as it is not answered."""
        return self.size + _ITEM_BYTES * self.items


def parse(frame: bytes) -> Request:
    """Read a request, without its size.

    Raises:
        RequestError: It is none, or none that is served: its sender is to be disconnected.
    """
    reader = RequestReader(frame, REQUEST_ITEMS_MAX)
    key, version, correlation = reader.numbers(_HEADER)
    try:
        api = Api(key)
    except ValueError as error:
        raise RequestError("api") from error
    if version not in SERVED[api]:
        if api is Api.API_VERSIONS:
            return Request(api, 0, correlation, "", None)
        raise RequestError("version")
    layout = request_layout(api, version)
    size = reader.length(_NAME_LENGTH, nullable=True)
    client = reader.octets(max(0, size)).decode("utf-8", "replace")
    if layout.flexible:
        reader.pass_tags()
    body = layout.read(reader)
    items = REQUEST_ITEMS_MAX - reader.items_left
    return Request(api, version, correlation, client, body, size=len(frame), items=items)


def request_to(api: Api, version: int, client: str, fields: Mapping[str, Any]) -> bytes:
    """Return a request, with its size, as a client sends it that asks one thing at a time."""
    layout, name = request_layout(api, version), client.encode()
    pieces = [b"", _HEADER.pack(api, version, _CORRELATION_ID), _NAME_LENGTH.pack(len(name)), name]
    if layout.flexible:
        pieces.append(b"\0")
    layout.write(pieces, fields)
    pieces[0] = _SIZE.pack(sum(map(len, pieces)))
    return b"".join(pieces)


def answered(api: Api, version: int, frame: bytes) -> SimpleNamespace:
    """Read the answer to such a request, without its size.

    Raises:
        RequestError: It is none.
    """
    reader = RequestReader(frame, REQUEST_ITEMS_MAX)
    layout = response_layout(api, version)
    if reader.numbers(_CORRELATION) != (_CORRELATION_ID,):
        raise RequestError("correlation")
    if layout.flexible and api is not Api.API_VERSIONS:
        reader.pass_tags()
    return layout.read(reader)


def answer_to(request: Request, fields: Mapping[str, Any]) -> list[bytes]:
    """Return the answer to a request, with its size, in pieces."""
    api, version, correlation, *_ = request
    layout = response_layout(api, version)
    pieces = [b"", _CORRELATION.pack(correlation)]
    # Who asks for versions does not know yet what is flexible, so that header never is.
    if layout.flexible and api is not Api.API_VERSIONS:
        pieces.append(b"\0")
    layout.write(pieces, fields)
    pieces[0] = _SIZE.pack(sum(map(len, pieces)))
    return pieces
