"""Do all registries say the same, each in its own spelling?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.schemas.entries import (
    ConfigKey,
    ModeKey,
    Primary,
    PrimaryKey,
    Schema,
    SchemaKey,
    Version,
    VersionKey,
)
from distributor.schemas.site import latest_claim, primary_of
from distributor.schemas.translation import UntranslatableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.schemas.entries import Key, SchemaEntry
    from distributor.schemas.site import Site

_TEXT_SHOWN = 60
"""Characters of a schema that are shown."""


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """Something of which two registries do not say the same.

    Attributes:
        cluster: Which differs from the one compared with.
        about: What it is about, as that one spells it.
        here: What this one says; empty if nothing.
        there: What the one compared with says.
    """

    cluster: str
    about: str
    here: str
    there: str

    def __str__(self) -> str:
        here, there = self.here or "nothing", self.there or "nothing"
        return f"{self.about}: {self.cluster} has {here}, not {there}"


@dataclass(slots=True)
class SchemaDiff:
    """What a comparison of all registries found.

    Attributes:
        reference: The cluster compared with: the primary, or the first that answers.
        primary: The primary; empty if there is none.
        epoch: Since which it is.
        clusters: Subjects per cluster that answers.
        differences: None means equal.
        unreachable: Clusters that do not answer, and why.
        skipped: Names that one side has and the other cannot spell, how many by pair and reason.
    """

    reference: str = ""
    primary: str = ""
    epoch: int = 0
    clusters: dict[str, int] = field(default_factory=dict)
    differences: list[SchemaDifference] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether all answered and say the same."""
        return not self.differences and not self.unreachable


def diff(sites: Sequence[Site]) -> SchemaDiff:
    """Read all registries and compare each with the primary's."""
    found = SchemaDiff()
    reached = [site for site in sites if site.read()]
    found.unreachable = {site.name: site.error for site in sites if site not in reached}
    found.clusters = {site.name: len(site.state.versions) for site in reached}
    claim = latest_claim(reached)
    if claim is not None:
        found.primary, found.epoch = primary_of(claim), claim.stamp.epoch
    if not reached:
        return found
    reference = next((site for site in reached if site.name == found.primary), reached[0])
    found.reference = reference.name
    for site in reached:
        if site is not reference:
            found.differences += _differences(site, reference, found.skipped)
    return found


def _differences(site: Site, reference: Site, skipped: dict[str, int]) -> list[SchemaDifference]:
    """Compare in the spelling of the reference, as far as names can be spelled by both."""
    there = _translated(reference, site, skipped)
    here = _translated(site, reference, skipped)
    # What the reference says is wanted in its own words.
    there = {key: reference.state.entries[key] for key in there}
    ours = {entry.key: entry for entry in here.values()}
    return [
        SchemaDifference(site.name, _named(key), _shown(ours.get(key)), _shown(there.get(key)))
        for key in sorted(ours.keys() | there.keys(), key=_named)
        if _says(ours.get(key)) != _says(there.get(key))
    ]


def _translated(source: Site, target: Site, skipped: dict[str, int]) -> dict[Key, SchemaEntry]:
    """Entries as the target would write them, by their key at the source; counts what it cannot."""
    translation = source.translation_to(target)
    entries: dict[Key, SchemaEntry] = {}
    for key, entry in source.state.entries.items():
        try:
            entries[key] = translation.entry(entry)
        except UntranslatableError as error:
            about = f"{source.name} to {target.name}: {error.reason}"
            skipped[about] = skipped.get(about, 0) + 1
    return entries


def _says(entry: SchemaEntry | None) -> object:
    """What counts of an entry: not when it was decided, but for who decides."""
    match entry.value if entry is not None else None:
        case Schema() as schema:
            return schema.identity()
        case Primary(cluster) if entry is not None:
            return cluster, entry.stamp.epoch
        case value:
            return value


def _shown(entry: SchemaEntry | None) -> str:
    match entry.value if entry is not None else None:
        case None:
            return ""
        case Schema(language, text):
            return f"{language} {text[:_TEXT_SHOWN]}"
        case Version(id_, deleted):
            return f"id {id_}" + (", deleted" if deleted else "")
        case Primary(cluster) if entry is not None:
            return f"{cluster} since epoch {entry.stamp.epoch}"
        case value:
            return str(value)


def _named(key: Key) -> str:
    match key:
        case SchemaKey(id_):
            return f"schema {id_}"
        case VersionKey(subject, number):
            return f"{subject} version {number}"
        case ConfigKey(subject):
            return f"compatibility of {subject or 'all'}"
        case ModeKey(subject):
            return f"mode of {subject or 'all'}"
        case PrimaryKey():
            return "primary"
