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
PARAMETERS_MAX = 8
SET_BY_USERS = {"Cluster", "Consumer", "Producer"}
"""Whose options are keywords of users."""
WITHOUT_MIRROR = {"contracts", "foreign", "processes", "scenarios", "support"}
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
    "dafka/node/store_settings.py",
    "dafka/protocol/events.py",
    "dafka/protocol/consumer.py",
    "dafka/protocol/effects.py",
    "dafka/protocol/fetches.py",
    "distributor/control/control_pb2.py",
    "distributor/control/operators_pb2.py",
    "distributor/control/events.py",
    "distributor/control/messages.py",
    "distributor/link/events.py",
    "distributor/testing/mutant_list.py",
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_files_stay_short():
    lines = {relative(path): lines_of(path) for path in SOURCES + TESTS}
    assert {path: length for path, length in lines.items() if length > FILE_LINES_MAX} == {}


@pytest.mark.parametrize("paths", [SOURCES, TESTS], ids=["sources", "tests"])
def test_nine_files_of_ten_are_shorter(paths):
    lines = sorted(map(lines_of, paths))
    assert lines[len(lines) * 9 // 10] <= MOST_FILES_LINES_MAX


def test_functions_stay_short():
    long = [
        f"{relative(path)}:{node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX
    ]
    assert long == []


def own_tests(path: Path) -> Path:
    """Where the tests of a source file are."""
    if relative(path) == "dafka/storage/log.py":
        return ROOT / "tests/contracts/test_record_log.py"
    return ROOT / "tests" / path.relative_to(ROOT).parent / f"test_{path.name}"


def test_every_source_file_has_its_test_file():
    tested = [
        path
        for path in SOURCES
        if path.name not in NO_TEST_OF_ITS_OWN and relative(path) not in ONLY_VALUES
    ]
    assert [relative(path) for path in tested if not own_tests(path).exists()] == []


def mirrors(path: Path) -> bool:
    """Whether a test file stands where its source file does, or need not."""
    inside = path.relative_to(ROOT / "tests")
    if len(inside.parts) == 1 or inside.parts[0] in WITHOUT_MIRROR or path.name == "conftest.py":
        return True
    name = path.name.removeprefix("test_")
    script = ROOT / inside.parent / "static" / Path(name).with_suffix(".js")
    return (ROOT / inside.parent / name).exists() or script.exists()


def test_every_test_file_mirrors_a_source_file():
    assert [relative(path) for path in TESTS if not mirrors(path)] == []


def test_names_say_what_they_hold():
    assert [relative(path) for path in SOURCES if path.stem in VAGUE_NAMES] == []


def test_nothing_is_left_for_later():
    marks = re.compile(r"#.*\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    marked = [relative(path) for path in SOURCES + TESTS if marks.search(path.read_text())]
    assert marked == []


def test_constructors_take_few_parameters():
    many = [
        (relative(path), kind.name)
        for path in SOURCES
        for kind in ast.walk(ast.parse(path.read_text()))
        if isinstance(kind, ast.ClassDef) and kind.name not in SET_BY_USERS
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        if len(method.args.args) - 1 + len(method.args.kwonlyargs) > PARAMETERS_MAX
    ]
    assert many == []


def patched(call: ast.Call) -> str | None:
    """The name of what a MonkeyPatch replaces by a call, as it is written; None if it is none."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "setattr":
        return None
    first, *others = call.args
    return ast.unparse(first if isinstance(first, ast.Constant) else others[0])


def test_no_constant_is_patched():
    # Times and bounds come in as settings. What is no literal could name any constant.
    permitted = re.compile(r"'(\w+\.)*_*(?![A-Z\d_]+')\w+'")
    names = [
        (relative(path), name)
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and (name := patched(node)) is not None
    ]
    assert [name for name in names if not permitted.fullmatch(name[1])] == []


def test_every_package_is_a_regular_one():
    # A folder without __init__.py is left out of the wheel, and import-linter does not see it.
    assert [path for path in SOURCES if not (path.parent / "__init__.py").exists()] == []


def test_asserts_stay_on():
    # Invariants are asserted in production code; `python -O` would take them away.
    assert __debug__
