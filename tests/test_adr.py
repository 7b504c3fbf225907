"""Decisions have one format, and an index that has all of them."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs/adr"
DECISIONS = sorted(FOLDER.glob("[0-9]*.md"))
HEADINGS = ["Problem", "Decision", "Alternatives", "Consequences"]
PAGE_LINES_MAX = 70
STATUS = re.compile(r"(?:Accepted|Replaced by (?P<next>\d+)) on (?P<day>\d{4}-\d\d-\d\d)\.")


def title(decision: Path) -> tuple[int, str]:
    found = re.match(r"# (\d+)\. (.+)\n\n", decision.read_text())
    assert found is not None
    return int(found[1]), found[2]


def test_every_decision_is_numbered_once():
    numbers = list(range(1, len(DECISIONS) + 1))
    assert [int(decision.name[:4]) for decision in DECISIONS] == numbers
    assert [title(decision)[0] for decision in DECISIONS] == numbers


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.name)
def test_a_decision_has_a_status_and_four_parts_on_one_page(decision):
    lines = decision.read_text().splitlines()
    assert len(lines) <= PAGE_LINES_MAX
    status = STATUS.fullmatch(lines[2])
    assert status is not None, lines[2]
    assert date.fromisoformat(status["day"])
    assert status["next"] is None or int(status["next"]) <= len(DECISIONS)
    assert [line[3:] for line in lines if line.startswith("## ")] == HEADINGS
    parts = re.split(r"^## .*$", decision.read_text(), flags=re.MULTILINE)
    assert all(part.strip() for part in parts)


def test_the_index_has_every_decision_under_its_title():
    rows = [
        f"| [{number}]({decision.name}) | {text} |"
        for decision in DECISIONS
        for number, text in [title(decision)]
    ]
    index = (FOLDER / "README.md").read_text().splitlines()
    assert [line for line in index if line.startswith("| [")] == rows
