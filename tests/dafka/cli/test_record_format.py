"""The letters of `dafka consume --format`."""

from __future__ import annotations

import pytest

from dafka.cli.record_format import LETTERS, record_format
from dafka.errors import MisuseError
from dafka.model import Header, Record

HEADERS = (Header("a", b"1"), Header("b", None))
RECORD = Record("orders", "AA", 7, 5, b"key", b"value", HEADERS, 0, 0)
BARE = RECORD._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("text", "full", "bare"),
    [
        ("%t/%p/%o", b"orders/AA/7", b"orders/AA/7"),
        (r"%k\t%s\n", b"key\tvalue\n", b"NULL\tNULL\n"),
        ("%v", b"value", b"NULL"),
        ("%K %S", b"3 5", b"-1 -1"),
        ("%T%%", b"5%", b"5%"),
        ("[%h]", b"[a=1,b=NULL]", b"[]"),
        (r"\\n\0\r", b"\\n\0\r", b"\\n\0\r"),
        ("grün", "grün".encode(), "grün".encode()),
        ("", b"", b""),
    ],
)
def test_letters(text, full, bare):
    assert record_format(text)(RECORD) == full
    assert record_format(text)(BARE) == bare


@pytest.mark.parametrize("text", ["%", "%x", "a\\", "\\q"])
def test_what_means_nothing_is_refused(text):
    with pytest.raises(MisuseError, match="--format knows no"):
        record_format(text)


def test_every_letter_prints():
    assert all(print_(RECORD) for _, print_ in LETTERS.values())
