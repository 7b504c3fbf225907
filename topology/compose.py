"""Files for docker compose: of each host of a topology, the processes that run on it.

Host networking, because nodes publish on ports of their own choosing.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from topology.deployment import CONFIG, DeploymentError, PlacedProcess, placed_on_hosts
from topology.processes import ProcessKind

if TYPE_CHECKING:
    from topology.deployment import Spec
    from topology.model import Topology

DATA = "/var/lib/dafka"
"""The image's user owns it; a volume takes that over."""

_BEFORE = {ProcessKind.TOWER: None, ProcessKind.STORE: ProcessKind.TOWER}
"""What is started first; for all others a store."""


def compose_files(topology: Topology, image: str) -> dict[str, Spec]:
    """Return the document of each host.

    Raises:
        DeploymentError: The topology cannot be run so.
    """
    return {host: _file(topology, ours, image) for host, ours in placed_on_hosts(topology).items()}


def _file(topology: Topology, ours: list[PlacedProcess], image: str) -> Spec:
    services = {one.name: _service(topology, one, ours, image) for one in ours}
    file: Spec = {"services": services}
    volumes = [one.name for one in ours if one.data]
    if volumes:
        file["volumes"] = {name: {} for name in volumes}
    return file


def _service(topology: Topology, one: PlacedProcess, ours: list[PlacedProcess], image: str) -> Spec:
    # The host's directory, so that keys and the topology can be renewed in place.
    mounts = [f"{CONFIG}:{CONFIG}:ro"]
    if one.data:
        if posixpath.dirname(one.data) != DATA:
            raise DeploymentError(
                f"data {one.data!r} of {one.cluster}: in the image a store may write to {DATA} "
                f"only: write {DATA}/store"
            )
        mounts.append(f"{one.name}:{posixpath.dirname(one.data)}")
    tmpfs = ["/tmp"]  # noqa: S108 - in the container
    if one.kind is ProcessKind.DISTRIBUTOR and topology.control is not None:
        tmpfs.append(posixpath.dirname(topology.control.directory))
    service: Spec = {
        "image": image,
        # `$` would be a variable's.
        "command": [word.replace("$", "$$") for word in (*one.command, "--log-format", "json")],
        "network_mode": "host",
        "restart": "unless-stopped",
        "mem_limit": one.memory.lower(),
        "read_only": True,
        "tmpfs": list(dict.fromkeys(tmpfs)),
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "stop_grace_period": "15s",
        "volumes": mounts,
        # Changes when what it reads of the topology does: then it is made anew, and no other.
        "labels": {"dafka.config": one.digest},
    }
    kind = _BEFORE.get(one.kind, ProcessKind.STORE)
    before = [other.name for other in ours if other.kind is kind]
    if before:
        service["depends_on"] = before
    return service
