"""What columns a source and a sink of Spark have; `dafka.arrow.columns` fills those of a source."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from dafka.errors import MisuseError

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
"""As Spark's Kafka source has them."""

TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": StringType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
    "copy_flags": LongType(),
    "origin": IntegerType(),
    "epoch": IntegerType(),
}
"""Every column there is. The first ones stand in the order of Spark's Kafka source."""

ASKED_FOR = ("headers", "epoch")
"""Those that are there only where somebody asks for them."""


def all_columns(*, headers: bool) -> StructType:
    """The schema of a source: every column but those that are asked for, as headers may be."""
    left_out = {*ASKED_FOR} - ({"headers"} if headers else set())
    return StructType([StructField(name, TYPES[name]) for name in TYPES if name not in left_out])


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns of a schema the user has chosen.

    Raises:
        MisuseError: There is none, or one is not a column of ours, or not of its type.
    """
    if not schema.fields:
        raise MisuseError("at least one column is needed")
    for field in schema.fields:
        kind = TYPES.get(field.name)
        if kind is None:
            raise MisuseError(
                f"there is no column {field.name!r}: there are {', '.join(map(repr, TYPES))}"
            )
        if field.dataType != kind:
            raise MisuseError(
                f"column {field.name!r} is of type {kind.simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )
    return tuple(schema.fieldNames())


WRITABLE: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "headers": (HEADERS,),
    "timestamp": (TimestampType(),),
}
"""What a row to be written may have, and of which type."""


def check_rows(schema: StructType, *, topic: str | None) -> None:
    """Check the columns of rows that are to be written. Others are left out, as Kafka's sink does.

    Raises:
        MisuseError: One is of a type that cannot be written, or one that is needed is missing.
    """
    for field in schema.fields:
        kinds = WRITABLE.get(field.name)
        if kinds is None:
            continue
        if field.dataType.simpleString() not in {kind.simpleString() for kind in kinds}:
            raise MisuseError(
                f"column {field.name!r} must be "
                f"{' or '.join(kind.simpleString() for kind in kinds)}, "
                f"not {field.dataType.simpleString()}"
            )
    if "value" not in schema.fieldNames():
        raise MisuseError("a column 'value' is needed")
    if topic is None and "topic" not in schema.fieldNames():
        raise MisuseError("a column 'topic' or the option 'topic' is needed")
