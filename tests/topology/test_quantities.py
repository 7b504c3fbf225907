from __future__ import annotations

import pytest

from topology.quantities import bytes_of, seconds_of, shown_bytes


@pytest.mark.parametrize(
    ("text", "number"), [("100", 100), ("1KB", 1_000), (" 2 kib ", 2_048), ("3TB", 3 * 10**12)]
)
def test_bytes(text, number):
    assert bytes_of(text) == number


@pytest.mark.parametrize(("text", "number"), [("90s", 90), ("2h", 7_200), ("7d", 604_800)])
def test_times(text, number):
    assert seconds_of(text) == number


@pytest.mark.parametrize("text", ["", "KB", "-1", "0", "1.5KB", "1XB", "1d", "9" * 16, "\u0661"])
def test_what_is_no_size_is_named(text):
    with pytest.raises(ValueError, match="is not a number of bytes such as"):
        bytes_of(text)


@pytest.mark.parametrize("text", ["", "7", "1w", "0d"])
def test_what_is_no_time_is_named(text):
    with pytest.raises(ValueError, match="is not a time such as"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (999.97, "1.0 KB"), (1_500_000, "1.5 MB"), (2e18, "2,000.0 PB")],
)
def test_bytes_for_people(number, text):
    assert shown_bytes(number) == text
