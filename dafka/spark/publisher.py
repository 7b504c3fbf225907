"""The mirror through which the tasks of one Python worker write.

Finding a cluster's stores takes a second, a task often less; and Spark keeps its workers. So the
mirror stays for the next task, until the worker ends.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from dafka.model import Endpoint
from dafka.node.mirror import Mirror

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.spark.access import Access

_Key = tuple[int, tuple[str, ...], int, "Access"]

_mirrors: dict[_Key, Mirror] = {}
"""By process, for a worker may be a fork of another; one for each cluster and key."""


def mirror_of(towers: Sequence[str], min_acks: int, access: Access) -> Mirror:
    """Return this process's mirror on a cluster, to which `access` has been introduced.

    Raises:
        MisuseError: A tower's endpoint cannot be used.
    """
    key = (os.getpid(), tuple(towers), min_acks, access)
    mirror = _mirrors.get(key)
    if mirror is None or not mirror.alive:
        mirror = Mirror(towers, host=own_host(towers[0]), min_acks=min_acks)
        _mirrors[key] = mirror
    return mirror


def own_host(tower: str) -> str:
    """The address of this machine on the network on which `tower` is: others reach us there.

    Raises:
        MisuseError: It is not an endpoint.
        OSError: There is no way to it.
    """
    host, port = Endpoint.parse(tower)
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((bare, port))  # sends nothing: it only finds the way
        found = str(probe.getsockname()[0])
    return f"[{found}]" if family == socket.AF_INET6 else found
