"""The code about itself: rules that nobody has to remember."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("dafka", "topology", "distributor")
FILE_LINES_MAX = 600
MOST_FILES_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
WITHOUT_MIRROR = {"contracts", "processes", "scenarios", "support"}
VAGUE_NAMES = {"utils", "helpers", "common", "misc"}

SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

NO_TEST_OF_ITS_OWN = {
    # Nothing but docstrings, re-exports or the call of main.
    "__init__.py",
    "__main__.py",
}
ONLY_VALUES = {
    # Nothing that could be wrong by itself: constants, events and effects.
    "dafka/limits.py",
    "dafka/gateway/broker.py",
    "dafka/gateway/effects.py",
    "dafka/gateway/events.py",
    "dafka/gateway/group_events.py",
    "dafka/groups/events.py",
    "dafka/reasons.py",
    "dafka/protocol/events.py",
    "dafka/protocol/consumer.py",
    "dafka/protocol/effects.py",
    "dafka/protocol/fetches.py",
    "distributor/link/events.py",
    "distributor/testing/mutant_list.py",
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=relative)
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX


@pytest.mark.parametrize("paths", [SOURCES, TESTS], ids=["sources", "tests"])
def test_nine_files_of_ten_are_shorter(paths):
    lines = sorted(len(path.read_text().splitlines()) for path in paths)
    assert lines[len(lines) * 9 // 10] <= MOST_FILES_LINES_MAX


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_stay_short(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < FUNCTION_LINES_MAX, node.name


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_source_file_has_its_test_file(path):
    if path.name in NO_TEST_OF_ITS_OWN or relative(path) in ONLY_VALUES:
        return
    package = path.relative_to(ROOT)
    expected = ROOT / "tests" / package.parent / f"test_{package.name}"
    if relative(path) == "dafka/storage/log.py":
        expected = ROOT / "tests/contracts/test_record_log.py"
    assert expected.exists(), f"{relative(expected)} is missing"


@pytest.mark.parametrize("path", TESTS, ids=relative)
def test_every_test_file_mirrors_a_source_file(path):
    inside = path.relative_to(ROOT / "tests")
    if len(inside.parts) == 1 or inside.parts[0] in WITHOUT_MIRROR:
        return
    if path.name == "conftest.py":
        return
    name = path.name.removeprefix("test_")
    script = ROOT / inside.parent / "static" / Path(name).with_suffix(".js")
    assert (ROOT / inside.parent / name).exists() or script.exists()


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_names_say_what_they_hold(path):
    assert path.stem not in VAGUE_NAMES


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=relative)
def test_nothing_is_left_for_later(path):
    marks = re.compile(r"#.*\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    assert not marks.search(path.read_text())


def patched(call: ast.Call) -> str | None:
    """The name of what a MonkeyPatch replaces by a call, as it is written; None if it is none."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "setattr":
        return None
    first, *others = call.args
    return ast.unparse(first if isinstance(first, ast.Constant) else others[0])


@pytest.mark.parametrize("path", TESTS, ids=relative)
def test_no_constant_is_patched(path):
    # Times and bounds come in as settings. What is no literal could name any constant.
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [name for call in calls if (name := patched(call)) is not None]
    permitted = re.compile(r"'(\w+\.)*_*(?![A-Z\d_]+')\w+'")
    assert [name for name in names if not permitted.fullmatch(name)] == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_package_is_a_regular_one(path):
    # A folder without __init__.py is left out of the wheel, and import-linter does not see it.
    assert (path.parent / "__init__.py").exists()


def test_asserts_stay_on():
    # Invariants are asserted in production code; `python -O` would take them away.
    assert __debug__
