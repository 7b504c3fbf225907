"""What a registry answers and decides, from what its log adds up to. No IO.

Questions return answers, decisions return a `Decision`: an answer and the changes that make it
true. Source: Confluent Schema Registry API reference (resources, error codes).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import (
    RegistryError,
    invalid_schema,
    no_schema,
    no_subject,
    no_version,
    not_permitted,
)
from dafka.limits import SCHEMA_REFERENCES_MAX
from dafka.schemas.compatibility import DEFAULT_LEVEL, LEVELS, Source, compared
from dafka.schemas.entries import (
    ConfigKey,
    Key,
    ModeKey,
    Schema,
    SchemaKey,
    Value,
    Version,
    VersionKey,
)
from dafka.schemas.requests import ANYWHERE, LATEST, Place, checked_subject, checked_version
from dafka.schemas.rulings import Case

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from dafka.schemas.rulings import Rulings
    from dafka.schemas.state import State


MODES = ("READWRITE", "READONLY", "IMPORT")
"""In the last one registrations say ids and versions themselves, and nothing is compared."""

Changes = tuple[tuple[Key, Value | None], ...]


class Decision(NamedTuple):
    """What is answered once the changes are on disk.

    Attributes:
        answer: What the client is told.
        changes: What it follows from, also what holds already: that may be on too few disks.
        afterwards: What is written once the changes hold: of what is written at once, part may
            hold and the rest be outdone by another registry.
    """

    answer: object
    changes: Changes = ()
    afterwards: Changes = ()


def _next(versions: Collection[int]) -> int:
    return max(versions, default=0) + 1


def _in_use(subject: str, number: int) -> RegistryError:
    return RegistryError(
        42206,
        f"One or more references exist to the schema of subject '{subject}' version {number}.",
    )


class SubjectVersion(NamedTuple):
    """A version of a subject and its schema."""

    subject: str
    number: int
    version: Version
    schema: Schema


class Registry:
    """A view of one state.

    Args:
        state: What the log adds up to; it may grow under this view.
        rulings: What is known of schemas. Whatever asks for one may raise `Unjudged`.
    """

    def __init__(self, state: State, rulings: Rulings) -> None:
        self._state = state
        self._rulings = rulings

    # Questions.

    def subjects(self, *, deleted: bool = False, live: bool = True, prefix: str = "") -> list[str]:
        """Return the subjects.

        Args:
            deleted: Also those that are deleted softly.
            live: Also those that are not.
            prefix: What they begin with.
        """
        alive = {
            subject: any(not version.deleted for version in versions.values())
            for subject, versions in self._state.versions.items()
            if subject.startswith(prefix)
        }
        return sorted(one for one, is_alive in alive.items() if (live if is_alive else deleted))

    def schemas(
        self, *, deleted: bool = False, live: bool = True, prefix: str = "", latest: bool = False
    ) -> list[SubjectVersion]:
        """Return the versions of all subjects, or the latest of each."""
        found: list[SubjectVersion] = []
        for subject in self.subjects(deleted=True, prefix=prefix):
            numbers = self._numbers(subject, deleted=deleted, live=live)
            for number in numbers[-1:] if latest else numbers:
                version = self._state.versions[subject][number]
                found.append(SubjectVersion(subject, number, version, self.schema(version.id)))
        return found

    def id_max(self) -> int:
        """Return the highest id that was given."""
        return self._state.id_max()

    def _numbers(self, subject: str, *, deleted: bool, live: bool) -> list[int]:
        versions = sorted(self._state.versions.get(subject, {}).items())
        return [number for number, one in versions if (deleted if one.deleted else live)]

    def versions(self, subject: str, *, deleted: bool = False, live: bool = True) -> list[int]:
        """Return the version numbers of a subject; see `subjects`.

        Raises:
            RegistryError: 40401, it has none, or only such as are deleted softly.
        """
        if not self._numbers(subject, deleted=deleted, live=True):
            raise no_subject(subject)
        return self._numbers(subject, deleted=deleted, live=live)

    def version(self, subject: str, wanted: str, *, deleted: bool = False) -> SubjectVersion:
        """Return a version of a subject.

        Args:
            subject: Whose.
            wanted: A number, `latest` or `-1`; the latest is never one that is deleted.
            deleted: Also one that is deleted softly.

        Raises:
            RegistryError: 40401, 40402, 42202.
        """
        number = checked_version(wanted)
        numbers = self.versions(subject, deleted=deleted)
        if number == LATEST:
            number = max(self._numbers(subject, deleted=False, live=True), default=LATEST)
        if number not in numbers:
            raise no_version(number)
        version = self._state.versions[subject][number]
        return SubjectVersion(subject, number, version, self.schema(version.id))

    def schema(self, id_: int) -> Schema:
        """Return the schema with an id.

        Raises:
            RegistryError: 40403.
        """
        schema = self._state.schema(id_)
        if schema is None:
            raise no_schema(id_)
        return schema

    def uses_of(self, id_: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """Return the subjects and versions that are the schema with an id.

        Raises:
            RegistryError: 40403.
        """
        self.schema(id_)
        return sorted(
            (subject, number)
            for subject, versions in self._state.versions.items()
            for number, version in versions.items()
            if version.id == id_ and (deleted or not version.deleted)
        )

    def referenced_by(self, subject: str, number: int, *, deleted: bool = False) -> list[int]:
        """Return the ids of the schemas that use a version and are themselves in use.

        Args:
            subject: Whose version it is.
            number: Of the version.
            deleted: Also those that are in use by what is deleted softly only.
        """
        return sorted({id_ for _, id_ in self._users(subject, number, deleted=deleted)})

    def _users(self, subject: str, number: int, *, deleted: bool) -> Iterator[tuple[str, int]]:
        """Yield subject and id of each version that uses a version."""
        for user, versions in self._state.versions.items():
            for version in versions.values():
                if (deleted or not version.deleted) and any(
                    (reference.subject, reference.version) == (subject, number)
                    for reference in self.schema(version.id).references
                ):
                    yield user, version.id

    def lookup(self, subject: str, schema: Schema, *, deleted: bool = False) -> SubjectVersion:
        """Return the version under which a subject has a schema.

        Raises:
            RegistryError: 40401, 40403, 42201.
        """
        numbers = self.versions(subject, deleted=deleted)
        found = self._find(subject, self.checked(schema), numbers)
        if found is None:
            raise no_schema()
        return found

    def _find(
        self, subject: str, schema: Schema, numbers: Collection[int]
    ) -> SubjectVersion | None:
        """The latest of some versions that is a schema."""
        identity = schema.identity()
        for number in sorted(numbers, reverse=True):
            version = self._state.versions[subject][number]
            known = self.schema(version.id)
            if known.identity() == identity:
                return SubjectVersion(subject, number, version, known)
        return None

    def obstacles(self, subject: str, schema: Schema, wanted: str | None = None) -> list[str]:
        """Why a schema may not be the subject's next; empty if it may.

        Args:
            subject: Its level counts, else the general one.
            schema: The candidate.
            wanted: Compare with this version only; None with those the level asks for.

        Raises:
            RegistryError: 40402, 42201, 42202.
        """
        numbers = self._numbers(subject, deleted=False, live=True)
        if wanted is not None:
            number = checked_version(wanted)
            if number != LATEST and number not in numbers:
                raise no_version(number)
            numbers = numbers[-1:] if number == LATEST else [number]
        return self._obstacles(subject, self.checked(schema), numbers)

    def _obstacles(self, subject: str, schema: Schema, numbers: Sequence[int]) -> list[str]:
        versions = self._state.versions.get(subject, {})
        earlier = [self.schema(versions[number].id) for number in numbers]
        level = self.level(subject)
        others = tuple(self._source(one) for one in compared(level, earlier))
        if not others:
            return []
        case = Case(self._source(schema), level, others)
        return list(self._rulings.of(case).obstacles)

    def level(self, subject: str | None, *, default: bool = True) -> str:
        """Return the compatibility level of a subject, or of all that have none.

        Raises:
            RegistryError: 40408, the subject has none of its own and `default` is false.
        """
        own = self._state.level(subject)
        if own is not None:
            return own
        if subject is not None and not default:
            raise RegistryError(
                40408, f"Subject '{subject}' does not have subject-level compatibility configured"
            )
        return self._state.level(None) or DEFAULT_LEVEL

    def mode(self, subject: str | None, *, default: bool = True) -> str:
        """Return the mode of a subject, or of all that have none.

        Raises:
            RegistryError: 40409, the subject has none of its own and `default` is false.
        """
        own = self._state.mode(subject)
        if own is not None:
            return own
        if subject is not None and not default:
            raise RegistryError(
                40409, f"Subject '{subject}' does not have subject-level mode configured"
            )
        return self._state.mode(None) or MODES[0]

    def checked(self, schema: Schema) -> Schema:
        """Return a schema as it is kept.

        Raises:
            RegistryError: 42201, it is none.
        """
        ruling = self._rulings.of(Case(self._source(schema)))
        if ruling.error:
            raise invalid_schema(ruling.error)
        # The latest version is another one later.
        references = tuple(
            one._replace(version=self.version(one.subject, str(one.version), deleted=True).number)
            for one in schema.references
        )
        return replace(schema, references=references, compiled=ruling.compiled)

    def _source(self, schema: Schema) -> Source:
        return Source(schema.language, schema.content, self._used(schema))

    def _used(self, schema: Schema) -> tuple[tuple[str, str], ...]:
        uses = tuple(dict(self._uses(schema, 0)).items())
        if len(uses) > SCHEMA_REFERENCES_MAX:
            raise invalid_schema(f"it uses {len(uses)} others, more than {SCHEMA_REFERENCES_MAX}")
        return uses

    # Decisions.

    def register(
        self, subject: str, schema: Schema, next_id: int, place: Place = ANYWHERE
    ) -> Decision:
        """Make a schema the next version of a subject, unless it is one already.

        Args:
            subject: 1 to 249 bytes.
            schema: One that is equal to a schema under another subject gets that one's id.
            next_id: For a schema that is new.
            place: What is asked for; it takes the mode IMPORT, in which nothing is compared.

        Raises:
            RegistryError: 409 (not compatible), 42201, 42205, 42208.
        """
        checked_subject(subject)
        self._check_writable(subject)
        if self.mode(subject) == "IMPORT":
            if place.id is None:
                raise not_permitted(f"Subject '{subject}' is in import mode: say an id")
            return self._import(subject, self.checked(schema), place.id, place.version)
        if place.id is not None:
            raise not_permitted(f"Subject '{subject}' is not in import mode")
        schema = self.checked(schema)
        found = self._find(subject, schema, self._numbers(subject, deleted=False, live=True))
        if found is not None and place.version in (None, found.number):
            version = (VersionKey(subject, found.number), found.version)
            return Decision(
                {"id": found.version.id}, (self._meaning(found.version.id, schema), version)
            )
        return self._register(subject, schema, next_id, place.version)

    def _import(self, subject: str, schema: Schema, id_: int, wanted: int | None) -> Decision:
        """Register what another registry has, as it has it there."""
        versions = self._state.versions.get(subject, {})
        known = self._state.schema(id_)
        if known is not None and known.identity() != schema.identity():
            raise not_permitted(f"Overwrite new schema with id {id_} is not permitted.")
        there = [number for number, version in versions.items() if version == Version(id_)]
        number = max(there, default=_next(versions)) if wanted is None else wanted
        if number in versions and versions[number].id != id_:
            raise not_permitted(f"Overwrite version {number} of '{subject}' is not permitted.")
        version = (VersionKey(subject, number), Version(id_))
        return Decision({"id": id_}, (self._meaning(id_, schema), version))

    def _register(self, subject: str, schema: Schema, next_id: int, wanted: int | None) -> Decision:
        numbers = self._numbers(subject, deleted=False, live=True)
        found = self._obstacles(subject, schema, numbers)
        if found:
            raise RegistryError(
                409,
                "Schema being registered is incompatible with an earlier schema for subject"
                f' "{subject}", details: [{", ".join(found)}]',
            )
        versions = self._state.versions.get(subject, {})
        number = _next(versions)
        if wanted not in (None, number):
            raise invalid_schema(f"version {wanted} is not the next one of '{subject}'")
        known = self._state.id_of(schema)
        id_ = known if known is not None else next_id
        # It takes the place of versions of it that are deleted, unless somebody refers to one.
        replaced: Changes = tuple(
            (VersionKey(subject, old), None)
            for old, version in versions.items()
            if version == Version(id_, deleted=True)
            and not self.referenced_by(subject, old, deleted=True)
        )
        version = (VersionKey(subject, number), Version(id_))
        return Decision({"id": id_}, (self._meaning(id_, schema), version), replaced)

    def _meaning(self, id_: int, schema: Schema) -> tuple[Key, Value]:
        """What an id means, to be said before where it is used.

        Also if it is known: whoever reads the version has read this, whatever else its store lacks,
        and a deletion that was decided before and is stored later takes nothing away. A crash
        between the two leaves an id that nobody uses.
        """
        return SchemaKey(id_), self._state.schema(id_) or schema

    def delete_version(self, subject: str, wanted: str, *, permanent: bool) -> Decision:
        """Delete a version: softly (it keeps its id), or, once that is done, permanently.

        Raises:
            RegistryError: 40401, 40402, 40406, 40407, 42202, 42205, 42206.
        """
        found = self.version(subject, wanted, deleted=True)
        self._check_writable(subject)
        if permanent and not found.version.deleted:
            raise RegistryError(
                40407,
                f"Subject '{subject}' Version {found.number} was not deleted first before being"
                " permanently deleted",
            )
        if not permanent and found.version.deleted:
            raise RegistryError(
                40406,
                f"Subject '{subject}' Version {found.number} was soft deleted."
                " Set permanent=true to delete permanently",
            )
        if self.referenced_by(subject, found.number, deleted=permanent):
            raise _in_use(subject, found.number)
        return Decision(found.number, self._deletion(subject, [found.number], permanent))

    def delete_subject(self, subject: str, *, permanent: bool) -> Decision:
        """Delete all versions of a subject: softly, or, once that is done, permanently.

        Raises:
            RegistryError: 40401, 40404, 40405, 42205, 42206.
        """
        all_numbers = self.versions(subject, deleted=True)
        self._check_writable(subject)
        versions = self._state.versions[subject]
        alive = [number for number in all_numbers if not versions[number].deleted]
        if permanent and alive:
            raise RegistryError(
                40405,
                f"Subject '{subject}' was not deleted first before being permanently deleted",
            )
        if not permanent and not alive:
            raise RegistryError(
                40404,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        numbers = all_numbers if permanent else alive
        for number in numbers:
            users = {user for user, _ in self._users(subject, number, deleted=permanent)}
            if users - {subject}:
                raise _in_use(subject, number)
        return Decision(numbers, self._deletion(subject, numbers, permanent))

    def set_level(self, subject: str | None, level: object) -> Decision:
        """Set a compatibility level; None takes it away.

        Raises:
            RegistryError: 40401, there is none; 42203, 42205.
        """
        is_set = self._state.level(subject) is not None
        if level is None:
            if subject is not None and not is_set:
                raise no_subject(subject)
            self._check_writable(subject)
            before = self.level(subject)
            gone: Changes = ((ConfigKey(subject), None),) if is_set else ()
            return Decision({"compatibilityLevel": before}, gone)
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise RegistryError(
                42203,
                "Invalid compatibility level. Valid values are none, backward, forward, full,"
                " backward_transitive, forward_transitive, and full_transitive",
            )
        self._check_writable(subject)
        word = level.upper()
        return Decision({"compatibility": word}, ((ConfigKey(subject), word),))

    def set_mode(self, subject: str | None, mode: object, *, force: bool = False) -> Decision:
        """Set a mode; None takes it away.

        Args:
            subject: Whose; None is that of all that have none.
            mode: See `MODES`.
            force: Whether to import though there are subjects already.

        Raises:
            RegistryError: 40401, there is none; 42204, 42205, 42206.
        """
        if mode is None:
            is_set = self._state.mode(subject) is not None
            if subject is not None and not is_set:
                raise no_subject(subject)
            gone: Changes = ((ModeKey(subject), None),) if is_set else ()
            return Decision({"mode": self.mode(subject)}, gone)
        if not isinstance(mode, str) or mode.upper() not in MODES:
            raise RegistryError(42204, f"Invalid mode. Valid values are {', '.join(MODES)}")
        word = mode.upper()
        begins = word == "IMPORT" and self.mode(subject) != word
        emptied = self._emptied(subject) if begins and not force else ()
        return Decision({"mode": word}, (*emptied, (ModeKey(subject), word)))

    def _emptied(self, subject: str | None) -> Changes:
        """What does away with all that is deleted softly; an import begins with nothing."""
        there = self._state.versions if subject is None else {subject: None}
        places = [(one, number) for one in there for number in self._state.versions.get(one, {})]
        if any(not self._state.versions[one][number].deleted for one, number in places):
            raise not_permitted("Cannot import since found existing subjects")
        for one, number in places:
            if self.referenced_by(one, number, deleted=True):
                raise _in_use(one, number)
        return self._removal(places)

    def _check_writable(self, subject: str | None) -> None:
        if self.mode(subject) == "READONLY":
            whose = "The registry" if subject is None else f"Subject '{subject}'"
            raise not_permitted(f"{whose} is in read-only mode")

    def _deletion(self, subject: str, numbers: list[int], permanent: bool) -> Changes:
        versions = self._state.versions[subject]
        if not permanent:
            return tuple(
                (VersionKey(subject, number), Version(versions[number].id, deleted=True))
                for number in numbers
            )
        changes = self._removal([(subject, number) for number in numbers])
        if len(numbers) < len(versions):
            return changes
        # Whoever has the name next does not begin with what was set for somebody else.
        own = (ConfigKey(subject), ModeKey(subject))
        return (*changes, *((key, None) for key in own if self._state.value(key) is not None))

    def _removal(self, places: Collection[tuple[str, int]]) -> Changes:
        """What takes versions away for good, and schemas that nobody has any more."""
        changes: Changes = tuple((VersionKey(*place), None) for place in places)
        for id_ in sorted({self._state.versions[one][number].id for one, number in places}):
            if set(self.uses_of(id_, deleted=True)) <= set(places):
                changes = (*changes, (SchemaKey(id_), None))
        return changes

    def _uses(self, schema: Schema, depth: int) -> Iterator[tuple[str, str]]:
        """Yield what a schema uses, each behind what it uses itself, some twice."""
        if depth > SCHEMA_REFERENCES_MAX:
            raise invalid_schema("its references go round in a circle")
        for reference in schema.references:
            try:
                used = self.version(reference.subject, str(reference.version), deleted=True).schema
            except RegistryError as error:
                raise invalid_schema(
                    f"No schema reference found for subject '{reference.subject}'"
                    f" and version {reference.version}"
                ) from error
            yield from self._uses(used, depth + 1)
            yield reference.name, used.content
