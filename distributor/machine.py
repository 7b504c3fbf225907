"""What this machine is: which hosts are its own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from distributor.errors import PlanError
from distributor.processes import hosts_of

if TYPE_CHECKING:
    from topology.model import Topology


def is_own(host: str) -> bool:
    """Whether a process here can listen on a host: its address can be bound, or an interface."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]  # the one that a socket of ours is bound to
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except (OSError, UnicodeError):
        return host in {name for _, name in socket.if_nameindex()}
    return True


def refuse_elsewhere(topology: Topology) -> None:
    """Make sure that all of a topology can run here.

    Raises:
        PlanError: A host is another machine's.
    """
    for host, cluster in hosts_of(topology).items():
        if not is_own(host):
            raise PlanError(
                f"host {host!r} of {cluster} is not this machine's, so not all of {topology.name} "
                "can run here: start its processes on their own hosts (deploy/README.md)"
            )
