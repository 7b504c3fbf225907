import pytest

from topology.errors import (
    InvalidError,
    Problem,
    TooLargeError,
    TopologyError,
    UnreadableError,
    below,
    short,
)


def test_every_error_of_the_package_is_caught_by_one_name():
    for error in (UnreadableError, InvalidError, TooLargeError):
        assert issubclass(error, TopologyError)


def test_a_problem_says_where_what_and_what_to_do():
    assert str(Problem("$.name", "'' is not a name", "write one")) == (
        "$.name: '' is not a name (write one)"
    )


def test_a_problem_without_a_hint_ends_with_the_message():
    assert str(Problem("$.name", "it is wrong")) == "$.name: it is wrong"


def test_an_invalid_file_is_told_with_every_problem():
    error = InvalidError("a.yaml", [Problem("$.x", "one", "do", 3), Problem("$.y", "two")])
    assert str(error) == (
        "cannot use a.yaml: 2 problems\n"
        "  $.x  (line 3)\n"
        "      one\n"
        "      hint: do\n"
        "  $.y\n"
        "      two"
    )
    assert [problem.message for problem in error.problems] == ["one", "two"]


def test_one_problem_is_not_called_problems():
    assert str(InvalidError("a.yaml", [Problem("$.x", "one")])).startswith(
        "cannot use a.yaml: 1 problem\n"
    )


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("name", "$.name"),
        (3, "$.3"),
        ("first-port", "$.first-port"),
        ("a.b", "$['a.b']"),
        ("", "$['']"),
        ("\x1b[31m", r"$['\x1b[31m']"),
        ("a" * 70, "$['" + "a" * 56 + "...]"),
    ],
)
def test_a_key_that_is_no_plain_word_is_quoted_in_its_path(key, path):
    assert below("$", key) == path


def test_a_long_value_is_cut_and_escape_codes_are_shown():
    assert short("a" * 1_000) == "'" + "a" * 56 + "..."
    assert short("\x1b\n") == r"'\x1b\n'"
