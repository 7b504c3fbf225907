from __future__ import annotations

import pytest

from dafka.cli.times import duration_ms, moment_ms, time_ms
from dafka.errors import MisuseError

EIGHT = 1_795_420_800_000  # 2026-11-23T08:00:00Z


@pytest.mark.parametrize(
    "given", ["2026-11-23T08:00:00", "2026-11-23 08:00", "2026-11-23T09:00:00+01:00"]
)
def test_a_time_is_in_utc_if_it_says_no_zone(given):
    assert time_ms(given) == moment_ms(given, 0) == EIGHT


@pytest.mark.parametrize(
    ("given", "expected"), [("0s", 0), ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000)]
)
def test_a_duration_is_so_long_ago(given, expected):
    assert duration_ms(given) == expected
    assert moment_ms(given, EIGHT) == EIGHT - expected


@pytest.mark.parametrize("given", ["7d", "1960-01-01"])
def test_nothing_is_before_1970(given):
    assert moment_ms(given, 5) == 0


@pytest.mark.parametrize("given", ["", "yesterday", "10", "10w", "-5m", "2026-13-01"])
def test_what_is_neither_is_refused_with_both(given):
    with pytest.raises(MisuseError, match="write 2026-11-23T08:00:00, or how long ago: 90s"):
        moment_ms(given, EIGHT)
