"""Entries of one registry in the spelling of another. No IO."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dafka.limits import SUBJECT_BYTES_MAX
from dafka.schemas.entries import ConfigKey, Key, ModeKey, Schema, SchemaEntry, VersionKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.formats import NameFormat


class UntranslatableError(ValueError):
    """A subject has no name at the other cluster.

    Attributes:
        reason: One word for it, as metrics count it.
    """

    def __init__(self, reason: str, subject: str) -> None:
        super().__init__(f"{subject!r}: {reason}")
        self.reason = reason


class Translation:
    """From one cluster's spelling to another's.

    Args:
        source: The format there.
        target: The format here.
        fields: Those that have one value in all names.
    """

    def __init__(self, source: NameFormat, target: NameFormat, fields: Mapping[str, str]) -> None:
        self._source = source
        self._target = target
        self._fields = fields

    def subject(self, name: str) -> str:
        """Return a subject's name at the target.

        Raises:
            UntranslatableError: `spelling`, the source's format does not fit it; `fields`, it
                belongs to somebody else; `length`, it would be too long.
        """
        values = self._source.split(name)
        if values is None:
            raise UntranslatableError("spelling", name)
        if any(values.get(field, value) != value for field, value in self._fields.items()):
            raise UntranslatableError("fields", name)
        translated = self._target.join({**self._fields, **values})
        if len(translated.encode(errors="replace")) > SUBJECT_BYTES_MAX:
            raise UntranslatableError("length", name)
        return translated

    def entry(self, entry: SchemaEntry) -> SchemaEntry:
        """Return an entry as the target writes it, decided at the same time.

        Raises:
            UntranslatableError: As for `subject`, also because of what a schema uses.
        """
        value = entry.value
        if isinstance(value, Schema) and value.references:
            references = tuple(
                one._replace(subject=self.subject(one.subject)) for one in value.references
            )
            value = replace(value, references=references)
        return SchemaEntry(self.key(entry.key), entry.stamp, value)

    def key(self, key: Key) -> Key:
        """Return a key as the target writes it.

        Raises:
            UntranslatableError: As for `subject`.
        """
        match key:
            case VersionKey(subject, number):
                return VersionKey(self.subject(subject), number)
            case ConfigKey(str(subject)):
                return ConfigKey(self.subject(subject))
            case ModeKey(str(subject)):
                return ModeKey(self.subject(subject))
            case _:
                return key
