"""What JSON Schema describes, in Spark.

| JSON Schema | Spark |
|---|---|
| boolean, integer, number, string | BOOLEAN, BIGINT, DOUBLE, STRING |
| string of the format `date-time`, `date` | TIMESTAMP, DATE |
| array of `items`, object of `properties`, object of `additionalProperties` | ARRAY, STRUCT, MAP |
| a type or null | the type |

`$ref` within the schema is followed. All else is no column.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from dafka.errors import MisuseError

if TYPE_CHECKING:
    from dafka.serializers.registry import RegisteredSchema

_SCALARS: dict[str, DataType] = {
    "boolean": BooleanType(),
    "integer": LongType(),
    "number": DoubleType(),
    "string": StringType(),
}

_FORMATS: dict[str, DataType] = {"date-time": TimestampType(), "date": DateType()}

DEPTH_MAX = 50


def spark_type(found: RegisteredSchema) -> DataType:
    """Return the type of a column of values of a schema.

    Raises:
        MisuseError: It is none, or no column; the message says where.
    """
    try:
        schema = json.loads(found.text)
    except (ValueError, RecursionError) as error:
        raise MisuseError(f"this is no JSON Schema: {error}: {found.text[:200]}") from error
    if found.uses:
        raise MisuseError("JSON Schema: one that refers to schemas of other subjects is no column")
    return _JsonTypes(schema).of(schema, "value", 0)


class _JsonTypes:
    def __init__(self, schema: Any) -> None:  # noqa: ANN401 (JSON)
        self._schema = schema

    def of(self, schema: Any, where: str, depth: int) -> DataType:  # noqa: ANN401
        if not isinstance(schema, dict) or depth > DEPTH_MAX:
            raise MisuseError(f"JSON Schema: {where} is no column: {str(schema)[:80]}")
        if "$ref" in schema:
            return self.of(self._referred(schema["$ref"], where), where, depth + 1)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self.of(self._one_or_null(schema[word], where), where, depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self._one_or_null(kind, where)
        if kind == "object":
            return self._object(schema, where, depth)
        if kind == "array":
            return ArrayType(self.of(schema.get("items"), f"{where}[]", depth + 1))
        if kind == "string":
            return _FORMATS.get(str(schema.get("format")), StringType())
        if kind in _SCALARS:
            return _SCALARS[kind]
        raise MisuseError(f"JSON Schema: {where} is no column: {str(schema)[:80]}")

    def _object(self, schema: dict[str, Any], where: str, depth: int) -> DataType:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            return StructType(
                [
                    StructField(name, self.of(one, f"{where}.{name}", depth + 1))
                    for name, one in properties.items()
                ]
            )
        if isinstance(others, dict):
            return MapType(StringType(), self.of(others, f"{where}[]", depth + 1))
        raise MisuseError(f"JSON Schema: {where} has no properties, and so no columns")

    def _one_or_null(self, kinds: Any, where: str) -> Any:  # noqa: ANN401
        left = [one for one in kinds if one != "null" and one != {"type": "null"}]
        if len(left) != 1:
            raise MisuseError(f"JSON Schema: {where} is one of several types, and so no column")
        return left[0]

    def _referred(self, place: Any, where: str) -> Any:  # noqa: ANN401
        found = self._schema
        if not isinstance(place, str) or not place.startswith("#"):
            raise MisuseError(f"JSON Schema: {where} is at {place!r}, outside of the schema")
        for step in place[1:].strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or (name and name not in found):
                raise MisuseError(f"JSON Schema: {where} is at {place!r}, where nothing is")
            found = found[name] if name else found
        return found
