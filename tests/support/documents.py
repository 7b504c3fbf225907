"""What documents say of tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def is_a_test(named: str) -> bool:
    """Whether there is a test that a document names: `path::test`, below `tests/`."""
    found = re.fullmatch(r"`(\S+\.py)::(test_\w+)`", named)
    assert found is not None, named
    tree = ast.parse((TESTS / found[1]).read_text())
    return found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
