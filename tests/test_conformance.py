"""The table of RFC 46's rules: complete, and each rule with a test that exists."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import pytest

from tests.support.documents import TESTS, is_a_test

DOCUMENT = (TESTS.parent / "docs" / "conformance.md").read_text()

# Counted in the RFC's text: its words of obligation in capitals, by section.
RULES = {
    "Node Discovery and Presence": {"SHALL": 2},
    "Interconnection Model": {"SHALL": 7, "MAY": 1},
    "Topics, Partitions and Records": {"SHALL": 5, "SHALL NOT": 1, "MUST": 1, "RECOMMENDED": 1},
    "Protocol Signature": {"SHALL": 2},
    "Versioning": {"SHALL": 1},
    "Dafka Commands": {"MUST": 1},
    "The STORE-HELLO Command": {"SHALL": 1},
    "The CONSUMER-HELLO Command": {"SHOULD": 1, "MUST NOT": 1},
    "The RECORD Command": {"SHALL": 1, "MUST NOT": 1},
    "The ACK Command": {"SHALL": 1},
    "The HEAD Command": {"SHALL": 1},
    "The FETCH Command": {"SHALL": 1},
    "The DIRECT-RECORD Command": {"SHALL": 3},
    "The GET-HEADS Command": {"SHALL": 1},
    "The DIRECT-HEAD Command": {"SHALL": 2},
    "ZeroMQ Subscriptions": {"MUST": 1},
    "Producer Subscriptions": {"SHALL": 2},
    "Consumer Subscriptions": {"SHALL": 5, "MAY": 1},
    "Store Subscriptions": {"SHALL": 6},
}


class Row(NamedTuple):
    section: str
    word: str
    rule: str
    kept: str
    tests: tuple[str, ...]


def rows() -> list[Row]:
    found = []
    for part in DOCUMENT.split("\n## ")[1:]:
        section, *lines = part.splitlines()
        table = [line for line in lines if line.startswith("|")][2:]
        for line in table:
            word, rule, kept, tests = map(str.strip, line.strip("|").split("|"))
            found.append(Row(section, word, rule, kept, tuple(tests.split())))
    return found


ROWS = rows()


def test_every_rule_has_its_row():
    found = {section: Counter() for section in RULES}
    for row in ROWS:
        found[row.section][row.word] += 1
    assert found == RULES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}: {row.rule}")
def test_a_rule_is_kept_or_says_why_not(row):
    assert re.fullmatch(r"yes(; .+)?|(otherwise|no): .{10,}", row.kept)


def test_the_sum_is_that_of_the_rows():
    kept = Counter(re.match(r"\w+", row.kept)[0] for row in ROWS)
    counted = f"Of {len(ROWS)} rules {kept['yes']} are kept, {kept['otherwise']} otherwise, "
    assert counted + f"{kept['no']} is not." in DOCUMENT


def test_every_rule_names_a_test():
    assert [row for row in ROWS if not row.tests] == []


@pytest.mark.parametrize("named", sorted({named for row in ROWS for named in row.tests}))
def test_the_tests_named_exist(named):
    assert is_a_test(named)
