"""The lock file of the development environment has what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LINES = [
    line
    for line in (ROOT / ".ci/constraints.txt").read_text().splitlines()
    if not line.startswith("#")
]
PINS = {
    canonicalize_name(name): version for name, _, version in (one.partition("==") for one in LINES)
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ASKED = [
    requirement
    for text in (
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["arrow"],
        *PROJECT["optional-dependencies"]["spark"],
        *PROJECT["optional-dependencies"]["dev"],
    )
    if (requirement := Requirement(text)).name != PROJECT["name"]
]


def test_every_line_is_a_name_and_a_version_and_nobody_s_path_or_host():
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in LINES)
    assert len(PINS) == len(LINES)


@pytest.mark.parametrize("requirement", ASKED, ids=lambda requirement: requirement.name)
def test_every_dependency_is_pinned_to_a_version_that_it_allows(requirement):
    assert PINS[canonicalize_name(requirement.name)] in requirement.specifier
