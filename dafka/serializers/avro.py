"""Values of Avro schemas, by fastavro: what the Avro specification calls their Python types."""

from __future__ import annotations

import io
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fastavro import schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from dafka.errors import MisuseError
from dafka.serializers.framing import head_of, taken_apart, written_with
from dafka.serializers.registry import REMEMBERED, RegisteredSchema, SchemaRegistry

if TYPE_CHECKING:
    from collections.abc import Sequence


class AvroSerializer:
    """Writes values with an Avro schema of a subject. Called with a value, it returns octets.

    A record is a dict that has every field without a default, and no others; dates, times, decimals
    and UUIDs are Python's.

    Args:
        registry: Its URLs with commas, or a `SchemaRegistry`.
        subject: Mostly the topic's name and `-value`.
        schema: As JSON: it is registered there, if it is not. Without it, the latest of the
            subject.

    Raises:
        MisuseError: There is no such schema, or the registry refuses it.
        QueryError: The registry does not answer.
    """

    def __init__(
        self, registry: str | SchemaRegistry, subject: str, schema: str | None = None
    ) -> None:
        found = written_with(SchemaRegistry.at(registry), subject, schema, "AVRO")
        self._schema = _parsed(found)
        self._head = head_of(found.id)

    def __call__(self, value: Any) -> bytes:  # noqa: ANN401 (what the schema describes)
        """Return a value as octets; what fastavro raises says what does not fit."""
        into = io.BytesIO(self._head)
        into.seek(0, io.SEEK_END)
        schemaless_writer(into, self._schema, value, strict_allow_default=True)
        return into.getvalue()


class AvroDeserializer:
    """Reads values of Avro schemas, each with the one it was written with.

    The registry is asked once for each schema, and waited for.

    Args:
        registry: Its URLs with commas, or a `SchemaRegistry`.
        schema: Values are resolved to this one, as JSON; without it each is as it was written.

    Raises:
        MisuseError: Registry or schema is none.
    """

    def __init__(self, registry: str | SchemaRegistry, schema: str | None = None) -> None:
        self._registry = SchemaRegistry.at(registry)
        self._reader = None
        if schema is not None:
            self._reader = _parsed(RegisteredSchema(0, "AVRO", schema, ()))

    def __call__(self, octets: bytes) -> Any:  # noqa: ANN401 (what the schema describes)
        """Return the value that octets stand for.

        Raises:
            ValueError: They do not begin as such a value does.
            MisuseError, QueryError: There is no such schema, or the registry does not answer.
        """
        id_, rest = taken_apart(octets)
        writer = _parsed(self._registry.by_id(id_))
        return schemaless_reader(io.BytesIO(rest), writer, self._reader)


@lru_cache(REMEMBERED)
def _parsed(schema: RegisteredSchema) -> Any:  # noqa: ANN401 (as fastavro has it)
    """A schema as fastavro has it.

    Raises:
        MisuseError: It is none.
    """
    if schema.language != "AVRO":
        raise MisuseError(f"schema {schema.id} is {schema.language}, not AVRO")
    named: dict[str, Any] = {}
    texts: Sequence[str] = (*schema.uses, schema.text)
    try:
        return [parse_schema(json.loads(text), named_schemas=named) for text in texts][-1]
    except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError) as error:
        raise MisuseError(f"this is no Avro schema: {error!r}: {schema.text[:200]}") from error
