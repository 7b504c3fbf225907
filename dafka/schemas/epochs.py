"""Epochs and the ids that each may give: no two clusters ever open the same epoch.

An epoch belongs to one cluster by its number, so clusters that cannot hear of one another, both of
them made the primary, still give no id twice. Ids are 31 bits wide, as clients take them.
"""

from __future__ import annotations

CLUSTERS_MAX = 256
"""Clusters that may give ids; each has every 256th epoch."""

IDS_PER_EPOCH = 1 << 9
"""A writer that has used them up opens its next epoch."""

EPOCH_MAX = (1 << 31) // IDS_PER_EPOCH
"""16,384 for each cluster."""

LEAP = 64 * CLUSTERS_MAX
"""Epochs passed over where the primary cannot be asked how many it has opened meanwhile."""


def next_epoch(known: int, number: int) -> int:
    """The first epoch of a cluster above one that is known.

    Args:
        known: 0 if none is.
        number: The cluster's, from 1 to `CLUSTERS_MAX`.
    """
    return known + 1 + (number - 1 - known) % CLUSTERS_MAX


def id_range(epoch: int) -> range:
    """The ids that the writer of an epoch may give: 1 to 511, 513 to 1023, and so on."""
    first = (epoch - 1) * IDS_PER_EPOCH
    return range(first + 1, first + IDS_PER_EPOCH)
