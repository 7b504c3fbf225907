"""One word for one thing: no class name means two, and the glossary's words mean what it says."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("benchmarks", "dafka", "distributor", "topology")
TERMS_MIN, TERMS_MAX = 20, 40


@cache
def modules_of_classes() -> dict[str, list[str]]:
    """Modules by class; reading all sources takes a second, so not where tests are collected."""
    found = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(module)
    return found


ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in (ROOT / "docs/glossary.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| term")
]
"""Term, meaning, module."""


def class_names(terms: str) -> list[str]:
    return ["".join(word.capitalize() for word in term.split()) for term in terms.split(", ")]


def test_no_class_name_means_two_things():
    doubled = {name: modules for name, modules in modules_of_classes().items() if len(modules) > 1}
    assert not doubled


@pytest.mark.parametrize(("term", "meaning", "module"), ROWS, ids=lambda cell: cell[:20])
def test_a_class_with_a_word_of_the_glossary_means_that(term, meaning, module):
    assert meaning
    defined = [where for name in class_names(term) for where in modules_of_classes().get(name, [])]
    assert [f"`{where}`" for where in defined] == ([module] if module else [])


def test_terms_are_few_and_explained_once():
    terms = [term for row in ROWS for term in row[0].split(", ")]
    assert TERMS_MIN <= len(ROWS) <= TERMS_MAX
    assert len(set(terms)) == len(terms)
