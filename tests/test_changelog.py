"""The changelog keeps its format, and everybody who tells a version tells the released one."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_what_is_not_released_comes_first_and_then_every_release_with_its_day():
    first, *releases = re.findall(r"^## (.*)$", CHANGELOG, flags=re.MULTILINE)
    assert first == "[Unreleased]"
    found = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (.*)", release) for release in releases]
    assert all(found)
    assert found[0][1] == VERSION
    days = [date.fromisoformat(one[2]) for one in found]
    assert days == sorted(days, reverse=True)


def test_changes_are_of_six_kinds_in_their_order():
    for section in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.*)$", section, flags=re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds]


def test_the_readme_has_the_version():
    assert f"\nVersion {VERSION.rpartition('.')[0]};" in (ROOT / "README.md").read_text()
