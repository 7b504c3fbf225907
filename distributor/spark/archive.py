"""An archive for executors: our packages and the libraries they need, as they are installed here.

Taken from what is installed, not fetched anew: executors have the versions that the driver has.
Spark itself is not among it; executors have that.
"""

from __future__ import annotations

import re
import tarfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from distributor.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS = "dafka-distributor"
"""The distribution whose requirements are followed."""

_PACKAGES = ("dafka", "distributor", "topology")
_EXTRAS = frozenset({"spark"})
_SPARK = frozenset({"pyspark", "py4j"})

_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")

_LEVEL = 1
"""Of gzip: libraries are most of it, and those hardly get smaller."""


def write_archive(file: Path) -> dict[str, str]:
    """Write the archive, whole or not at all; returns the versions in it by distribution.

    Args:
        file: Where; its name ends with `.tar.gz` or `.tgz`, by which Spark knows what it is.

    Raises:
        ArchiveError: A library is not installed.
        OSError: It cannot be written.
    """
    libraries = dict(sorted(_needed().items()))
    part = file.with_name(f".{file.name}.part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=_LEVEL) as archive:
            for name, distribution in libraries.items():
                for path, inside in _contents(name, distribution):
                    archive.add(path, inside, recursive=False)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return {name: distribution.version for name, distribution in libraries.items()}


def _needed() -> dict[str, metadata.Distribution]:
    """Ours and all that is required, by name.

    Requirements of other systems and versions of Python are passed over where nothing of the name
    is installed.
    """
    found: dict[str, metadata.Distribution] = {}
    left = [(OURS, _EXTRAS, "")]
    seen = set()
    while left:
        name, extras, demanded_by = left.pop()
        if (name, extras) in seen or name in _SPARK:
            continue
        seen.add((name, extras))
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            if demanded_by in ("", OURS):
                raise ArchiveError(
                    f"{name} is not installed: pip install '{OURS}[spark]'"
                ) from error
            continue
        found[name] = distribution
        left += [(*one, name) for one in _required(distribution, extras)]
    return found


def _required(
    distribution: metadata.Distribution, extras: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    for text in distribution.requires or ():
        requirement, _, marker = text.partition(";")
        only_with = set(_EXTRA.findall(marker))
        match = _REQUIREMENT.match(requirement)
        if match is None or (only_with and not only_with & extras):
            continue
        wanted = frozenset(one.strip() for one in (match[2] or "").split(",") if one.strip())
        yield re.sub(r"[-_.]+", "-", match[1]).lower(), wanted


def _contents(name: str, distribution: metadata.Distribution) -> Iterator[tuple[Path, str]]:
    """Yield the files of a distribution, and where they go."""
    if name == OURS:  # from where it is imported: it may be installed so that it can be edited
        for package in _PACKAGES:
            spec = find_spec(package)
            assert spec is not None
            assert spec.origin is not None
            root = Path(spec.origin).parent.parent
            for path in sorted((root / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield path, path.relative_to(root).as_posix()
        return
    for file in distribution.files or ():
        path = Path(str(file.locate()))
        # Programs stand beside the libraries.
        if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
            yield path, file.as_posix()
