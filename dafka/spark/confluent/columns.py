"""Functions for DataFrames: values with schemas of a registry, from and to columns."""

from __future__ import annotations

import pyarrow as pa  # noqa: TC002 (Spark looks at the types of what it is given)
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)
from pyspark.sql.pandas.types import from_arrow_type

from dafka.errors import MisuseError
from dafka.serializers.framing import HEAD_BYTES, head_of, written_with
from dafka.serializers.registry import RegisteredSchema, SchemaRegistry
from dafka.spark.confluent.avro_codec import decoded, encoded
from dafka.spark.confluent.avro_types import arrow_of
from dafka.spark.confluent.avro_values import schema_of
from dafka.spark.confluent.json_types import spark_type

MODES = ("FAILFAST", "PERMISSIVE")


def from_confluent_avro(
    column: Column | str,
    registry: SchemaRegistry | str,
    *,
    subject: str | None = None,
    schema: str | None = None,
    mode: str = "FAILFAST",
) -> Column:
    """Read values that Confluent's Avro serializers wrote.

    Each value is read with the schema it was written with, and resolved to one: `schema`, or the
    latest of `subject` as the query begins: its columns stay as they are while schemas go on.

    Args:
        column: Of binaries, such as `value`.
        registry: Its URLs with commas, or a `SchemaRegistry`.
        subject: Mostly the topic's name and `-value`.
        schema: An Avro schema as JSON, instead.
        mode: FAILFAST: a value that cannot be read fails the query. PERMISSIVE: it is null.

    Raises:
        MisuseError: There is no such schema, or it is no column.
        QueryError: The registry does not answer.
    """
    asked, permissive = SchemaRegistry.at(registry), _permissive(mode)
    reader = _wanted(asked, subject, schema, "AVRO")
    kind = from_arrow_type(arrow_of(schema_of(reader.text, reader.uses).kind), True)

    def decode(values: pa.Array) -> pa.Array:
        return decoded(values, asked.by_id, reader, permissive=permissive)

    read: Column = F.arrow_udf(decode, kind)(column)  # type: ignore[attr-defined]
    return read


def to_confluent_avro(
    column: Column | str,
    registry: SchemaRegistry | str,
    *,
    subject: str,
    schema: str | None = None,
) -> Column:
    """Write a column as Confluent's Avro serializers do. A null stays null.

    Args:
        column: Mostly a struct; fields have the schema's names, in any order, and those with a
            default may be missing.
        registry: Its URLs with commas, or a `SchemaRegistry`.
        subject: Mostly the topic's name and `-value`.
        schema: An Avro schema as JSON: it is registered there, if it is not. Without it, the latest
            of the subject.

    Raises:
        MisuseError: There is no such schema, or the registry refuses it, or it is no column.
        QueryError: The registry does not answer.
    """
    if schema is not None:
        schema_of(schema)  # before it is registered
    found = written_with(SchemaRegistry.at(registry), subject, schema, "AVRO")
    schema_of(found.text, found.uses)

    def encode(values: pa.Array) -> pa.Array:
        return encoded(values, found)

    written: Column = F.arrow_udf(encode, "binary")(column)  # type: ignore[attr-defined]
    return written


def from_confluent_json(
    column: Column | str,
    registry: SchemaRegistry | str,
    *,
    subject: str | None = None,
    schema: str | None = None,
    mode: str = "FAILFAST",
) -> Column:
    """Read values that Confluent's JSON Schema serializers wrote.

    The columns are those of one schema, whatever a value was written with: JSON names its fields.

    Args:
        column: Of binaries, such as `value`.
        registry: Its URLs with commas, or a `SchemaRegistry`.
        subject: Mostly the topic's name and `-value`.
        schema: A JSON Schema, instead.
        mode: FAILFAST: a value that cannot be read fails the query. PERMISSIVE: it is null.

    Raises:
        MisuseError: There is no such schema, or it is no column.
        QueryError: The registry does not answer.
    """
    permissive = _permissive(mode)
    kind = spark_type(_wanted(SchemaRegistry.at(registry), subject, schema, "JSON"))
    value = F.col(column) if isinstance(column, str) else column
    text = F.substring(value, HEAD_BYTES + 1, 1 << 30).cast("string")
    parsed = F.from_json(text, kind.json(), {"mode": mode})
    framed = (F.length(value) > HEAD_BYTES) & (F.substring(value, 1, 1) == F.lit(b"\0"))
    other = F.lit(None)
    if not permissive:
        said = "a value begins with %s, not with 00 and the id of a schema"
        other = F.raise_error(F.format_string(said, F.hex(F.substring(value, 1, 8))))
    return F.when(framed, parsed).when(value.isNotNull(), other)


def to_confluent_json(
    column: Column | str,
    registry: SchemaRegistry | str,
    *,
    subject: str,
    schema: str | None = None,
) -> Column:
    """Write a column as Confluent's JSON Schema serializers do. A null stays null.

    Args:
        column: Mostly a struct.
        registry: Its URLs with commas, or a `SchemaRegistry`.
        subject: Mostly the topic's name and `-value`.
        schema: A JSON Schema: it is registered there, if it is not. Without it, the latest of the
            subject.

    Raises:
        MisuseError: There is no such schema, or the registry refuses it.
        QueryError: The registry does not answer.
    """
    found = written_with(SchemaRegistry.at(registry), subject, schema, "JSON")
    value = F.col(column) if isinstance(column, str) else column
    text = F.encode(F.to_json(value), "UTF-8")
    return F.when(value.isNotNull(), F.concat(F.lit(head_of(found.id)), text))


def _permissive(mode: str) -> bool:
    if mode not in MODES:
        raise MisuseError(f"mode is {' or '.join(MODES)}, not {mode!r}")
    return mode == "PERMISSIVE"


def _wanted(
    registry: SchemaRegistry, subject: str | None, schema: str | None, language: str
) -> RegisteredSchema:
    if (subject is None) == (schema is None):
        raise MisuseError("either a subject or a schema says what the column is like")
    if subject is None:
        return RegisteredSchema(0, language, schema or "", ())
    return written_with(registry, subject, None, language)
