"""A topology from its file, whose key files this process can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import topology
from dafka.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from topology.model import Topology


def load(file: Path | str) -> Topology:
    """Read a topology file, and make sure of the keys that it names.

    Raises:
        TopologyError: The file cannot be used.
        MisuseError: A key file cannot be used.
    """
    declared = topology.load(file)
    for spec in declared.clusters:
        Cluster.declared(spec)
    return declared
