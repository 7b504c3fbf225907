"""Values of JSON schemas: what `json` makes of them."""

from __future__ import annotations

import json
from typing import Any

from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft7Validator, validator_for

from dafka.errors import MisuseError
from dafka.serializers.framing import head_of, taken_apart, written_with
from dafka.serializers.registry import SchemaRegistry


class JsonSchemaSerializer:
    """Writes values that a JSON Schema of a subject admits. Called with one, it returns octets.

    Args:
        registry: Its URLs with commas, or a `SchemaRegistry`.
        subject: Mostly the topic's name and `-value`.
        schema: As JSON: it is registered there, if it is not. Without it, the latest of the
            subject.

    Raises:
        MisuseError: There is no such schema, the registry refuses it, or it refers to others.
        QueryError: The registry does not answer.
    """

    def __init__(
        self, registry: str | SchemaRegistry, subject: str, schema: str | None = None
    ) -> None:
        found = written_with(SchemaRegistry.at(registry), subject, schema, "JSON")
        if found.uses:
            raise MisuseError(
                f"schema {found.id} of subject {subject!r} refers to other schemas, which is not "
                "served here: register one that contains them"
            )
        try:
            contents = json.loads(found.text)
            kind = validator_for(contents, Draft7Validator)
            kind.check_schema(contents)
        except (ValueError, SchemaError) as error:
            raise MisuseError(f"this is no JSON Schema: {error}") from error
        self._validator = kind(contents)
        self._head = head_of(found.id)

    def __call__(self, value: Any) -> bytes:  # noqa: ANN401 (what the schema describes)
        """Return a value as octets.

        Raises:
            jsonschema.ValidationError: The schema does not admit it.
        """
        self._validator.validate(value)
        return self._head + json.dumps(value, separators=(",", ":")).encode()


class JsonSchemaDeserializer:
    """Reads values that carry the id of a JSON Schema; JSON needs no registry for that."""

    def __call__(self, octets: bytes) -> Any:  # noqa: ANN401 (JSON)
        """Return the value that octets stand for.

        Raises:
            ValueError: They stand for none.
        """
        _, rest = taken_apart(octets)
        return json.loads(bytes(rest))
