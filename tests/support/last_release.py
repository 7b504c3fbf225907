"""The last release, as the history of this repository has it."""

from __future__ import annotations

import re
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def last_release(directory: Path) -> Path:
    """Unpack the packages of the last release; skips a test where the history does not have it."""
    (version,) = re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[:1]
    words = ("log", "-S", f"## [{version}]", "--format=%H", "--", "CHANGELOG.md")
    commits = git(*words).decode().split()
    if not commits:
        pytest.skip(f"the history of this repository does not have the release of {version}")
    packed = git("archive", commits[-1], "dafka", "distributor", "topology")
    place = directory / version
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
    return place


def git(*words: str) -> bytes:
    """What git says; a test without git, or outside of a repository, skips."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, check=False, timeout=60
        )
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if done.returncode:
        pytest.skip(f"there is no history here: {done.stderr.decode()}")
    return done.stdout
