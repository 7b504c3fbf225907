from __future__ import annotations

import random
import re
import time

import pytest

from dafka.errors import MisuseError
from dafka.gateway.topic_pattern import (
    CHARACTERS,
    DEPTH_MAX,
    PATTERN_CHARACTERS_MAX,
    TopicPattern,
    pattern_of,
)

NAMES = ["orders", "orders-eu", "orders.2", "Orders", "payments", "o", "a-b_c.9"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("orders", ["orders"]),
        ("^orders$", ["orders"]),
        ("^orders.*", ["orders", "orders-eu", "orders.2"]),
        (r"orders\.\d+", ["orders.2"]),
        (r"(?i)ORDERS|^pay\w+$", ["orders", "Orders", "payments"]),
        ("(?P<what>orders|payments)(?:-(?<where>eu|us))?", ["orders", "orders-eu", "payments"]),
        ("[^a-z].*", ["Orders"]),
        ("[]o.-]", ["o"]),
        (r"[\w.-]{7,8}", ["payments", "orders.2", "a-b_c.9"]),
        ("(^o|^pay.*$)", ["payments", "o"]),
        ("", []),
        ("o*?(rders)+", ["orders"]),
        (r"\S{6}", ["orders", "Orders"]),
    ],
)
def test_whole_names_are_matched(pattern, matched):
    one = TopicPattern(pattern)
    assert sorted(name for name in NAMES if one.matches(name)) == sorted(matched)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(",
            ")",
            "a)",
            "[",
            "[a",
            "[b-a]",
            "*",
            "a**",
            "a{2}{3}",
            "a{",
            "a{x}",
            "a{3,2}",
            "a{,3}",
        ),
        *(
            "a{1001}",
            "(?=a)",
            "(?<!a)",
            r"\b",
            r"(a)\1",
            r"\pL",
            "[[:alpha:]]",
            "a^",
            "$a",
            "(a$)b",
        ),
        *("(a$)*", "x(^a)", "\\", "(?P<a-b>c)", "|*", "a++"),
    ],
)
def test_what_is_not_served_is_refused(pattern):
    with pytest.raises(MisuseError):
        TopicPattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a|b)*a" + "(a|b)" * 20,
        "((((a{30}){30}){30}){30})",
        "(((((){1000}){1000}){1000}){1000})",
        "(" * (DEPTH_MAX + 1) + ")" * (DEPTH_MAX + 1),
        "a" * (PATTERN_CHARACTERS_MAX + 1),
        "[a-z]*" * 400 + "x{1000}",
        "(?:a*){990}",
        "(a?){990}" + "()" * 1_900,
    ],
)
def test_what_would_take_long_is_refused_soon(pattern):
    began_s = time.process_time()
    with pytest.raises(MisuseError):
        TopicPattern(pattern)
    assert time.process_time() - began_s < 10


def test_what_others_go_back_for_is_matched_at_once():
    began_s = time.process_time()
    assert not TopicPattern("(a+)+b|(a|a)*c|([a-z]+)*d").matches("a" * 249)
    assert time.process_time() - began_s < 5


def drawn(chance, depth=0):
    """A pattern that Python's `re` reads likewise."""
    kind = chance.randrange(8) if depth < 3 else 0
    if kind in (0, 1):
        return chance.choice(["a", "b", ".", "[ab]", "[^a]", r"\d", "_", r"\."])
    if kind in (2, 3):
        return "".join(drawn(chance, depth + 1) for _ in range(chance.randint(0, 4)))
    if kind == 4:
        return "(" + "|".join(drawn(chance, depth + 1) for _ in range(chance.randint(1, 3))) + ")"
    sign = chance.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?"])
    return f"(?:{drawn(chance, depth + 1)}){sign}"


def test_it_agrees_with_a_second_opinion():
    chance = random.Random(7)
    seen = [0, 0]
    for _ in range(800):
        pattern = drawn(chance)
        one, other = TopicPattern(pattern), re.compile(pattern)
        for _ in range(10):
            name = "".join(chance.choice("ab_.0") for _ in range(chance.randint(0, 5)))
            expected = other.fullmatch(name) is not None
            assert one.matches(name) == expected, (pattern, name)
            seen[expected] += 1
    assert min(seen) > 500


def test_any_text_is_a_pattern_or_refused():
    chance = random.Random(8)
    for _ in range(5_000):
        text = "".join(chance.choice("ab()[]{}|*+?^$.\\-,:<>P12Qi\0é") for _ in range(12))
        try:
            TopicPattern(text).matches(CHARACTERS)
        except MisuseError:
            continue


def test_a_pattern_is_made_once():
    assert pattern_of("orders.*") is pattern_of("orders.*")
