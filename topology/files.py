"""The files that a topology names: whether whoever runs it here could read them."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from topology.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from topology.model import Topology

OF_OTHERS = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
"""What nobody but its holder may do with a secret; that its group reads it may be meant."""


def file_problems(topology: Topology, directory: Path) -> list[Problem]:
    """Return what is wrong with the key files and the like of a topology, on this machine.

    Args:
        topology: Which.
        directory: That of its file.
    """
    return [
        problem
        for path, file, secret in _named(topology, directory)
        for problem in _looked_at(path, file, secret)
    ]


def _named(topology: Topology, directory: Path) -> Iterator[tuple[str, Path, bool]]:
    """Where each file is named, which it is, and whether it is a secret."""
    for index, cluster in enumerate(topology.clusters):
        place = f"$.clusters[{index}]"
        if (keys := cluster.security) is not None:
            yield f"{place}.security.access", directory / keys.access, False
            yield f"{place}.security.cluster_key", directory / keys.cluster_key, True
            yield f"{place}.security.key", directory / keys.key, True
        for number, gateway in enumerate(cluster.gateways):
            if gateway.users:
                yield f"{place}.gateways[{number}].users", directory / gateway.users, True
    if (web := topology.web) is not None:
        yield "$.web.access", directory / web.access, False
        if web.token:
            yield "$.web.token", directory / web.token, True


def _looked_at(path: str, file: Path, secret: bool) -> Iterator[Problem]:
    try:
        with file.open("rb") as opened:
            opened.read(1)
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError as error:
        hint = "make it with dafka keys, or correct its name"
        yield Problem(path, f"cannot read {str(file)!r}: {error.strerror}", hint)
        return
    if secret and mode & OF_OTHERS:
        yield Problem(path, f"others may use {str(file)!r} (mode {mode:o})", f"chmod 600 {file}")
