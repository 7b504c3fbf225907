"""One cluster's registry, as whoever looks at all of them sees it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from dafka.cluster import Cluster
from dafka.errors import BufferFullError, NotStoredError, QueryError
from dafka.schemas.entries import Primary, PrimaryKey
from dafka.schemas.schema_log import SchemaLog
from dafka.schemas.state import EntryLog, State
from distributor.errors import PlanError
from distributor.schemas.comparison import Lack, lacking
from distributor.schemas.translation import Translation
from topology.formats import parse_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dafka.schemas.entries import Key, SchemaEntry
    from topology.formats import NameFormat
    from topology.model import ClusterSpec, Topology

WRITTEN_AT_ONCE = 64
"""Entries of which it is waited that they are stored: a schema may be long."""


class ClosableLog(EntryLog, Protocol):
    """A cluster's entries (`SchemaLog`)."""

    def close(self) -> None:
        """Let go of it."""


class Site:
    """A registry's log, and what it adds up to. Not thread-safe.

    Args:
        name: The cluster's.
        number: Its id: epochs belong to it by that.
        spelling: How its subjects are spelled.
        fields: Fields of formats that have one value everywhere.
        open_log: Called when it is read for the first time.
    """

    def __init__(
        self,
        name: str,
        number: int,
        spelling: NameFormat,
        fields: Mapping[str, str],
        open_log: Callable[[], ClosableLog],
    ) -> None:
        self.name = name
        self.number = number
        self.state = State()
        self.error = ""
        """Why it was not read or written last time; empty if it was."""
        self._spelling = spelling
        self._fields = fields
        self._open_log = open_log
        self._log: ClosableLog | None = None

    @property
    def address(self) -> str:
        """Who writes here."""
        return self._opened().address

    @property
    def claim(self) -> SchemaEntry | None:
        """Who the primary is and since when, as far as it is known here."""
        return self.state.entries.get(PrimaryKey())

    @property
    def primary(self) -> str:
        """The cluster that is the primary, as far as it is known here; empty if none is."""
        return self.state.primary.cluster if self.state.primary is not None else ""

    def read(self) -> bool:
        """Take in what has been added, from more than half of the stores; whether that worked."""
        log = self._opened()
        try:
            log.read_into(self.state, log.majority)
        except QueryError as error:
            self.error = str(error)
            return False
        self.error = ""
        return True

    def write(self, entries: Sequence[SchemaEntry]) -> bool:
        """Write entries and read them back; whether more than half of the stores have them."""
        log = self._opened()
        try:
            for begin in range(0, len(entries), WRITTEN_AT_ONCE):
                log.write(entries[begin : begin + WRITTEN_AT_ONCE])
        except (NotStoredError, BufferFullError) as error:
            self.error = str(error)
            return False
        return self.read()

    def translation_to(self, other: Site) -> Translation:
        """From this one's spelling to another's."""
        return Translation(self._spelling, other._spelling, self._fields)

    def lacks_of(self, other: Site, keys: Iterable[Key] | None = None) -> Lack:
        """What it has to write so that it knows all that the other one does of some keys.

        Args:
            other: Another cluster's.
            keys: In its spelling; all by default.
        """
        return lacking(other.state, self.state, other.translation_to(self), keys)

    def close(self) -> None:
        """Leave the cluster."""
        if self._log is not None:
            self._log.close()

    def _opened(self) -> ClosableLog:
        if self._log is None:
            self._log = self._open_log()
        return self._log


def sites_of(topology: Topology) -> list[Site]:
    """Return every cluster that has a registry, in the order of the file."""
    return [
        Site(
            cluster.name,
            cluster.id,
            parse_format(cluster.subject_format),
            topology.fields,
            partial(_opened, cluster),
        )
        for cluster in topology.clusters
        if cluster.registry
    ]


def _opened(cluster: ClusterSpec) -> SchemaLog:
    return SchemaLog(Cluster.declared(cluster))


def site_in(sites: Sequence[Site], cluster: str) -> Site:
    """Return a cluster's.

    Raises:
        PlanError: It has no registry.
    """
    for site in sites:
        if site.name == cluster:
            return site
    known = ", ".join(site.name for site in sites) or "none"
    raise PlanError(f"cluster {cluster!r} has no registry: there are {known}")


def latest_claim(sites: Iterable[Site]) -> SchemaEntry | None:
    """Return the claim of the latest epoch, None if there is none."""
    claims = [site.claim for site in sites if site.claim is not None]
    return max(claims, key=lambda claim: claim.rank(), default=None)


def primary_of(claim: SchemaEntry | None) -> str:
    """Return the cluster that a claim makes the primary; empty if there is none."""
    value = claim.value if claim is not None else None
    return value.cluster if isinstance(value, Primary) else ""


def claimed_twice(sites: Iterable[Site]) -> str:
    """Which clusters have claimed the same epoch, for people; empty if none have.

    It takes two clusters with one number.
    """
    by_epoch: dict[int, set[str]] = {}
    for site in sites:
        if site.claim is not None:
            by_epoch.setdefault(site.claim.stamp.epoch, set()).add(primary_of(site.claim))
    for epoch, names in sorted(by_epoch.items()):
        if len(names) > 1:
            return (
                f"{' and '.join(sorted(names))} have both claimed epoch {epoch}: give each its id"
            )
    return ""
