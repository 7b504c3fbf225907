from __future__ import annotations

from uuid import UUID

import pytest

from dafka.errors import MisuseError
from dafka.gateway.broker import Topic
from dafka.gateway.matched_topics import MatchedTopics
from dafka.gateway.topic_pattern import PATTERNS_KEPT, TopicPattern


class Bench:
    """Topics that come and go, and the names that were matched."""

    def __init__(self, *names):
        self.tried = []
        self.name(*names)
        self.matched = MatchedTopics(lambda: self.topics, self.pattern_of)

    def name(self, *names):
        self.topics = tuple(Topic(name, 1, UUID(int=1), {}) for name in names)

    def pattern_of(self, pattern):
        made, tried = TopicPattern(pattern), self.tried

        class Counted:
            def matches(self, name):
                tried.append(name)
                return made.matches(name)

        return Counted()

    def of(self, pattern):
        self.tried.clear()
        return self.matched.of(pattern), sorted(self.tried)


def test_each_name_is_tried_once():
    bench = Bench("orders", "payments")
    assert bench.of("ord.*") == ({"orders"}, ["orders", "payments"])
    assert bench.of("ord.*") == ({"orders"}, [])
    bench.name("orders", "payments", "orders-eu")
    assert bench.of("ord.*") == ({"orders", "orders-eu"}, ["orders-eu"])
    bench.name("payments", "orders-eu")
    assert bench.of("ord.*") == ({"orders-eu"}, [])
    bench.name("payments", "orders-eu", "orders")
    assert bench.of("ord.*") == ({"orders-eu", "orders"}, ["orders"])
    assert bench.of("pay.*") == ({"payments"}, ["orders", "orders-eu", "payments"])


def test_patterns_that_nobody_asks_for_are_not_kept():
    bench = Bench("orders")
    for number in range(PATTERNS_KEPT):
        bench.of(f"{number}")
    assert bench.of("0")[1] == []
    bench.of("another")
    assert bench.of("0")[1] == []
    assert bench.of("1")[1] == ["orders"]


def test_what_is_no_pattern_is_refused_each_time():
    bench = Bench("orders")
    for _ in range(2):
        with pytest.raises(MisuseError, match="not closed"):
            bench.of("(")
