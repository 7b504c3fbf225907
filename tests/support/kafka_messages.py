"""Kafka's messages as kio has them: a second opinion on what ours reads and writes."""

from __future__ import annotations

import io
import struct
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType, SimpleNamespace
from typing import get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from dafka.gateway.layout import request_schema, response_schema
from dafka.gateway.wire import SERVED, Api, parse
from dafka.records.batch import BatchBuilder
from dafka.records.compression import Codec
from dafka.records.header import CRC, CRC_AT, HEADER, checksum, header_of

EVERY_VERSION = [(api, version) for api, versions in SERVED.items() for version in versions]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written(entity):
    with io.BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def request_header(api, version, flexible, correlation=7, client="me"):
    name = client.encode()
    header = struct.pack(">hhih", api, version, correlation, len(name)) + name
    return header + (b"\0" if flexible else b"")


def request(api, version, **values):
    """The frame of a request, without its size; what is not given is as kio has it."""
    schema = request_schema(api, version)
    return request_header(api, version, schema.__flexible__) + written(entity_of(schema, values))


def entity_of(schema, values):
    """A kio entity from plain values; what the version does not have is left out."""
    found = {}
    for field in fields(schema):
        inner = inner_of(field.type)
        kind = field.metadata.get("kafka_type")
        name = named(field)
        if name in values:
            value = values[name]
            if is_dataclass(inner) and isinstance(value, list | tuple):
                value = tuple(entity_of(inner, one) for one in value)
            elif kind in ("timedelta_i32", "timedelta_i64"):
                value = timedelta(milliseconds=value)
            elif isinstance(value, list):
                value = tuple(value)
            found[field.name] = value
        elif field.default is not field.default_factory:  # neither is there
            continue
        else:
            found[field.name] = blank(field)
    return schema(**found)


def blank(field):
    if NoneType in get_args(field.type):
        return None
    if get_origin(field.type) is tuple:
        return ()
    kind = field.metadata.get("kafka_type")
    if kind in ("timedelta_i32", "timedelta_i64"):
        return timedelta(0)
    return {"bool": False, "string": "", "bytes": b""}.get(kind, 0)


def answered(pieces, api, version):
    """What kio reads of an answer: correlation id and fields; all of it has to be read."""
    octets = b"".join(pieces)
    (size,) = struct.unpack_from(">i", octets)
    assert size == len(octets) - 4
    schema = response_schema(api, version)
    at = 8
    if schema.__flexible__ and api is not Api.API_VERSIONS:
        assert octets[at] == 0
        at += 1
    entity, read = entity_reader(schema)(octets, at)
    assert at + read == len(octets)
    return struct.unpack_from(">i", octets, 4)[0], plain(entity)


def named(field):
    times = ("timedelta_i32", "timedelta_i64", "datetime_i64")
    return f"{field.name}_ms" if field.metadata.get("kafka_type") in times else field.name


def inner_of(annotation):
    """What an annotation has in it, without null and array."""
    arguments = [one for one in get_args(annotation) if one not in (NoneType, ...)]
    return inner_of(arguments[0]) if arguments else annotation


def plain(value):
    """An entity as ours are: a namespace, times as numbers."""
    if is_dataclass(value):
        return SimpleNamespace(
            **{
                named(field): as_field(field, getattr(value, field.name))
                for field in fields(value)
                if "tag" not in field.metadata
            }
        )
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, datetime):
        return round((value - EPOCH) / timedelta(milliseconds=1))
    return int(value) if isinstance(value, KioErrorCode) else value


def as_field(field, value):
    if value is None and field.metadata.get("kafka_type") == "uuid":
        return UUID(int=0)
    if value is None and field.metadata.get("kafka_type") == "datetime_i64":
        return -1
    return plain(value)


def some(schema, chance):
    """An entity of any values; tagged fields are sometimes there."""
    return schema(
        **{
            field.name: some_value(field.type, field.metadata.get("kafka_type"), chance)
            for field in fields(schema)
            if "tag" not in field.metadata or (chance.random() < 0.3 and field.default is not None)
        }
    )


def requests(chance, each):
    """Frames of requests of every version, of any values."""
    for api, version in EVERY_VERSION:
        schema = request_schema(api, version)
        header = request_header(api, version, schema.__flexible__)
        yield from (header + written(some(schema, chance)) for _ in range(each))


def some_value(annotation, kind, chance):
    arguments = get_args(annotation)
    if NoneType in arguments:
        if chance.random() < 0.3:
            return None
        (annotation,) = (one for one in arguments if one is not NoneType)
    if get_origin(annotation) is tuple:
        element = get_args(annotation)[0]
        return tuple(some_value(element, kind, chance) for _ in range(chance.choice((0, 1, 3))))
    if is_dataclass(annotation):
        return some(annotation, chance)
    return SOME[kind](chance)


def some_number(bits):
    return lambda chance: chance.choice((-(2**bits), -1, 0, 1, 2**bits - 1))


def some_time(chance):
    return timedelta(milliseconds=chance.randrange(2**31))


SOME = {
    **{f"int{bits + 1}": some_number(bits) for bits in (7, 15, 31, 63)},
    "bool": lambda chance: chance.random() < 0.5,
    "string": lambda chance: chance.choice(("", "orders", "ä" * 200)),
    "records": lambda chance: chance.randbytes(chance.choice((0, 1, 300))),
    "bytes": lambda chance: chance.randbytes(chance.choice((0, 1, 300))),
    "uuid": lambda chance: UUID(int=chance.getrandbits(128) | 1),
    "error_code": lambda chance: chance.choice(list(KioErrorCode)),
    "datetime_i64": lambda chance: EPOCH + some_time(chance),
    "timedelta_i32": some_time,
    "timedelta_i64": some_time,
}


async def ask(handlers, api, version, **values):
    """What handlers answer to a request, as kio reads it; None if there is no answer."""
    pieces = await handlers.answer(parse(request(api, version, **values)))
    return None if pieces is None else answered(pieces, api, version)[1]


def client_batch(values=(b"a", b"b", b"c"), producer=None, codec=Codec.NONE, **fields):
    """A batch as a client sends it; other fields of its header, under a checksum that says so."""
    builder = BatchBuilder(1 << 24, codec=codec)
    for number, value in enumerate(values):
        assert builder.append(1_000 + number, b"key", value, ())
    built = bytes(builder.build())
    if producer is not None:
        fields |= dict(
            zip(("producer_id", "producer_epoch", "base_sequence"), producer, strict=True)
        )
    header = header_of(built)._replace(**fields)
    octets = bytearray(HEADER.pack(*header) + built[HEADER.size :])
    CRC.pack_into(octets, CRC_AT, checksum(octets))
    return bytes(octets)


def producing(batch, topic="orders", partition=0, acks=-1, timeout_ms=5_000):
    """A Produce request's fields."""
    sent = {"index": partition, "records": batch}
    return {
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [{"name": topic, "partition_data": [sent]}],
    }


def fetching(*wanted, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, **others):
    """A Fetch request's fields; wanted are topics, partitions and offsets."""
    return {
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
                    | others
                ],
            }
            for topic, number, offset in wanted
        ],
    }
