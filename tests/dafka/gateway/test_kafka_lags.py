"""A round over groups goes on step by step, and is told when it is over."""

from __future__ import annotations

from dafka.gateway.kafka_lags import KafkaLags

ROWS = [("a", 1), ("b", 0), ("a", 2)]


def test_a_round_is_told_once_it_is_over():
    rows = list(ROWS)
    lags = KafkaLags(lambda: tuple(rows))
    assert lags.step() == {}  # nothing was begun
    assert lags.step() == {"a": 3, "b": 0}
    rows.remove(("b", 0))
    assert lags.step() == {"a": 3, "b": 0}  # as it was when the round began
    assert lags.step() == {"a": 3}


def test_a_step_looks_at_so_many():
    seen = []

    def behind():
        for row in ROWS:
            seen.append(row)
            yield row

    lags = KafkaLags(behind)
    assert [lags.step(2) for _ in range(2)] == [{}, {}]
    assert seen == ROWS[:2]
    assert lags.step(2) == {"a": 3, "b": 0}
