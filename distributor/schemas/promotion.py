"""Making another cluster the primary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.schemas.entries import Primary, PrimaryKey, SchemaEntry, Stamp
from dafka.schemas.state import EPOCH_MAX, LEAP, promotion_epoch
from distributor.errors import CommandError
from distributor.schemas.site import claimed_twice, latest_claim, primary_of, site_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributor.schemas.site import Site

FENCES_MAX = 5
"""Claims in a row that the old primary's registry has outdone."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """What a promotion has done.

    Attributes:
        cluster: The primary now.
        epoch: Since this one.
        before: The primary before; empty if there was none, the same if nothing had to be done.
        copied: How many decisions the new one did not have yet.
        silent: Clusters that do not answer. The old primary, if it is one, registers schemas until
            it hears of the new one; what it has registered is taken in then.
    """

    cluster: str
    epoch: int
    before: str
    copied: int
    silent: tuple[str, ...]


def promote(sites: Sequence[Site], cluster: str, *, force: bool = False) -> Promoted:
    """Make a cluster the primary; may be repeated if it fails on the way.

    The old primary is told first, so that it registers nothing more; then the new one gets what it
    lacks; then it is told.

    Args:
        sites: Of all clusters that have a registry.
        cluster: One of them.
        force: Do it although not all of them answer.

    Raises:
        PlanError: The cluster has no registry.
        CommandError: A cluster does not answer, or two have claimed the same epoch.
    """
    chosen = site_in(sites, cluster)
    reached = [site for site in sites if site.read()]
    unread = [site for site in sites if site not in reached]
    _check_reached(chosen, unread, force=force)
    silent = tuple(site.name for site in unread)
    contested = claimed_twice(reached)
    if contested:
        raise CommandError(contested)
    latest = latest_claim(reached)
    before = primary_of(latest)
    if latest is not None and before == cluster and chosen.claim == latest:
        return Promoted(cluster, latest.stamp.epoch, before, 0, silent)
    old = next((site for site in reached if site.name == before), None)
    epoch = latest.stamp.epoch if latest is not None else 0
    # One that does not answer may have opened epochs that nobody has heard of.
    claim = _claim(chosen, epoch + LEAP if silent else epoch)
    if old is not None and old is not chosen:
        claim = _fence(old, chosen, claim)
    copied = sum(_take_over(chosen, site) for site in reached if site is not chosen)
    _write(chosen, [claim])
    return Promoted(cluster, claim.stamp.epoch, before, copied, silent)


def _take_over(chosen: Site, site: Site) -> int:
    """Give the new primary all that another one knows, but not yet that it is the primary."""
    entries = [
        entry for entry in chosen.lacks_of(site).entries if not isinstance(entry.key, PrimaryKey)
    ]
    _write(chosen, entries)
    return len(entries)


def _check_reached(chosen: Site, silent: Sequence[Site], *, force: bool) -> None:
    if chosen in silent:
        raise CommandError(f"{chosen.name} cannot become the primary: {chosen.error}")
    if silent and not force:
        names = " and ".join(site.name for site in silent)
        raise CommandError(
            f"{names} cannot be asked: {silent[0].error}. What nobody else knows may be missing for"
            f" now; --force promotes {chosen.name} all the same"
        )


def _claim(chosen: Site, known: int) -> SchemaEntry:
    epoch = promotion_epoch(known, chosen.number)
    if epoch > EPOCH_MAX:
        raise CommandError(f"all {EPOCH_MAX} epochs are used up")
    return SchemaEntry(PrimaryKey(), Stamp(epoch, 0), Primary(chosen.name, chosen.address))


def _fence(old: Site, chosen: Site, claim: SchemaEntry) -> SchemaEntry:
    """Tell the old primary; its registry may open an epoch of its own at the same moment."""
    for _ in range(FENCES_MAX):
        _write(old, [claim])
        if old.claim == claim:
            return claim
        claim = _claim(chosen, old.state.epoch)
    raise CommandError(f"the registry of {old.name} has taken over {FENCES_MAX} times: try again")


def _write(site: Site, entries: Sequence[SchemaEntry]) -> None:
    if entries and not site.write(entries):
        raise CommandError(f"{site.name} cannot be written: {site.error}. Repeat the command")
