import pytest

from dafka.plural import counted


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 records"), (1, "1 record"), (2, "2 records"), (1_000, "1,000 records")],
)
def test_one_thing_is_not_many(number, text):
    assert counted(number, "record") == text


def test_a_sibilant_asks_for_a_vowel():
    assert [counted(number, "batch") for number in (1, 2)] == ["1 batch", "2 batches"]
