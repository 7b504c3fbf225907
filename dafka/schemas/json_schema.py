"""JSON Schema: the only importer of jsonschema and of referencing.

Whether one schema admits everything another admits cannot be decided in general. What is decided
here is safe: what cannot be shown counts as an obstacle, and `NONE` as level lets it pass.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from referencing._core import Resolver

Uses = tuple[tuple[str, str], ...]

_Json = Any
"""What JSON holds; a schema that has been checked has the shape it should have."""

_ROOT = "urn:dafka:schema"

_SAY_NOTHING = {
    *("$schema", "$id", "id", "$comment", "$anchor", "$defs", "definitions", "title"),
    *("description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
}
"""Keywords that admit and refuse nothing."""

_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_COMPARED = {
    *("type", "enum", "const", "required", "properties", "additionalProperties", "items"),
    *("anyOf", "allOf", "$ref"),
    *_AT_MOST,
    *_AT_LEAST,
}
"""Keywords with rules of their own below; any other must be the same in both."""

_TYPES = {"array", "boolean", "integer", "null", "number", "object", "string"}


def check(text: str, uses: Uses) -> None:
    """Check a schema.

    Args:
        text: JSON.
        uses: What it refers to.

    Raises:
        ValueError: It is none, or refers to what is not there; the message says why.
    """
    try:
        for source in (*(used for _, used in uses), text):
            contents = json.loads(source)
            validator_for(contents, Draft7Validator).check_schema(contents)
        resolver = _resolver(text, uses)
        for reference in _references(json.loads(text)):
            resolver.lookup(reference)
    except SchemaError as error:
        raise ValueError(f"{error.message} at {error.json_path}") from error
    except Unresolvable as error:
        raise ValueError(f"$ref {error.ref!r} leads nowhere") from error
    except RecursionError as error:
        raise ValueError("schema is nested too deeply") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"schema is malformed: {error!r}") from error


def obstacles(reader: tuple[str, Uses], writer: tuple[str, Uses]) -> Sequence[str]:
    """Why a document that one schema admits may be refused by another; empty if it is not."""
    comparison = _Comparison(_resolver(*reader), _resolver(*writer))
    return list(comparison.gaps(json.loads(reader[0]), json.loads(writer[0]), "$"))


def _resolver(text: str, uses: Uses) -> Resolver[Any]:
    registry: Registry[Any] = Registry()
    for name, source in (*uses, (_ROOT, text)):
        contents = json.loads(source)
        resource = Resource.from_contents(contents, default_specification=DRAFT7)
        registry = registry.with_resource(name, resource)
    return registry.crawl().resolver(_ROOT)


def _references(contents: object) -> Iterator[str]:
    if isinstance(contents, dict):
        if isinstance(contents.get("$ref"), str):
            yield contents["$ref"]
        contents = list(contents.values())
    if isinstance(contents, list):
        for part in contents:
            yield from _references(part)


class _Comparison:
    """One schema, the reader's, held against another, the writer's."""

    def __init__(
        self,
        reader: Resolver[Any],
        writer: Resolver[Any],
        begun: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._begun = set(begun)
        """Pairs under way: a schema that contains itself is compared once."""

    def gaps(self, reader: _Json, writer: _Json, path: str) -> Iterator[str]:
        """Yield what the writer may write at `path` and the reader does not take."""
        reader, writer = self._at(self._reader, reader), self._at(self._writer, writer)
        if reader is True or reader == {} or writer is False:
            return
        if reader is False:
            yield f"nothing is admitted at {path}"
            return
        pair = json.dumps(reader, sort_keys=True), json.dumps(writer, sort_keys=True)
        if pair in self._begun:
            return
        self._begun.add(pair)
        writer = {} if writer is True else writer
        branches = writer.get("anyOf") or writer.get("oneOf")
        if branches and {"anyOf", "oneOf"}.isdisjoint(reader):
            for branch in branches:
                yield from self.gaps(reader, self._branch(writer, branch), path)
            return
        yield from _narrower(reader, writer, path)
        yield from self._properties(reader, writer, path)
        yield from self._combined(reader, writer, path)
        yield from self._items(reader, writer, path)

    def _branch(self, writer: _Json, branch: _Json) -> _Json:
        """One choice of a writer, with what stands beside the choices."""
        branch = self._at(self._writer, branch)
        if not isinstance(branch, dict):
            return branch
        beside = {key: it for key, it in writer.items() if key not in ("anyOf", "oneOf")}
        return {**beside, **branch}

    def _items(self, reader: _Json, writer: _Json, path: str) -> Iterator[str]:
        if "items" in reader and isinstance(reader["items"], dict | bool):
            items = writer.get("items", True)
            items = True if isinstance(items, list) else items
            yield from self.gaps(reader["items"], items, f"{path}[]")
        elif reader.get("items") != writer.get("items") and "items" in reader:
            yield f"items differ at {path}"

    def _properties(self, reader: _Json, writer: _Json, path: str) -> Iterator[str]:
        reads, writes = reader.get("properties", {}), writer.get("properties", {})
        others_read = reader.get("additionalProperties", True)
        others_written = writer.get("additionalProperties", True)
        for name in sorted({*reads, *writes}):
            read, written = reads.get(name, others_read), writes.get(name, others_written)
            yield from self.gaps(read, written, f"{path}.{name}")
        yield from self.gaps(others_read, others_written, f"{path}.*")
        for name in reader.get("required", ()):
            read = reads.get(name)
            has_default = isinstance(read, dict) and "default" in read
            if name not in writer.get("required", ()) and not has_default:
                yield f"property {name!r} is required at {path} and has no default"

    def _combined(self, reader: _Json, writer: _Json, path: str) -> Iterator[str]:
        for part in reader.get("allOf", ()):
            yield from self.gaps(part, writer, path)
        choices = reader.get("anyOf")
        if choices is None:
            return
        for written in writer.get("anyOf") or writer.get("oneOf") or [writer]:
            if all(list(self._apart().gaps(choice, written, path)) for choice in choices):
                yield f"no choice of anyOf takes it at {path}"

    def _apart(self) -> _Comparison:
        """A comparison that may fail without this one taking its pairs for done."""
        return _Comparison(self._reader, self._writer, self._begun)

    @staticmethod
    def _at(resolver: Resolver[Any], schema: _Json) -> _Json:
        """What a reference leads to; what stands beside it is not looked at in Draft 7."""
        seen: set[str] = set()
        while isinstance(schema, dict) and "$ref" in schema and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            schema = resolver.lookup(schema["$ref"]).contents
        return schema


def _narrower(reader: _Json, writer: _Json, path: str) -> Iterator[str]:
    """Yield the plain keywords by which the reader takes less than the writer writes."""
    read, written = _types(reader), _types(writer)
    if not written <= read:
        yield f"type {', '.join(sorted(written - read))} is not taken at {path}"
    values = _values(reader)
    if values is not None:
        given = _values(writer)
        if given is None or any(value not in values for value in given):
            yield f"values beside {values} may come at {path}"
    for keyword in (*_AT_MOST, *_AT_LEAST):
        bound, given = reader.get(keyword), writer.get(keyword)
        looser = bound is not None and (
            given is None or (given > bound if keyword in _AT_MOST else given < bound)
        )
        if looser:
            yield f"{keyword} {bound} is narrower at {path}"
    for keyword in sorted(reader.keys() - _COMPARED - _SAY_NOTHING):
        # Equal references may lead to what is not equal.
        if reader[keyword] != writer.get(keyword) or any(_references(reader[keyword])):
            yield f"{keyword} differs at {path}, or refers to what may"


def _types(schema: _Json) -> set[str]:
    """The types a schema admits; every integer is a number."""
    named = schema.get("type")
    if named is None:
        return _TYPES
    types = {named} if isinstance(named, str) else set(named)
    return types | {"integer"} if "number" in types else types


def _values(schema: _Json) -> list[object] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None
