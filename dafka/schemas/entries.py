"""The records of the topic `_schemas`.

A record's key says what it is about, its value what holds from now on and since when: the *stamp*.
For each key the highest stamp wins, so what the records add up to does not depend on the order in
which they are read, and a record that is written twice is written once. Keys and values are
JSON objects; a key's `keytype` is one of these:

    SCHEMA, id                     schema, type, references; of Protobuf what it is compiled to
    VERSION, subject, version      id, deleted
    CONFIG, subject or null        level
    MODE, subject or null          mode
    PRIMARY                        cluster, writer

Every value also has `"stamp": [epoch, number]`; one with nothing else says that the key is gone.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from typing import NamedTuple

TOPIC = "_schemas"

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"


class Stamp(NamedTuple):
    """When something was decided: by the `number`-th decision of the writer of `epoch`."""

    epoch: int
    number: int


class Reference(NamedTuple):
    """What a schema uses of another: `name` in its text is this version of this subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaKey:
    """A schema, by its id."""

    id: int


@dataclass(frozen=True, slots=True)
class VersionKey:
    """One version of a subject, from 1."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The compatibility level of a subject, or of all that have none.

    No tuple, like the other keys: a tuple equals one of another kind, and all are in one mapping.
    """

    subject: str | None


@dataclass(frozen=True, slots=True)
class ModeKey:
    """The mode of a subject, or of all that have none."""

    subject: str | None


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """Which registry decides."""


Key = SchemaKey | VersionKey | ConfigKey | ModeKey | PrimaryKey


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema: its language, its text as it was registered, and what it uses.

    Attributes:
        compiled: Of Protobuf the descriptor, in base64: whoever reads the text needs a compiler.
    """

    language: str
    text: str
    references: tuple[Reference, ...] = ()
    compiled: str = ""

    @property
    def content(self) -> str:
        """What schemas are compared by."""
        return self.compiled or self.text

    def identity(self) -> tuple[str, str, tuple[Reference, ...]]:
        """What is the same for schemas that differ in white space and the order of keys only.

        And in the order of references, in how a type of Avro's is written that has nothing but its
        name, and in whatever a compiler of Protobuf leaves out.
        """
        references = tuple(sorted(set(self.references)))
        if self.compiled:
            return self.language, self.compiled, references
        parsed = json.loads(self.text)
        if self.language == AVRO:
            parsed = _plain(parsed)
        return self.language, json.dumps(parsed, sort_keys=True), references


_UNNAMED = (
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
    *("array", "map"),
)
_NAMING = {"name", "namespace", "aliases", "doc"}
"""What types that cannot have a name may carry all the same; it means nothing."""


def _plain(avro: object) -> object:
    """A schema of Avro's in which each type that has nothing but a name is that name."""
    if isinstance(avro, list):
        return [_plain(branch) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    plain = {**avro}
    for key in ("type", "items", "values"):
        if key in plain:
            plain[key] = _plain(plain[key])
    fields = plain.get("fields")
    if isinstance(fields, list):
        # A field is no type, though it has one.
        plain["fields"] = [
            {**field, "type": _plain(field["type"])}
            if isinstance(field, dict) and "type" in field
            else field
            for field in fields
        ]
    if plain.get("type") in _UNNAMED:
        plain = {key: said for key, said in plain.items() if key not in _NAMING}
    return plain["type"] if plain.keys() == {"type"} else plain


class Version(NamedTuple):
    """What a version of a subject is: a schema, perhaps deleted softly."""

    id: int
    deleted: bool = False


class Primary(NamedTuple):
    """Who decides: the registry of a cluster, there the process with this address."""

    cluster: str
    writer: str


Value = Schema | Version | Primary | str
"""A plain text is a compatibility level or a mode."""


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """One record: `value` holds for `key` since `stamp`; None means the key is gone."""

    key: Key
    stamp: Stamp
    value: Value | None

    def rank(self) -> tuple[Stamp, bytes]:
        """Of two entries for a key the one with the higher rank wins, whoever reads them."""
        return self.stamp, encode(self)[1]


def encode(entry: SchemaEntry) -> tuple[bytes, bytes]:
    """Return a record's key and value."""
    key: dict[str, object] = {"keytype": _KEYTYPES[type(entry.key)], **asdict(entry.key)}
    value: dict[str, object] = {"stamp": entry.stamp}
    match entry.value:
        case Schema(language, text, references, compiled):
            value |= {"type": language, "schema": text}
            value["references"] = [reference._asdict() for reference in references]
            if compiled:
                value["compiled"] = compiled
        case Version() | Primary() as named:
            value |= named._asdict()
        case str(word):
            value["level" if isinstance(entry.key, ConfigKey) else "mode"] = word
        case None:
            pass  # the stamp alone says that the key is gone
    return json.dumps(key).encode(), json.dumps(value).encode()


def decode(key: bytes | None, value: bytes | None) -> SchemaEntry:
    """Return the entry of a record.

    Raises:
        ValueError: It is none.
    """
    try:
        about = json.loads(key or b"")
        says = json.loads(value or b"")
        epoch, number = says.pop("stamp")
        stamp = Stamp(_whole(epoch), _whole(number))
        decoded_key = _key(about)
        return SchemaEntry(decoded_key, stamp, _value(decoded_key, says) if says else None)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a record of {TOPIC}: {error!r}") from error


def _key(about: dict[str, object]) -> Key:
    match about["keytype"]:
        case "SCHEMA":
            return SchemaKey(_whole(about["id"]))
        case "VERSION":
            return VersionKey(_text(about["subject"]), _whole(about["version"]))
        case "CONFIG":
            return ConfigKey(None if about["subject"] is None else _text(about["subject"]))
        case "MODE":
            return ModeKey(None if about["subject"] is None else _text(about["subject"]))
        case "PRIMARY":
            return PrimaryKey()
        case other:
            raise ValueError(f"not a record of {TOPIC}: keytype {other!r}")


def _value(key: Key, says: dict[str, object]) -> Value:
    match key:
        case SchemaKey():
            return _schema(_text(says["type"]), _text(says["schema"]), says)
        case VersionKey():
            return Version(_whole(says["id"]), bool(says["deleted"]))
        case ConfigKey():
            return _text(says["level"])
        case ModeKey():
            return _text(says["mode"])
        case PrimaryKey():
            return Primary(_text(says["cluster"]), _text(says["writer"]))


def _schema(language: str, text: str, says: dict[str, object]) -> Schema:
    compiled = ""
    if language == PROTOBUF:
        compiled = _text(says["compiled"])
        base64.b64decode(compiled, validate=True)
    else:
        json.loads(text)
    references = says["references"]
    if not isinstance(references, list):
        raise TypeError(references)
    return Schema(language, text, tuple(reference_of(one) for one in references), compiled)


def reference_of(says: object) -> Reference:
    """Return a reference from its JSON.

    Raises:
        TypeError: It is none.
        KeyError: It misses a key.
    """
    if not isinstance(says, dict):
        raise TypeError(f"{says!r} is not a reference")
    return Reference(_text(says["name"]), _text(says["subject"]), _whole(says["version"]))


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    value.encode()  # JSON can spell half a character, which no answer could carry
    return value


_KEYTYPES: dict[type[Key], str] = {
    SchemaKey: "SCHEMA",
    VersionKey: "VERSION",
    ConfigKey: "CONFIG",
    ModeKey: "MODE",
    PrimaryKey: "PRIMARY",
}
