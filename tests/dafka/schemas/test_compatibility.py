from __future__ import annotations

import pytest

from dafka.schemas.compatibility import LEVELS, Source, check, obstacles

INT, LONG, TEXT = (Source("AVRO", f'"{name}"') for name in ("int", "long", "string"))


@pytest.mark.parametrize(
    ("level", "new", "earlier", "may"),
    [
        ("NONE", TEXT, [INT], True),
        ("BACKWARD", LONG, [INT], True),
        ("BACKWARD", INT, [LONG], False),
        ("FORWARD", INT, [LONG], True),
        ("FORWARD", LONG, [INT], False),
        ("FULL", LONG, [INT], False),
        ("FULL", INT, [INT], True),
        ("BACKWARD", INT, [TEXT, INT], True),
        ("BACKWARD_TRANSITIVE", INT, [TEXT, INT], False),
        ("FORWARD_TRANSITIVE", INT, [TEXT, LONG], False),
        ("BACKWARD", Source("JSON", "{}"), [INT], False),
    ],
)
def test_levels(level, new, earlier, may):
    assert bool(obstacles(level, new, earlier)) is not may


@pytest.mark.parametrize("level", LEVELS)
def test_the_first_schema_may_always_come(level):
    assert not obstacles(level, INT, [])


def test_a_schema_is_checked_in_its_language():
    check(Source("JSON", "{}"))
    with pytest.raises(ValueError, match="type"):
        check(Source("AVRO", "{}"))
