import pytest

from dafka.words import counted


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 records"), (1, "1 record"), (2, "2 records"), (1_000, "1,000 records")],
)
def test_one_thing_is_not_many(number, text):
    assert counted(number, "record") == text
