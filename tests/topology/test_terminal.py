from __future__ import annotations

import pytest

from topology.terminal import complain, paragraphs, printable, printable_lines, say

CLEAR = "\x1b[2J"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("café [red]", "café [red]"),
        (CLEAR, "\\x1b[2J"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eright to left", "\\u202eright to left"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text, shown):
    assert printable(text) == shown


def test_lines_stay_lines():
    assert printable_lines(f"one\n{CLEAR}") == "one\n\\x1b[2J"


def test_what_is_said_is_shown(capsys):
    say(f"topic {CLEAR}")
    complain("dafka", ValueError(f"store refuses: {CLEAR}"))
    told = capsys.readouterr()
    assert told.out == "topic \\x1b[2J\n"
    assert told.err == "dafka: store refuses: \\x1b[2J\n"


def test_paragraphs_stand_in_a_line_each():
    assert paragraphs("One that\n  goes on.\n\nAnother.\n") == "One that goes on.\n\nAnother."
    assert paragraphs("") == ""
