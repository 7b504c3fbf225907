"""With the serializers that Confluent ships, in a real Spark session."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException, SparkRuntimeException
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812

from dafka.errors import MisuseError
from dafka.spark.confluent import (
    from_confluent_avro,
    from_confluent_json,
    to_confluent_avro,
    to_confluent_json,
)

pytestmark = [pytest.mark.net, pytest.mark.slow]

TOPIC = SerializationContext("orders", MessageField.VALUE)
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AT = {"type": "long", "logicalType": "timestamp-millis"}


def order(*more):
    fields = [
        ("id", "long"),
        ("at", AT),
        ("price", MONEY),
        ("tags", {"type": "array", "items": "string"}),
    ]
    named = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": [*named, *more]})


NOTE = json.dumps(
    {
        "title": "Note",
        "type": "object",
        "properties": {"text": {"type": "string"}, "n": {"type": ["null", "integer"]}},
        "required": ["text"],
    }
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def client(url):
    with SchemaRegistryClient({"url": url}) as client:
        yield client


def orders(numbers):
    return [
        {"id": number, "at": NOON, "price": Decimal("1.25"), "tags": ["a", "b"][: number % 3]}
        for number in numbers
    ]


def frame(spark, values):
    return spark.createDataFrame([(value,) for value in values], "value binary").repartition(2)


def test_what_confluents_serializer_wrote_are_columns_also_while_schemas_go_on(spark, url, client):
    write = AvroSerializer(client, order())
    note = {"name": "note", "type": ["null", "string"], "default": None}
    write_more = AvroSerializer(client, order(note))
    values = [write(one, TOPIC) for one in orders(range(50))]
    values += [write_more({**one, "note": "x"}, TOPIC) for one in orders(range(50, 100))]
    column = from_confluent_avro("value", url, subject="orders-value").alias("order")
    rows = frame(spark, [*values, None]).select(column).select("order.*").collect()
    assert sorted((row.id, row.note) for row in rows if row.id is not None) == [
        (number, None if number < 50 else "x") for number in range(100)
    ]
    assert [row for row in rows if row.id is None] == [
        Row(id=None, at=None, price=None, tags=None, note=None)
    ]
    some = next(row for row in rows if row.id == 2)
    assert (some.price, some.tags) == (Decimal("1.25"), ["a", "b"])
    assert some["at"].astimezone(UTC) == NOON
    older = from_confluent_avro("value", url, schema=order()).alias("order")
    assert frame(spark, values).select(older).select("order.*").columns[-1] == "tags"


def test_confluents_deserializer_reads_what_was_written(spark, url, client):
    rows = spark.createDataFrame(
        [(number, NOON, Decimal("1.25"), ["a"]) for number in range(20)],
        "id long, at timestamp, price decimal(9,2), tags array<string>",
    )
    struct = F.struct("tags", "at", "price", F.col("id").cast("int").alias("id"))
    column = to_confluent_avro(struct, url, subject="orders-value", schema=order())
    found = rows.select(column.alias("value")).collect()
    read = AvroDeserializer(client)
    assert sorted((read(bytes(row.value), TOPIC) for row in found), key=lambda one: one["id"]) == [
        {"id": number, "at": NOON, "price": Decimal("1.25"), "tags": ["a"]} for number in range(20)
    ]
    flat = json.dumps(
        {"type": "record", "name": "Flat", "fields": [{"name": "id", "type": "long"}]}
    )
    to_confluent_avro("id", url, subject="flat-value", schema=flat)
    column = to_confluent_avro(F.struct("id"), url, subject="flat-value")
    assert len(rows.select(column.alias("value")).filter("length(value) = 6").collect()) == 20


def test_what_cannot_be_read_fails_the_query_or_is_null(spark, url, client):
    AvroSerializer(client, order())(orders([1])[0], TOPIC)
    values = frame(spark, [b"{}"])
    strict = from_confluent_avro("value", url, subject="orders-value")
    with pytest.raises(PythonException, match="begins with 7b7d, not with 00"):
        values.select(strict).collect()
    permissive = from_confluent_avro("value", url, subject="orders-value", mode="PERMISSIVE")
    assert values.select(permissive.alias("o")).collect() == [Row(o=None)]


def test_json_is_read_and_written_as_confluents_serializers_do(spark, url, client):
    write = JSONSerializer(NOTE, client, to_dict=lambda note, _: note)
    values = [write({"text": f"t{n}", "n": n or None}, TOPIC) for n in range(3)]
    column = from_confluent_json("value", url, subject="orders-value").alias("note")
    notes = frame(spark, [*values, None]).select(column)
    assert sorted(notes.select("note.*").collect(), key=lambda row: row.text or "") == [
        *(Row(text=None, n=None), Row(text="t0", n=None), Row(text="t1", n=1), Row(text="t2", n=2))
    ]
    again = notes.select(to_confluent_json("note", url, subject="orders-value").alias("value"))
    read = JSONDeserializer(NOTE, schema_registry_client=client)
    found = [read(bytes(row.value), TOPIC) for row in again.collect() if row.value is not None]
    assert sorted(one["text"] for one in found) == ["t0", "t1", "t2"]
    registered = to_confluent_json("note", url, subject="new-value", schema=NOTE)
    assert notes.select(registered).count() == 4


def test_json_that_cannot_be_read_fails_the_query_or_is_null(spark, url):
    strict = from_confluent_json("value", url, schema=NOTE)
    for octets, said in ((b"[1]", "begins with 5B315D"), (b"\0\0\0\0\1{", "[Mm]alformed")):
        with pytest.raises((SparkRuntimeException, Py4JJavaError), match=said):
            frame(spark, [octets]).select(strict).collect()
    permissive = from_confluent_json("value", url, schema=NOTE, mode="PERMISSIVE").alias("n")
    rows = frame(spark, [b"[1]", b"\0\0\0\0\1{"]).select(permissive).collect()
    assert [row.n and row.n.text for row in rows] == [None, None]


def test_what_does_not_fit_together_is_refused_before_anything_runs(url, client):
    JSONSerializer(NOTE, client)({"text": "a"}, TOPIC)
    with pytest.raises(MisuseError, match="either a subject or a schema"):
        from_confluent_avro("value", url)
    with pytest.raises(MisuseError, match="FAILFAST or PERMISSIVE, not 'DROPMALFORMED'"):
        from_confluent_avro("value", url, schema="{}", mode="DROPMALFORMED")
    with pytest.raises(MisuseError, match="is of JSON, not AVRO"):
        from_confluent_avro("value", url, subject="orders-value")
    with pytest.raises(MisuseError, match="404"):
        to_confluent_json("value", url, subject="nothing")
