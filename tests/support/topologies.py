"""Topology files, changed for a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def changed(file: Path, clusters: int, **keys: object) -> None:
    """Put the first clusters of a topology under one branch, and set keys of it."""
    declared = yaml.safe_load(file.read_text())
    declared["clusters"] = declared["clusters"][:clusters]
    names = [cluster["name"] for cluster in declared["clusters"]]
    declared |= {"tree": {"level": 1, "children": names}, **keys}
    file.write_text(yaml.safe_dump(declared))


def is_about_room(what: str) -> bool:
    """Whether the doctor tells of a disk that is nearly full: this machine's is nobody's fault."""
    return what.startswith("the disk has ")
