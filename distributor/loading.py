"""A topology from its file, and what this process needs of its clusters: keys and dialects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import topology
from dafka.transport.curve import keyring
from dafka.transport.keys import load_credentials
from dafka.transport.wiring import Wiring, wirings

if TYPE_CHECKING:
    from topology.model import Topology


def load(file: Path | str) -> Topology:
    """Read a topology file, and take up what it says of keys and dialects.

    Paths of keys are relative to the file.

    Raises:
        TopologyError: The file cannot be used.
        MisuseError: A key file cannot be used.
    """
    declared = topology.load(file)
    directory = Path(file).parent
    for cluster in declared.clusters:
        wirings.declare(cluster.towers, Wiring(cluster.wire, cluster.classic))
        endpoints = [*cluster.towers, *(store.query for store in cluster.stores)]
        if cluster.security is not None:
            access, key = directory / cluster.security.access, directory / cluster.security.key
            keyring.add(endpoints, load_credentials(access, key))
        elif cluster.insecure:
            keyring.allow(endpoints)
    return declared
