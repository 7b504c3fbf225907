"""The protocol's document has every message and every reason, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from distributor.control.events import SessionEnd
from distributor.control.messages import Command, Response, StateCommand, UnknownMessage
from tests.support.documents import is_a_test

DOCUMENT = (Path(__file__).parents[1] / "docs/control-protocol.md").read_text()


def rows(heading):
    (section,) = [part for part in DOCUMENT.split("\n## ")[1:] if part.startswith(heading + "\n")]
    return [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in section.splitlines()
        if line.startswith("| ")
    ]


RULES = rows("Materialize's rules, one by one")[1:]


@pytest.mark.parametrize(
    ("heading", "union"), [("Commands", Command | StateCommand), ("Responses", Response)]
)
def test_every_message_is_there(heading, union):
    described = {row[0].strip("`") for row in rows(heading)[1:]}
    assert described == {one.__name__ for one in get_args(union)} - {UnknownMessage.__name__}


def test_every_end_of_a_session_is_there():
    described = {row[0] for row in rows("Sessions")}
    assert {end.value for end in SessionEnd if end is not SessionEnd.CLOSED} <= described


@pytest.mark.parametrize(("rule", "kept", "test"), RULES, ids=[rule for rule, *_ in RULES])
def test_a_rule_is_kept_or_says_why_not_and_names_a_test(rule, kept, test):
    assert rule
    assert re.fullmatch(r"yes(; .+)?|(otherwise|no): .{10,}", kept)
    assert is_a_test(test)
